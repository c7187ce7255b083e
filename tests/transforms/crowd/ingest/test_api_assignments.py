import json
import time
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingested import WORKERS, assignments, check_letters, dead, read_file, reasons
from kit import cases

from parapet.transforms.crowd.answer_files import parse_answer_xml

XSD = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
# Characters that XML 1.0 can hold, those that it escapes more often than chance.
XML_TEXT = st.text(
    st.sampled_from("<>&\"']]>\t\n\r é中😀\u2028\x85")
    | st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
)


def xml(answers, declaration='<?xml version="1.0" encoding="ASCII"?>'):
    # A carriage return survives XML only as a reference.
    texts = {name: escape(text, {"\r": "&#13;"}) for name, text in answers.items()}
    inner = "".join(
        f"<Answer><QuestionIdentifier>{name}</QuestionIdentifier><FreeText>{text}</FreeText></Answer>"
        for name, text in texts.items()
    )
    return f'{declaration}<QuestionFormAnswers xmlns="{XSD}">{inner}</QuestionFormAnswers>'


def item(**more):
    return {
        "AssignmentId": "3A",
        "WorkerId": WORKERS[0],
        "HITId": "3HIT",
        "AssignmentStatus": "Submitted",
        "AcceptTime": "2017-10-31 14:05:22-07:00",
        "SubmitTime": "2017-10-31 14:06:22-07:00",
        "Answer": xml(more.pop("answers", {"intent_0": "BookTaxi", "slot_0": "where_to", "slot_1": ""})),
        "RequesterAnnotation": "Taxi_1:names",
        **more,
    }


def read(*items, encoding="utf-8"):
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in items]
    return read_file("api.jsonl", b"\n".join(lines), encoding)


def between(middle):
    """What becomes of a line between two good ones."""
    found = read(item(), middle, item(AssignmentId="3C"))
    assert [key for key in assignments(found) if key != "3B"] == ["3A", "3C"]
    check_letters(found, "api.jsonl: row 2")
    return found


# --- good lines ------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_7", "service"]), XML_TEXT, min_size=1))
def test_hostile_text_comes_through(answers):
    (one,) = read(item(answers=answers))
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
    (xml({"slot_0": "a\x00b"}), "broken_xml: "),
    (xml({"slot_0": "x\ud800"}), "broken_xml: "),
    ("where_to", "broken_xml: "),
    ("<a/>" * 2, "broken_xml: "),
    ("", "no_answer: the Answer is empty"),
    ("  ", "no_answer: the Answer is empty"),
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


@pytest.mark.thorough
def test_ten_megabytes_in_task_answers():
    found = between(item(AssignmentId="3B", answers={"taskAnswers": json.dumps([{"slot_0": "x" * 10_000_000}])}))
    assert reasons(found) == [("3B:slot_0", "too_large: the answer has more than 20,000 characters")]
    assert len(dead(found)[0].payload) < 2_200


def test_fields_of_other_forms_are_told():
    answers = {"slot_0": "x", "comment": f"I am {WORKERS[1]}", "workerId": WORKERS[1]}
    found = between(item(AssignmentId="3B", answers=answers))
    assert reasons(found) == [("3B:comment", "unknown_field: the form has no such field")]
    assert dead(found)[0].payload == "I am [worker id]"


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")), max_size=3))
def test_no_bytes_end_the_file(lines):
    assert list(assignments(read(item(), *lines, item(AssignmentId="3C")))) == ["3A", "3C"]


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
    found = read(text.encode())
    assert list(assignments(found)) == ["3A", "3B"]
    assert tuple(one.source.removeprefix("api.jsonl: row ") for one in found) == places
    assert [one.task for one in found] == ["names", "names"]


@cases("indent", None, 4)
@cases("between_them", "", " ", "\n")
def test_files_that_were_joined_without_line_breaks(indent, between_them):
    documents = [page(TWO[0]), [TWO[1]], item(AssignmentId="3]{C")]
    found = read(between_them.join(json.dumps(document, indent=indent) for document in documents).encode())
    assert list(assignments(found)) == ["3A", "3B", "3]{C"]


def test_what_python_prints_is_told():
    (letter,) = read(str(item()).encode())
    assert "use json.dumps" in letter.reason


def test_a_long_line_of_escaped_quotes():
    assert list(assignments(read(b'{"' + b'\\"' * 1_000_000, item()))) == ["3A"]


def test_broken_lines_take_time_in_proportion():
    began = time.process_time()
    assert len(read(b"\n".join([b'{"AssignmentId": broken}' + b" " * 200] * 50_000))) == 50_000
    assert time.process_time() - began < 10  # 40 when each counted the lines before it


def test_a_document_that_is_cut_off_costs_no_other():
    cut = json.dumps(page(TWO[1]), indent=4).encode()[:-200]
    found = read(cut, json.dumps(page(item(AssignmentId="3C")), indent=4).encode(), json.dumps(item()).encode())
    assert {"3C", "3A"} <= assignments(found).keys()
    assert all(letter.reason.startswith("broken_row: ") for letter in dead(found))


@cases(
    "line key",
    ('{"AssignmentId": "3B", "AssignmentId": "3D"}', "AssignmentId"),
    ('{"AssignmentId": "3B", "Answers": {"slot_0": "a", "slot_0": "b"}}', "slot_0"),
)
def test_a_key_that_stands_twice(line, key):
    expected = f"broken_row: not JSON: the key '{key}' appears twice"
    assert reasons(between(line.encode())) == [("api.jsonl: row 2", expected)]


def test_blank_lines_are_nothing():
    assert [one.source for one in read(b"", item(), b"  \r", item(AssignmentId="3B"))] == [
        "api.jsonl: row 2",
        "api.jsonl: row 4",
    ]


COLLECTED = {
    "AssignmentId": "a1b2",
    "WorkerId": "p0123456789abcdef",
    "AssignmentStatus": "Submitted",
    "RequesterAnnotation": "Taxi_1:names",
    "AcceptTime": "2026-11-27T11:00:00Z",
    "SubmitTime": "2026-11-27T11:02:00Z",
    "Source": "in_house",
    "Answers": {"intent_0": "BookTaxi", "slot_0": "where_to"},
    "Keystrokes": {"intent_0": 9},
    "Pastes": {"intent_0": 0},
    "Seconds": {"intent_0": 4.5},
}


def test_answers_of_collect_say_where_they_come_from_and_how_they_were_typed():
    (one,) = read(COLLECTED)
    assert (one.platform, one.answers, one.work_seconds) == ("in_house", COLLECTED["Answers"], 120)
    assert (one.keystrokes, one.pastes, one.seconds) == ({"intent_0": 9}, {"intent_0": 0}, {"intent_0": 4.5})
    assert read(item())[0].platform == "mturk"


@cases("wrong", {"Answers": "x"}, {"Source": "nobody"}, {"Keystrokes": {"a": "b"}}, {"Pastes": {"a": -1}},
       {"Answers": {"a": 1}})  # fmt: skip
def test_lines_that_are_not_of_collect(wrong):
    (dead,) = read({**COLLECTED, **wrong})
    assert dead.reason.startswith("broken_row: ")
