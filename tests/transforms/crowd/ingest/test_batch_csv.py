import csv
import io

from hypothesis import given
from hypothesis import strategies as st
from ingested import KEY, WORKERS, assignments, check_letters, dead, read_file
from kit import cases, raised, write

from parapet.schemas import limits
from parapet.schemas.errors import InputError
from parapet.transforms.crowd import answer_files
from parapet.transforms.crowd.ingest import read_answers

ROW = {
    "HITId": "3UTUFR8I7SU94H6K4GNX6E3FVQ4DLT",
    "RequesterAnnotation": "BatchId:7;OriginalHitTemplateId:8;",
    "AssignmentId": "3A",
    "WorkerId": WORKERS[0],
    "AssignmentStatus": "Submitted",
    "AcceptTime": "Tue Oct 31 14:05:22 PDT 2017",
    "SubmitTime": "Tue Oct 31 14:06:22 PDT 2017",
    "WorkTimeInSeconds": "60",
    "Input.task_id": "Taxi_1:names",
    "Answer.intent_0": "BookTaxi",
    "Answer.slot_0": "where_to",
    "Answer.slot_1": "",
    "Approve": "",
}


def table(*rows, columns=None, delimiter=",", end="\r\n"):
    """Rows as a batch export; each is what differs from ROW."""
    columns = columns or list(dict.fromkeys([*ROW, *[name for row in rows for name in row]]))
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end, delimiter=delimiter)
    writer.writerow(columns)
    writer.writerows([{**ROW, **row}.get(name, "") for name in columns] for row in rows)
    return out.getvalue().encode()


def read(data, encoding="utf-8"):
    return read_file("names.csv", data, encoding)


# --- good rows -------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_answer_comes_through(text):
    (one,) = read(table({"Answer.slot_0": text}))
    assert one.answers["slot_0"] == text.replace("\r\n", "\n").replace("\r", "\n")


@cases("delimiter", ";", "\t")
@cases("encoding", "utf-8", "utf-8-sig", "utf-16")
def test_spreadsheets_separate_cells_otherwise(delimiter, encoding):
    rows = [{"AssignmentId": f"3{n}", "Answer.slot_0": text} for n, text in enumerate(("a, b", "c; d", "e\tf"))]
    text = table(*rows, {"WorkTimeInSeconds": "60,5", "AcceptTime": ""}, delimiter=delimiter).decode()
    *found, last = read(text.encode(encoding))
    assert [one.answers["slot_0"] for one in found] == ["a, b", "c; d", "e\tf"]
    assert last.work_seconds == 60


def test_columns_without_a_name_are_left_out():
    assert len(read(table({"Answer.slot_0": "where to"}).replace(b"\r\n", b",,\r\n"))) == 1


def test_the_requesters_rejections_count():
    rows = [{"Reject": "careless"}, {"Approve": "X"}, {"AssignmentStatus": " rejected "}, {"Reject": " "}]
    found = read(table(*({"AssignmentId": f"3{n}", **row} for n, row in enumerate(rows))))
    assert [one.rejected for one in found] == [True, False, True, False]


def test_numbers_of_assignments_and_workers_may_be_equal():
    """Turkle counts both from 1; names in both columns are still refused."""
    one, two, other = read(table(*({"AssignmentId": text, "WorkerId": text} for text in ("3", "12", "anna"))))
    assert (one.assignment_id, two.assignment_id) == ("3", "12")
    assert other.reason == "no_assignment_id: the AssignmentId is the WorkerId"


@cases("data", table({}, columns=[name for name in ROW if name != "WorkerId"]), table({"WorkerId": " "}))
def test_worker_ids_may_be_missing(data):
    (one,) = read(data)
    assert (one.assignment_id, one.worker_hash) == ("3A", "")


@cases("form", " {} ", "{0},{0}", "{0} {0}", "{0}; {0}", "A3ZOY R34V3P4T6")
def test_an_id_has_one_hash_however_it_is_typed(form):
    answer = f"by {WORKERS[0][:3]} {WORKERS[0][3:]}"
    one, plain = read(table({"WorkerId": form.format(WORKERS[0]), "Answer.slot_0": answer}, {}))
    assert (one.worker_hash, one.answers["slot_0"]) == (plain.worker_hash, "by [worker id]")


@cases("worker shown", ("anna", "{}-names"), ("A1B2", "{}_names"), ("7", "7-names"))
def test_an_id_in_the_id_of_an_assignment_becomes_its_hash(worker, shown):
    (one,) = read(table({"WorkerId": worker, "AssignmentId": shown.format(worker)}))
    assert one.assignment_id == shown.format(one.worker_hash)


def test_times_that_cannot_be_read_are_told():
    (one,) = read(table({"AcceptTime": "10/11/2017 14:05", "SubmitTime": "soon"}))
    assert (one.accept_time, one.submit_time, one.work_seconds) == (None, None, 60)
    assert [text.split(" is ")[0] for text in one.unread] == ["AcceptTime '10/11/2017 14:05'", "SubmitTime 'soon'"]


def test_blank_rows_are_nothing():
    header, row, _ = table({}).split(b"\r\n")
    blank = b"," * (len(ROW) - 1)
    rows = [header, blank, row, b'"' + blank.replace(b",", b'","') + b'"', b",,", b" , ;", b""]
    assert [one.source for one in read(b"\r\n".join(rows))] == ["names.csv: row 3"]


