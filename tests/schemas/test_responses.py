from parapet.schemas.rows import DISPOSITIONS, RESPONSES, audit_table


def test_the_contract_of_the_columns():
    assert RESPONSES.names == [
        "response_id",
        "element_id",
        "field",
        "text",
        "canonical",
        "disposition",
        "reason",
        "variant",
        "distance",
        "worker_hash",
        "accept_time",
        "submit_time",
        "work_seconds",
    ]
    assert set(DISPOSITIONS) == {"used", "surplus", "duplicate", "rejected", "review"}


def test_no_rows_have_the_columns_too():
    assert audit_table([]).schema == RESPONSES
    assert audit_table([]).num_rows == 0
