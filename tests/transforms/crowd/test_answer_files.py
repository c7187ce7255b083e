"""What the readers of answers find: rows of CSV, JSON of MTurk's API and of collect, and records of other programs."""

import codecs
import csv
import decimal
import io
import json
import re
import time
from datetime import UTC, datetime, timedelta
from unittest import mock
from xml.sax.saxutils import escape

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from kit import cases, holding, quoted, raised, write
from msgspec.structs import astuple

from parapet.schemas import limits
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd import answer_files
from parapet.transforms.crowd.answer_files import parse_answer_xml, read_lines, read_records, read_row
from parapet.transforms.crowd.ingest import read_answers
from parapet.transforms.crowd.worker_ids import without_ids

KEY = b"a key of at least sixteen bytes"
WORKERS = ["A3ZOYR34V3P4T6", "A1ROEDVMTO9Y3X", "AXXXXXXXXXXXXX"]


def read_file(name, data, encoding="utf-8"):
    """The records of a file with these bytes."""
    with mock.patch.object(answer_files, "open_input", return_value=io.BufferedReader(io.BytesIO(data))):
        return list(answer_files.read_responses(name, KEY, encoding))


def assignments(found):
    return {one.assignment_id: one for one in found if isinstance(one, Assignment)}


def dead(found):
    return [one for one in found if isinstance(one, DeadLetter)]


def reasons(found):
    return [(letter.key, letter.reason) for letter in dead(found)]


def check_letters(found, source):
    """Every dead letter is of one row, and names no worker."""
    for letter in dead(found):
        assert (letter.stage, letter.source) == ("ingest", source)
        assert not holding(letter.payload + letter.key + letter.reason, *WORKERS)


IDS = {"AssignmentId": "3A", "WorkerId": WORKERS[0], "AssignmentStatus": "Submitted"}
ROW = {
    **{"HITId": "3UTUFR8I7SU94H6K4GNX6E3FVQ4DLT", "RequesterAnnotation": "BatchId:7;OriginalHitTemplateId:8;", **IDS},
    **{"AcceptTime": "Tue Oct 31 14:05:22 PDT 2017", "SubmitTime": "Tue Oct 31 14:06:22 PDT 2017"},
    **{"WorkTimeInSeconds": "60", "Input.task_id": "Taxi_1:names", "Answer.intent_0": "BookTaxi"},
    **{"Answer.slot_0": "where_to", "Answer.slot_1": "", "Approve": ""},
}


def table(*rows, columns=None):
    """Rows as a batch export; each is what differs from ROW."""
    columns = columns or list(dict.fromkeys([*ROW, *[name for row in rows for name in row]]))
    return quoted([columns, *([{**ROW, **row}.get(name, "") for name in columns] for row in rows)]).encode()


def read_csv(data):
    return read_file("names.csv", data)


# --- good rows -------------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_answer_comes_through(text):
    (one,) = read_csv(table({"Answer.slot_0": text}))
    assert one.answers["slot_0"] == text.replace("\r\n", "\n").replace("\r", "\n")


@cases("delimiter", ";", "\t")
@cases("encoding", "utf-8", "utf-8-sig", "utf-16")
def test_spreadsheets_separate_cells_otherwise(delimiter, encoding):
    rows = [{"AssignmentId": f"3{n}", "Answer.slot_0": text} for n, text in enumerate(("a, b", "c; d", "e\tf"))]
    text = table(*rows, {"WorkTimeInSeconds": "60,5", "AcceptTime": ""}).decode().replace('","', f'"{delimiter}"')
    *found, last = read_csv(text.encode(encoding))
    assert ([one.answers["slot_0"] for one in found], last.work_seconds) == (["a, b", "c; d", "e\tf"], 60)


def test_the_requesters_rejections_count():
    rows = [{"Reject": "careless"}, {"Approve": "X"}, {"AssignmentStatus": " rejected "}, {"Reject": " "}]
    found = read_csv(table(*({"AssignmentId": f"3{n}", **row} for n, row in enumerate(rows))))
    assert [one.rejected for one in found] == [True, False, True, False]


