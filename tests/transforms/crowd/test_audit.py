import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.responses import DISPOSITIONS, RESPONSES, AuditRow, audit_table
from parapet.transforms.crowd import audit

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIME = st.none() | st.integers(0, 2**33)
ROWS = st.builds(
    AuditRow,
    TEXT,
    TEXT,
    st.sampled_from(["name", "description"]),
    TEXT,
    TEXT,
    st.sampled_from(DISPOSITIONS),
    TEXT,
    st.none() | st.integers(1, 5),
    st.none() | st.floats(0, 100),
    TEXT,
    TIME,
    TIME,
    st.none() | st.integers(-(2**40), 2**40),
)


# Parquet knows no seconds: its times are milliseconds.
IN_PARQUET = pa.schema(
    [f.with_type(pa.timestamp("ms", tz="UTC")) if f.name.endswith("_time") else f for f in RESPONSES]
)


def written(services):
    sink = io.BytesIO()
    audit.write([audit.unpack(audit.pack(rows)) for rows in services], sink)
    return sink.getvalue()


def row(i):
    return AuditRow(
        f"3A:{i}", "Taxi_1/slot/to", "name", str(i), str(i), "surplus", "not_drawn", None, 1.0, "ab", 1, 2, 1
    )


@given(st.lists(st.lists(ROWS, max_size=4), max_size=4))
@settings(deadline=None)
def test_rows_come_back_in_the_order_given(services):
    found = pq.read_table(io.BytesIO(written(services)))
    assert found.schema.equals(IN_PARQUET)
    assert found.to_pylist() == audit_table([one for rows in services for one in rows]).to_pylist()


@given(st.lists(st.lists(ROWS, max_size=3), max_size=3))
@settings(deadline=None)
def test_the_same_rows_give_the_same_bytes(services):
    assert written(services) == written(services)
    assert [audit.pack(rows) for rows in services] == [audit.pack(list(rows)) for rows in services]


@pytest.mark.parametrize("services", [[], [[]], [[], []]])
def test_no_answers_make_a_file_with_the_columns(services):
    found = pq.read_table(io.BytesIO(written(services)))
    assert found.schema.equals(IN_PARQUET)
    assert found.num_rows == 0


def test_row_groups_are_even_however_the_services_fall(monkeypatch):
    monkeypatch.setattr(audit, "_ROW_GROUP_SIZE", 10)
    rows = [row(i) for i in range(47)]
    for sizes in ([47], [10, 20, 17], [3] * 15 + [2], [1, 45, 0, 1]):
        services, start = [], 0
        for size in sizes:
            services.append(rows[start : start + size])
            start += size
        file = pq.ParquetFile(io.BytesIO(written(services)))
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert groups == [10, 10, 10, 10, 7]
        assert file.read().to_pylist() == audit_table(rows).to_pylist()


def test_a_file_larger_than_a_group():
    rows = [row(i) for i in range((1 << 16) + 5)]
    file = pq.ParquetFile(io.BytesIO(written([rows[:70], rows[70:]])))
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [1 << 16, 5]
    assert file.read(["text"]).column("text").to_pylist() == [str(i) for i in range((1 << 16) + 5)]
