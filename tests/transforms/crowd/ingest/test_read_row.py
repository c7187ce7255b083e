"""Records of other programs, such as rows of a table in a warehouse."""

import datetime
import decimal
import json
import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from ingested import KEY, WORKERS, read_file
from kit import cases
from msgspec.structs import astuple
from test_api_assignments import COLLECTED, item
from test_batch_csv import ROW

from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd.answer_files import read_row
from parapet.transforms.crowd.worker_ids import without_ids

ACCEPTED = datetime.datetime(2017, 10, 31, 21, 5, 22, tzinfo=datetime.UTC)
# Nearly right: what stands in a field is of any kind.
VALUES = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.dates()
    | st.lists(st.text(), max_size=2)
)
NAMES = st.sampled_from([*ROW, *item(), *COLLECTED, "Answer.taskAnswers", "Input.fields"])


def one(row, **more):
    (record,) = read_row({**row, **more}, KEY, "table: 7")
    return record


def test_values_of_a_table_need_not_be_text():
    times = {"AcceptTime": ACCEPTED, "SubmitTime": ACCEPTED + datetime.timedelta(minutes=1)}
    typed = {"WorkTimeInSeconds": decimal.Decimal(60), "Approve": None, "Reject": None, "Source": None}
    record = one(ROW, **times, **typed, **{"Answer.slot_0": 3, "Answer.slot_1": None})
    assert record == one(ROW, **{"Answer.slot_0": "3"})
    assert (record.accept_time, record.work_seconds, record.source) == (1509483922, 60, "table: 7")


@cases("row", ROW, item(), COLLECTED)
def test_a_line_of_json_is_the_same_record(row):
    (line,) = read_file("table", json.dumps(row).encode())
    (record,) = read_row(row, KEY, "table: row 1")
    assert record == line
    assert record.answers["slot_0"] == "where_to"


@given(st.dictionaries(NAMES, VALUES), st.sampled_from([ROW, item(), COLLECTED, {}]))
def test_no_row_raises(changes, row):
    records = list(read_row({**row, **changes}, KEY, "table: 7"))
    assert all(isinstance(record, Assignment | DeadLetter) for record in records)
    assert not any(worker in repr(record) for record in records for worker in WORKERS)
    assert records
    assert msgspec.json.encode(records)  # half surrogate pairs could not be written


def test_a_row_that_is_no_mapping_is_not_shown():
    letter = next(read_row([ROW], KEY, "table: 7"))
    assert (letter.reason, letter.payload[:10]) == ("broken_row: expected an object, found list", "[not shown")


def test_half_a_surrogate_pair_is_replaced():
    assert one(ROW, **{"Answer.slot_0": "x\ud800"}).answers["slot_0"] == "x?"
    assert one(COLLECTED, Answers={"slot_0": "x\ud800"}).answers == {"slot_0": "x?"}


@given(
    st.sampled_from([b"AssignmentId,WorkerId,Answer.slot_0\n", b"{}\n"]),
    st.binary(max_size=30),
    st.sampled_from([WORKERS[0], WORKERS[0].lower()]),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "latin-1"]),
    st.binary(max_size=30),
)
def test_rows_of_any_bytes_keep_the_id(head, before, worker, encoding, after):
    """The row may be cut, be of another encoding, or have any bytes around the id."""
    for record in read_file("f", head + before + worker.encode(encoding) + after + b"\n"):
        is_dead = isinstance(record, DeadLetter)
        shown = repr(astuple(without_ids(record))) if is_dead else repr(record.answers) + record.assignment_id
        assert WORKERS[0].lower() not in re.sub(r"[^a-z0-9]", "", shown.lower())