def test_numbers_of_assignments_and_workers_may_be_equal():
    """Turkle counts both from 1; names in both columns are still refused."""
    one, two, other = read_csv(table(*({"AssignmentId": text, "WorkerId": text} for text in ("3", "12", "anna"))))
    assert (one.assignment_id, two.assignment_id) == ("3", "12")
    assert other.reason == "no_assignment_id: the AssignmentId is the WorkerId"


def test_worker_ids_may_be_missing():
    for data in (table({}, columns=[name for name in ROW if name != "WorkerId"]), table({"WorkerId": " "})):
        assert [(one.assignment_id, one.worker_hash) for one in read_csv(data)] == [("3A", "")]


@cases("form", " {} ", "{0},{0}", "{0} {0}", "{0}; {0}", "A3ZOY R34V3P4T6")
def test_an_id_has_one_hash_however_it_is_typed(form):
    answer = f"by {WORKERS[0][:3]} {WORKERS[0][3:]}"
    one, plain = read_csv(table({"WorkerId": form.format(WORKERS[0]), "Answer.slot_0": answer}, {}))
    assert (one.worker_hash, one.answers["slot_0"]) == (plain.worker_hash, "by [worker id]")


@cases("worker shown", ("anna", "{}-names"), ("A1B2", "{}_names"), ("7", "7-names"))
def test_an_id_in_the_id_of_an_assignment_becomes_its_hash(worker, shown):
    (one,) = read_csv(table({"WorkerId": worker, "AssignmentId": shown.format(worker)}))
    assert one.assignment_id == shown.format(one.worker_hash)


def test_times_that_cannot_be_read_are_told():
    (one,) = read_csv(table({"AcceptTime": "10/11/2017 14:05", "SubmitTime": "soon"}))
    assert (one.accept_time, one.submit_time, one.work_seconds) == (None, None, 60)
    assert [text.split(" is ")[0] for text in one.unread] == ["AcceptTime '10/11/2017 14:05'", "SubmitTime 'soon'"]


def test_blank_rows_are_nothing():
    header, row, _ = table({}).split(b"\r\n")
    blank = b"," * (len(ROW) - 1)
    rows = [header, blank, row, b'"' + blank.replace(b",", b'","') + b'"', b",,", b" , ;", b""]
    assert [one.source for one in read_csv(b"\r\n".join(rows))] == ["names.csv: row 3"]
    assert len(read_csv(table({}).replace(b"\r\n", b",,\r\n"))) == 1  # nor are columns without a name anything
    found = read_api(b"", item(), b"  \r", item(AssignmentId="3B"))
    assert [one.source for one in found] == ["api.jsonl: row 2", "api.jsonl: row 4"]


def test_a_file_that_is_none_of_answers_ends_the_run_before_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_BAD_ROWS", 3)
    path = write(tmp_path / "names.csv", table({}, *[{"AssignmentId": ""}] * 9))
    error = raised(InputError, lambda: list(read_answers(str(path), KEY)))
    assert error.reason.startswith("4 of the first 5 rows cannot be used (first ")
    good = write(tmp_path / "good.csv", table(*[{"AssignmentId": "3"}] * 5, *[{"AssignmentId": ""}] * 5))
    assert len(list(read_answers(str(good), KEY))) == 10


@cases("source platform", ("", "mturk"), ("in_house", "in_house"), ("LLM", "llm"))
def test_a_column_may_name_the_source(source, platform):
    (one,) = read_csv(table({"Source": source}))
    assert (one.platform, one.rejected) == (platform, False)


# --- headers ---------------------------------------------------------------------------------------------------------


@cases(
    "data where reason",
    (b"", "", "the file is empty"),
    (table({}, columns=["HITId", "WorkerId", "Answer.slot_0"]), "row 1",
     "not a file of batch results: the header lacks AssignmentId"),
    (table({}, columns=[*ROW, "Answer.slot_0", "HITId"]), "row 1",
     "these columns appear twice in the header: Answer.slot_0, HITId"),
    (b'"AssignmentId,WorkerId\r\n3A,x\r\n', "row 1", "cannot be read: broken_row: a quote is not closed"),
    ("Assignmènt\r\n".encode("latin-1"), "row 1", "the header cannot be read: encoding: the row is not UTF-8"),
    (table({}).replace(b'"', b"").decode().encode("utf-16-be"), "row 1", "looks like UTF-16: save it as UTF-8"),
)  # fmt: skip
def test_files_without_a_usable_header(data, where, reason):
    (letter,) = read_csv(data)
    assert letter.reason.startswith(f"unusable_file: names.csv: {where}")
    assert reason in letter.reason


