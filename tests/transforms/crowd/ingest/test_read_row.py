"""Records of other programs, such as rows of a table in a warehouse."""

import datetime
import decimal
import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from ingested import KEY, WORKERS, read_file
from kit import cases
from test_api_assignments import COLLECTED, item
from test_batch_csv import ROW

from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd.answer_files import read_row

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
    assert letter.reason == "broken_row: expected an object, found list"
    assert (letter.key, letter.payload[:10]) == ("table: 7", "[not shown")


def test_half_a_surrogate_pair_is_replaced():
    rows = ({**ROW, "Answer.slot_0": "x\ud800"}, {**COLLECTED, "Answers": {"slot_0": "x\ud800"}})
    assert [one(row).answers["slot_0"] for row in rows] == ["x?", "x?"]
