from datetime import UTC, datetime

import pyarrow as pa
import pytest

from parapet.schemas.rows import DISPOSITIONS, RESPONSES, AuditRow, audit_table

START = 1_500_000_000
USED = AuditRow(
    "3XYZ:slot_0", "Taxi_1/slot/to", "name", "Where To", "where_to", "used", "", 3, 6.0, "ab12", START, START + 60, 60
)
BLANK = AuditRow(
    "3XYZ:slot_1", "Taxi_1/slot/fare", "name", " ", "", "rejected", "blank", None, None, "", None, None, None
)


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


def test_rows_become_arrow():
    table = audit_table([USED, BLANK])
    assert table.schema == RESPONSES
    first, second = table.to_pylist()
    assert first == {
        "response_id": "3XYZ:slot_0",
        "element_id": "Taxi_1/slot/to",
        "field": "name",
        "text": "Where To",
        "canonical": "where_to",
        "disposition": "used",
        "reason": "",
        "variant": 3,
        "distance": 6.0,
        "worker_hash": "ab12",
        "accept_time": datetime(2017, 7, 14, 2, 40, tzinfo=UTC),
        "submit_time": datetime(2017, 7, 14, 2, 41, tzinfo=UTC),
        "work_seconds": 60,
    }
    nullable = {field.name for field in RESPONSES if field.nullable}
    assert {name for name, value in second.items() if value is None} == nullable
    assert (second["text"], second["canonical"], second["reason"]) == (" ", "", "blank")


def test_no_rows_have_the_columns_too():
    assert audit_table([]).schema == RESPONSES
    assert audit_table([]).num_rows == 0


def test_a_variant_must_be_a_small_number():
    bad = AuditRow("r", "e", "name", "", "", "used", "", 1_000, None, "", None, None, None)
    with pytest.raises(pa.ArrowInvalid):
        audit_table([bad])