def test_a_workbook_is_told_to_be_saved_as_csv(tmp_path):
    path = write(tmp_path / "names.xlsx", b"PK\x03\x04\x14\x00")
    (letter,) = answer_files.read_responses(str(path), KEY, "utf-8")
    assert letter.reason.endswith("names.xlsx: is a zip file, not text: if it is a workbook, save it as CSV")


# --- bad rows --------------------------------------------------------------------------------------------------------


CONTRADICTION = "contradicting_task: the record names Bus_1:names and Taxi_1:names"


@cases(
    "row key reason",
    ({"AssignmentId": " "}, "names.csv: row 3", "no_assignment_id: the AssignmentId is missing"),
    ({"Input.task_id": ""}, "3B", "no_task: add the column RequesterAnnotation"),
    ({"Input.task_id": "", "Input.service_name": "Taxi_1", "Input.task": "poems"}, "3B",
     "unknown_task: 'poems' must be one of names, descriptions"),
    ({"RequesterAnnotation": "Bus_1:names"}, "3B", CONTRADICTION),
    ({"Input.task_id": "Taxi_1"}, "3B", "unknown_task: Input.task_id 'Taxi_1' is not of the form SERVICE:names"),
    ({"Input.service_name": "Bus_1", "Input.task": "names"}, "3B", CONTRADICTION),
    ({"Answer.taskAnswers": "{"}, "3B", "task_answers: expected a JSON list"),
    ({"Answer.taskAnswers": '[{"slot_0": "a"}, {"slot_0": "b"}]'}, "3B", "task_answers: expected a JSON list of one"),
    ({"Answer.taskAnswers": '{"slot_0": "x"}'}, "3B", "task_answers: field 'slot_0' is answered twice, differently"),
    ({"Source": "nobody"}, "3B", "broken_row: Source 'nobody' must be one of mturk, prolific, in_house, llm"),
)  # fmt: skip
@cases("worker", *WORKERS, "someone@example.org", "w7")
def test_a_row_that_cannot_be_used(row, key, reason, worker):
    found = read_csv(table({}, {"AssignmentId": "3B", "WorkerId": worker, **row}, {"AssignmentId": "3C"}))
    assert list(assignments(found)) == ["3A", "3C"]
    check_letters(found, "names.csv: row 3")
    (letter,) = dead(found)
    assert (letter.key, letter.reason[: len(reason)]) == (key, reason)
    assert ("intent_0=BookTaxi" in letter.payload, worker in letter.payload) == (True, False)


@given(st.lists(st.binary(max_size=30), max_size=4), st.booleans())
def test_no_bytes_end_the_file(rows, between):
    """Whatever stands between good rows, the good ones come and no exception rises."""
    head, first, *last = table({}, {"AssignmentId": "3C"}).split(b"\r\n")
    rows = [row.replace(b"\n", b" ") for row in rows]
    found = read_csv(b"\r\n".join([head, first, *rows, *last] if between else [*rows, head, first, *last]))
    if between:
        assert {"3A", "3C"} <= assignments(found).keys() | {letter.key for letter in dead(found)}


XSD = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
# Characters that XML 1.0 can hold, those that it escapes more often than chance.
XML_TEXT = st.text(
    st.sampled_from("<>&\"']]>\t\n\r é中😀\u2028\x85")
    | st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
)


def xml(answers, declaration='<?xml version="1.0" encoding="ASCII"?>'):
    # A carriage return survives XML only as a reference.
    form = "<Answer><QuestionIdentifier>{}</QuestionIdentifier><FreeText>{}</FreeText></Answer>"
    inner = "".join(form.format(name, escape(text, {"\r": "&#13;"})) for name, text in answers.items())
    return f'{declaration}<QuestionFormAnswers xmlns="{XSD}">{inner}</QuestionFormAnswers>'