def test_a_file_that_is_none_of_answers_ends_the_run_before_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BAD_ROWS", 3)
    path = write(tmp_path / "names.csv", table({}, *[{"AssignmentId": ""}] * 9))
    error = raised(InputError, lambda: list(read_answers(str(path), KEY)))
    assert error.reason.startswith("4 of the first 5 rows cannot be used (first ")
    good = write(tmp_path / "good.csv", table(*[{"AssignmentId": "3"}] * 5, *[{"AssignmentId": ""}] * 5))
    assert len(list(read_answers(str(good), KEY))) == 10


@cases("source platform", ("", "mturk"), ("in_house", "in_house"), ("LLM", "llm"))
def test_a_column_may_name_the_source(source, platform):
    (one,) = read(table({"Source": source}))
    assert (one.platform, one.rejected) == (platform, False)


# --- headers ---------------------------------------------------------------------------------------------------------


@cases(
    "data where reason",
    (b"", "", "the file is empty"),
    (b"\r\n \r\n", "", "the file is empty"),
    (table({}, columns=["HITId", "WorkerId", "Answer.slot_0"]), "row 1",
     "not a file of batch results: the header lacks AssignmentId"),
    (table({}, columns=["HITId", "Input.x"]), "row 1", "the header lacks AssignmentId, WorkerId, Answer.*"),
    (table({}, columns=["AssignmentId", "WorkerId", "Input.x"]), "row 1",
     "not a file of batch results: the header lacks Answer.*"),
    (table({}, columns=[*ROW, "Answer.slot_0", "HITId"]), "row 1",
     "these columns appear twice in the header: Answer.slot_0, HITId"),
    (table({}).decode().encode("utf-16-le"), "row 1", "the file looks like UTF-16: save it as UTF-8"),
    (b'"AssignmentId,WorkerId\r\n3A,x\r\n', "row 1", ("the header cannot be read: broken_row: "
        "a quote is not closed")),
    ("Assignmènt\r\n".encode("latin-1"), "row 1", "the header cannot be read: encoding: the row is not UTF-8"),
    (table({}).replace(b'"', b"").decode().encode("utf-16-be"), "row 1",
     "the file looks like UTF-16: save it as UTF-8"),
)  # fmt: skip
def test_files_without_a_usable_header(data, where, reason):
    (letter,) = read(data)
    assert letter.reason.startswith(f"unusable_file: names.csv: {where}")
    assert reason in letter.reason


def test_a_workbook_is_told_to_be_saved_as_csv(tmp_path):
    path = write(tmp_path / "names.xlsx", b"PK\x03\x04\x14\x00")
    (letter,) = answer_files.read_responses(str(path), KEY, "utf-8")
    assert letter.reason.endswith("names.xlsx: is a zip file, not text: if it is a workbook, save it as CSV")


# --- bad rows --------------------------------------------------------------------------------------------------------


@cases(
    "row key reason",
    ({"AssignmentId": " "}, "names.csv: row 3", "no_assignment_id: the AssignmentId is missing"),
    ({"Input.task_id": ""}, "3B", "no_task: add the column RequesterAnnotation"),
    ({"Input.task_id": "", "Input.service_name": "Taxi_1", "Input.task": "poems"}, "3B",
     "unknown_task: 'poems' must be one of names, descriptions"),
    ({"RequesterAnnotation": "Bus_1:names"}, "3B",
     "contradicting_task: the record names Bus_1:names and Taxi_1:names"),
    ({"Answer.taskAnswers": "{"}, "3B", "task_answers: expected a JSON list"),
    ({"Answer.taskAnswers": '{"slot_0": "other"}', "Answer.slot_0": "x"}, "3B",
     "task_answers: field 'slot_0' is answered twice, differently"),
    ({"Source": "nobody"}, "3B", "broken_row: Source 'nobody' must be one of mturk, prolific, in_house, llm"),
)  # fmt: skip
@cases("worker", *WORKERS, "someone@example.org", "w7")
def test_a_row_that_cannot_be_used(row, key, reason, worker):
    found = read(table({}, {"AssignmentId": "3B", "WorkerId": worker, **row}, {"AssignmentId": "3C"}))
    assert list(assignments(found)) == ["3A", "3C"]
    check_letters(found, "names.csv: row 3")
    (letter,) = dead(found)
    assert letter.key == key
    assert letter.reason.startswith(reason)
    assert "intent_0=BookTaxi" in letter.payload
    assert worker not in letter.payload


@given(st.lists(st.binary(max_size=30), max_size=4), st.booleans())
def test_no_bytes_end_the_file(rows, between):
    """Whatever stands between good rows, the good ones come and no exception rises."""
    good = table({}, {"AssignmentId": "3C"}).split(b"\r\n")
    rows = [row.replace(b"\n", b" ") for row in rows]
    lines = [good[0], good[1], *rows, good[2], b""] if between else [*rows, *good]
    found = read(b"\r\n".join(lines))
    if between:
        assert {"3A", "3C"} <= assignments(found).keys() | {letter.key for letter in dead(found)}