def item(**more):
    times = {"AcceptTime": "2017-10-31 14:05:22-07:00", "SubmitTime": "2017-10-31 14:06:22-07:00"}
    answer = xml(more.pop("answers", {"intent_0": "BookTaxi", "slot_0": "where_to", "slot_1": ""}))
    return {**IDS, "HITId": "3HIT", **times, "Answer": answer, "RequesterAnnotation": "Taxi_1:names", **more}


def read_api(*items):
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in items]
    return read_file("api.jsonl", b"\n".join(lines))


def between(middle):
    """What becomes of a line between two good ones."""
    found = read_api(item(), middle, item(AssignmentId="3C"))
    assert [key for key in assignments(found) if key != "3B"] == ["3A", "3C"]
    check_letters(found, "api.jsonl: row 2")
    return found


# --- good lines ------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_7", "service"]), XML_TEXT, min_size=1))
def test_hostile_text_comes_through(answers):
    (one,) = read_api(item(answers=answers))
    assert one.answers == {name: text.replace("\r\n", "\n").replace("\r", "\n") for name, text in answers.items()}


# --- bad lines -------------------------------------------------------------------------------------------------------


DTD = '<!DOCTYPE x [<!ENTITY e "expanded">]>'
BOMB = "<!DOCTYPE x [" + "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "lol"}">' for i in range(10)) + "]>"
EXTERNAL = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'


@cases(
    "answer reason",
    (xml({"slot_0": ""}, DTD).replace("<FreeText>", "<FreeText>&e;"), "broken_xml: "),
    (xml({"slot_0": ""}, BOMB).replace("<FreeText>", "<FreeText>&e9;"), "broken_xml: "),
    (xml({"slot_0": ""}, EXTERNAL).replace("<FreeText>", "<FreeText>&e;"), "broken_xml: "),
    (xml({"slot_0": ""}, '<!DOCTYPE x SYSTEM "http://192.0.2.1/x.dtd">'), "broken_xml: "),
    (xml({"slot_0": ""}).replace("<FreeText>", "<FreeText>&unknown;"), "broken_xml: undefined entity"),
    (xml({"slot_0": ""})[:-5], "broken_xml: "),
    (xml({"slot_0": "x\ud800"}), "broken_xml: "),
    ("", "no_answer: the Answer is empty"),
    (None, "no_answer: the Answer is empty"),
    (xml({"taskAnswers": "nothing"}), "task_answers: expected a JSON list"),
    (xml({"slot_0": "x", "slot_0 ": "x"}), "broken_xml: field 'slot_0' is answered twice"),
)
@cases("worker", *WORKERS, "someone@example.org")
def test_bad_answers_are_dead_and_the_others_go_on(answer, reason, worker):
    found = between(item(AssignmentId="3B", WorkerId=worker, Answer=answer))
    ((key, why),) = reasons(found)
    assert key in ("3B", "api.jsonl: row 2")  # half a surrogate pair is no JSON
    assert why.startswith((reason, "broken_row: not JSON") if answer and "\ud800" in answer else reason)
    assert worker not in dead(found)[0].payload or "\ud800" in (answer or "")


def test_fields_of_other_forms_are_told():
    answers = {"slot_0": "x", "comment": f"I am {WORKERS[1]}", "workerId": WORKERS[1]}
    found = between(item(AssignmentId="3B", answers=answers))
    assert reasons(found) == [("3B:comment", "unknown_field: the form has no such field")]
    assert dead(found)[0].payload == "I am [worker id]"


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")), max_size=3))
def test_no_bytes_end_a_file_of_json(lines):
    assert list(assignments(read_api(item(), *lines, item(AssignmentId="3C")))) == ["3A", "3C"]


def test_cdata_and_references():
    text = "<![CDATA[a < b & c]]> &#233;&#x1F600;&amp;lt;"
    assert parse_answer_xml(xml({" slot_0 ": "TEXT"}).replace("TEXT", text)) == {"slot_0": "a < b & c é😀&lt;"}


def page(*items, **more):
    return {"NumResults": len(items), "Assignments": list(items), **more}


TWO = [item(), item(AssignmentId="3B")]
HIT = {"HITId": "3HIT", "RequesterAnnotation": "Taxi_1:names"}
BARE = {name: value for name, value in item().items() if name != "RequesterAnnotation"}


@cases(
    "documents indent places",
    ([*TWO], 4, ("1", "11")),
    ([TWO], 4, ("1, item 1", "1, item 2")),
    ([TWO], None, ("1, item 1", "1, item 2")),
    ([TWO], 0, ("1, item 1", "1, item 2")),
    ([page(*TWO, NextToken="p1")], 4, ("1, item 1", "1, item 2")),
    ([page(TWO[0], NextToken="p1"), page(), page(TWO[1])], 4, ("1", "21")),
    ([page(TWO[0]), TWO[1]], None, ("1", "2")),
    ([{"Assignment": BARE, "HIT": HIT}, {"Assignment": TWO[1]}], 4, ("1", "16")),
    ([{"NumResults": 1, "HITs": [HIT]}, page(BARE, TWO[1])], 4, ("10, item 1", "10, item 2")),
    ([{"3HIT": TWO[:1], "3HIU": [], "3HIV": TWO[1:]}], 4, ("1, item 1", "1, item 2")),
)
@cases("end", "\n", "\r\n")
def test_documents_of_several_lines(documents, indent, places, end):
    text = "\n".join(json.dumps(document, indent=indent) for document in documents).replace("\n", end)
    found = read_api(text.encode())
    assert list(assignments(found)) == ["3A", "3B"]
    assert tuple(one.source.removeprefix("api.jsonl: row ") for one in found) == places
    assert [one.task for one in found] == ["names", "names"]


@cases("indent", None, 4)
@cases("between_them", "", " ", "\n")
def test_files_that_were_joined_without_line_breaks(indent, between_them):
    documents = [page(TWO[0]), [TWO[1]], item(AssignmentId="3]{C")]
    found = read_api(between_them.join(json.dumps(document, indent=indent) for document in documents).encode())
    assert list(assignments(found)) == ["3A", "3B", "3]{C"]


def test_broken_lines_take_time_in_proportion():
    assert list(assignments(read_api(b'{"' + b'\\"' * 1_000_000, item()))) == ["3A"]
    began = time.process_time()
    assert len(read_api(b"\n".join([b'{"AssignmentId": broken}' + b" " * 200] * 50_000))) == 50_000
    assert time.process_time() - began < 10  # 40 when each counted the lines before it


def test_a_document_that_is_cut_off_costs_no_other():
    cut = json.dumps(page(TWO[1]), indent=4).encode()[:-200]
    found = read_api(cut, json.dumps(page(item(AssignmentId="3C")), indent=4).encode(), json.dumps(item()).encode())
    assert {"3C", "3A"} <= assignments(found).keys()
    assert all(letter.reason.startswith("broken_row: ") for letter in dead(found))


@cases(
    "line key",
    ('{"AssignmentId": "3B", "AssignmentId": "3D"}', "AssignmentId"),
    ('{"AssignmentId": "3B", "Answers": {"slot_0": "a", "slot_0": "b"}}', "slot_0"),
)
def test_a_key_that_stands_twice_and_what_python_prints_is_told(line, key):
    expected = f"broken_row: not JSON: the key '{key}' appears twice"
    assert reasons(between(line.encode())) == [("api.jsonl: row 2", expected)]
    ((_, reason),) = reasons(between(str(item()).encode()))
    assert "use json.dumps" in reason


COLLECTED = {
    **{"AssignmentId": "a1b2", "WorkerId": "p0123456789abcdef", "AssignmentStatus": "Submitted"},
    **{"RequesterAnnotation": "Taxi_1:names", "Source": "in_house"},
    **{"AcceptTime": "2026-11-27T11:00:00Z", "SubmitTime": "2026-11-27T11:02:00Z"},
    **{"Answers": {"intent_0": "BookTaxi", "slot_0": "where_to"}, "Keystrokes": {"intent_0": 9}},
    **{"Pastes": {"intent_0": 0}, "Seconds": {"intent_0": 4.5}},
}


def test_answers_of_collect_say_where_they_come_from_and_how_they_were_typed():
    (one,) = read_api(COLLECTED)
    assert (one.platform, one.answers, one.work_seconds) == ("in_house", COLLECTED["Answers"], 120)
    assert (one.keystrokes, one.pastes, one.seconds) == ({"intent_0": 9}, {"intent_0": 0}, {"intent_0": 4.5})
    assert read_api(item())[0].platform == "mturk"


@cases("wrong", {"Answers": "x"}, {"Source": "nobody"}, {"Keystrokes": {"a": "b"}}, {"Pastes": {"a": -1}},
       {"Answers": {"a": 1}})  # fmt: skip
def test_lines_that_are_not_of_collect(wrong):
    (dead,) = read_api({**COLLECTED, **wrong})
    assert dead.reason.startswith("broken_row: ")


@given(st.datetimes(datetime(2005, 1, 1), datetime(2040, 1, 1)), st.sampled_from([("PST", 8), ("PDT", 7), ("UTC", 0)]))
def test_batch_times_come_back(when, zone):
    name, behind = zone
    text = f"{when:%a} {when:%b} {when.day:02} {when:%H:%M:%S} {name} {when.year}"
    utc = when.replace(microsecond=0, tzinfo=UTC) + timedelta(hours=behind)
    assert answer_files.read_time(text) == (int(utc.timestamp()), "")


@cases(
    "text",
    *("Tue Oct 31 17:05:22 EDT 2017", "Tue Oct 31 16:05:22 EST 2017", "Tue Oct 31 15:05:22 CST 2017"),
    *("Tue Oct 31 21:05:22 GMT 2017", "Tue Oct 31 22:05:22 +0100 2017", "Tue Oct 31 22:05:22 CET 2017"),
    *("1509483922", "1509483922123", "1509483922.123", "1509483922,5"),
    *("2017-10-31T21:05:22Z", "2017-10-31T14:05:22.000-0700", "2017-10-31 14:05:22-07:00", "2017-10-31 21:05:22 UTC"),
    *("10/31/2017 21:05:22", "10/31/2017, 9:05:22 PM", "31.10.2017 21:05:22", "31/10/2017 21:05:22"),
    *("2017/10/31 21:05:22", "31-Oct-2017 21:05:22", "Oct 31, 2017, 9:05:22\u202fPM"),
    "Tue Oct 31 2017 14:05:22 GMT-0700 (Pacific Daylight Time)",
)
def test_times_of_exports_and_spreadsheets(text):
    assert abs(answer_files.read_time(text)[0] - 1509483922) <= 1
    assert answer_files.EXACT.search(text)


@cases("text seconds", ("31.10.17 14:05", 1509458700), ("11/11/2017 14:05", 1510409100))
def test_times_without_seconds_do_not_measure_work(text, seconds):
    assert answer_files.read_time(text) == (seconds, "")
    for stated, worked in (("", None), ("61,0", 61)):
        row = {"AcceptTime": text, "SubmitTime": text, "WorkTimeInSeconds": stated}
        assert answer_files._times(row, "")["work_seconds"] == worked


@cases(
    "text why",
    ("10/11/2017 14:05", "is ambiguous: the day or the month may come first"),
    ("Tue Oct 31 14:05:22 IST 2017", "has a time zone that is unknown or ambiguous"),
    *((text, "is not a time") for text in ("yesterday", "02/30/2017 14:05", "14:05", "13:05 PM 10/31/2017", "\ud800")),
    ("1969-12-31T23:59:59Z", "is before 1970 or after 2262"),
    ("2262-04-11T23:47:16Z", "is before 1970 or after 2262"),  # more nanoseconds than 64 bits count
    ("0001-01-01T00:00:00+23:59", "is before 1970 or after 2262"),
    ("2016-12-31T23:59:60Z", "is not a time"),
)
def test_why_a_time_is_not_read(text, why):
    assert answer_files.read_time(text)[1].startswith(why)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader_of_times(text):
    seconds, problem = answer_files.read_time(text)
    assert (seconds is None) == bool(problem)


# --- tasks -----------------------------------------------------------------------------------------------------------


# --- answers ---------------------------------------------------------------------------------------------------------


ANSWERS = st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_3", "service"]), st.text(), min_size=1)


@given(ANSWERS, st.booleans())
def test_both_shapes_of_task_answers(answers, in_a_list):
    page = json.dumps([answers] if in_a_list else answers)
    assert answer_files.split_answers({"taskAnswers": page}) == answer_files.split_answers(answers)


# --- payloads --------------------------------------------------------------------------------------------------------


def test_values_of_task_answers_that_are_no_text():
    page = json.dumps([{"slot_0": 3, "slot_1": {"on": True}, "slot_2": None}])
    texts = {"slot_0": "3", "slot_1": '{"on":true}', "slot_2": "null"}
    assert answer_files.split_answers({"taskAnswers": page}) == (texts, {})


ACCEPTED = datetime(2017, 10, 31, 21, 5, 22, tzinfo=UTC)
# Nearly right: what stands in a field is of any kind.
VALUES = st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.dates()
VALUES |= st.lists(st.text(), max_size=2)
NAMES = st.sampled_from([*ROW, *item(), *COLLECTED, "Answer.taskAnswers", "Input.fields"])


def one(row, **more):
    (record,) = read_row({**row, **more}, KEY, "table: 7")
    return record


def test_values_of_a_table_need_not_be_text():
    times = {"AcceptTime": ACCEPTED, "SubmitTime": ACCEPTED + timedelta(minutes=1)}
    typed = {"WorkTimeInSeconds": decimal.Decimal(60), "Approve": None, "Reject": None, "Source": None}
    record = one(ROW, **times, **typed, **{"Answer.slot_0": 3, "Answer.slot_1": None})
    assert record == one(ROW, **{"Answer.slot_0": "3"})
    assert (record.accept_time, record.work_seconds, record.source) == (1509483922, 60, "table: 7")


@cases("row", ROW, item(), COLLECTED)
def test_a_line_of_json_is_the_same_record(row):
    (line,) = read_file("table", json.dumps(row).encode())
    (record,) = read_row(row, KEY, "table: row 1")
    assert (record, record.answers["slot_0"]) == (line, "where_to")


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


ODD = st.sampled_from('ab,;"\n\r\t é\u2028\x85\x0b\x00中😀')
CELL = st.text(ODD) | st.text(st.characters(exclude_categories=["Cs"]))
FLAT = st.text(st.sampled_from("ab;' é中"), max_size=6)  # no quotes, commas or line breaks
QUOTING = st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])


@st.composite
def tables(draw, cell=CELL):
    width = draw(st.integers(2, 5))
    return draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=6))


@st.composite
def exports(draw):
    """Tables as the requester site has them: every cell quoted, the first one an id."""
    return [[f"k{i}", *row] for i, row in enumerate(draw(tables()))]


def written(table, quoting=csv.QUOTE_ALL, end="\r\n"):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting, lineterminator=end).writerows(table)
    return out.getvalue()


def records(data, encoding="utf-8"):
    if isinstance(data, str):
        data = data.encode()
    return list(read_records(read_lines(io.BufferedReader(io.BytesIO(data)), encoding)))


def good(found):
    return [record.cells for record in found if not record.problem]


def problems(found):
    return [(record.number, record.problem) for record in found if record.problem]


# --- whole tables ----------------------------------------------------------------------------------------------------


@given(tables(), QUOTING, st.sampled_from(["\n", "\r\n"]))
def test_valid_tables_are_read_as_pythons_csv_reads_them(table, quoting, end):
    text = written(table, quoting, end)
    plain = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assume(plain == table)  # the writer does not quote a \r where lines end with \n
    found = records(text)
    assert (problems(found), good(found)) == ([], table)


@given(tables(), st.sampled_from([("utf-8-sig", b""), ("utf-16", b""), ("utf-16-be", codecs.BOM_UTF16_BE)]))
def test_a_byte_order_mark_decides(table, written_as):
    encoding, mark = written_as
    # The reader tells undecodable places of wide encodings by U+FFFD.
    assume(not any("\ufffd" in cell for row in table for cell in row))
    found = records(mark + written(table).encode(encoding), encoding="ascii")
    assert (problems(found), good(found)) == ([], table)


@given(tables(st.text(st.characters(codec="latin-1"))))
def test_a_named_encoding(table):
    assert good(records(written(table).encode("latin-1"), encoding="latin-1")) == table


@given(tables(FLAT), st.integers(0, 6))
def test_numbers_are_those_of_lines(table, blank):
    numbers = [record.number for record in records(written(table[:1]) + "\r\n" * blank + written(table[1:]))]
    assert numbers == [1, *range(2 + blank, 1 + blank + len(table))]


@cases("data", b"", b"\n", b"\r\n\r\n  \n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\n\n\n\n\n")
def test_nothing_in_it(data):
    assert records(data) == []


# --- one broken row --------------------------------------------------------------------------------------------------


def broken_apart(data, table, row):
    """The records of the table with such a row, text or bytes, behind one of its own."""
    broken = data.draw(st.integers(0, len(table) - 1))
    raw = row if isinstance(row, bytes) else row.encode()
    return records(written(table[: broken + 1]).encode() + raw + written(table[broken + 1 :]).encode())


@given(exports(), st.data())
def test_one_stray_quote_costs_its_own_row_only(table, data):
    row = written([[f"x{i}" for i in range(len(table[0]))]], data.draw(QUOTING))
    at = data.draw(st.integers(0, len(row) - 2))
    row = row[:at] + '"' + row[at:]
    found = broken_apart(data, table, row)
    # A quote may stand inside an unquoted cell, where it is a quote and nothing else.
    taken = [cells for cells in good(found) if cells not in table]
    assert good([record for record in found if record.cells not in taken]) == table
    assert problems(found) or taken == list(csv.reader(io.StringIO(row, newline="")))
    assert len(problems(found)) + len(taken) == row.count("\n")


@given(exports(), st.data())
def test_a_row_of_another_width_costs_itself_only(table, data):
    width = len(table[0])
    cells = data.draw(st.lists(FLAT, min_size=1, max_size=width + 3).filter(lambda row: len(row) != width))
    found = broken_apart(data, table, written([cells]))
    assert good(found) == table
    told = f"broken_row: the row has {len(cells)} cells, but the header has {width}"
    assert [problem for _, problem in problems(found)] == [told]


@given(exports(), st.data())
def test_a_byte_of_another_encoding_costs_its_own_row_only(table, data):
    row = written([[f"x{i}" for i in range(len(table[0]))]]).encode()
    at = data.draw(st.integers(0, len(row) - 2))
    odd = data.draw(st.sampled_from([b"\xe9", b"\xff", b"\xc3"]))
    found = broken_apart(data, table, row[:at] + odd + row[at:])
    assert good(found) == table
    (broken_record,) = [record for record in found if record.problem]
    assert broken_record.problem == "encoding: the row is not UTF-8; save the file as UTF-8"
    assert "x0" in broken_record.raw or at <= 3


@given(exports(), st.data())
def test_a_broken_row_of_several_lines_costs_no_other_row(table, data):
    # The text begins with letters that no other row has, so that what comes of it can be told.
    row = written([["zz" + data.draw(FLAT) + "\nzz" + data.draw(FLAT) for _ in table[0]]])
    at = data.draw(st.integers(1, len(row) - 3))
    found = good(broken_apart(data, table, row[:at] + '"' + row[at:]))
    others = ([cells for cells in rows if not any("zz" in cell for cell in cells)] for rows in (found, table))
    assert next(others) == next(others)


def test_a_latin_1_byte_inside_quoted_lines():
    found = records(b'a,b\n"1\n\xe9\n2",3\n4,5\n')
    assert good(found) == [["a", "b"], ["4", "5"]]
    assert problems(found)[0] == (2, "encoding: the row is not UTF-8; save the file as UTF-8")


# --- lines -----------------------------------------------------------------------------------------------------------


@cases("name", "utf-16-le", "UTF-16-LE", "utf_16_le", "UTF-16LE")
def test_a_wide_encoding_without_a_mark_may_be_named_in_any_spelling(name):
    assert good(records("a,b\r\né,😀\r\n".encode("utf-16-le"), encoding=name)) == [["a", "b"], ["é", "😀"]]
