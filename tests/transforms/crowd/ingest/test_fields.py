import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.transforms.crowd import ingest as fields


@given(st.datetimes(datetime(2005, 1, 1), datetime(2040, 1, 1)), st.sampled_from([("PST", 8), ("PDT", 7), ("UTC", 0)]))
def test_batch_times_come_back(when, zone):
    name, behind = zone
    text = f"{when:%a} {when:%b} {when.day:02} {when:%H:%M:%S} {name} {when.year}"
    utc = when.replace(microsecond=0, tzinfo=UTC) + timedelta(hours=behind)
    assert fields.parse_time(text) == int(utc.timestamp())


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader_of_times(text):
    assert fields.parse_time(text) is None or isinstance(fields.parse_time(text), int)


# --- tasks -----------------------------------------------------------------------------------------------------------


@cases(
    "task_id service task annotation reason",
    ("", "", "", "", "no_task: add the column RequesterAnnotation"),
    ("", "Taxi_1", "", "BatchId:1;OriginalHitTemplateId:2;", "no_task: "),
    ("Taxi_1", "", "names", "", "unknown_task: Input.task_id 'Taxi_1' is not of the form SERVICE:names"),
    ("Taxi_1:utterances", "", "", "", ("unknown_task: Input.task_id 'Taxi_1:utterances' is "
        "not of the form SERVICE:names")),
    ("", "Taxi_1", "utterances", "", "unknown_task: 'utterances' is neither 'names' nor 'descriptions'"),
    ("Taxi_1:names", "", "", "Taxi_1:descriptions",
     "contradicting_task: the record names Taxi_1:descriptions and Taxi_1:names"),
    ("Taxi_1:names", "Bus_1", "names", "", "contradicting_task: the record names Bus_1:names and Taxi_1:names"),
)  # fmt: skip
def test_the_task_is_not_clear(task_id, service, task, annotation, reason):
    assert str(raised(fields.Unusable, fields.find_task, task_id, service, task, annotation)).startswith(reason)


# --- answers ---------------------------------------------------------------------------------------------------------


ANSWERS = st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_3", "service"]), st.text(), min_size=1)


@given(ANSWERS, st.booleans())
def test_both_shapes_of_task_answers(answers, in_a_list):
    page = json.dumps([answers] if in_a_list else answers)
    assert fields.split_answers({"taskAnswers": page}) == fields.split_answers(answers)


@cases(
    "text reason",
    ("{", "task_answers: not JSON: "),
    ("[3]", "task_answers: expected a JSON list of one object"),
    ("[" * 100_000, "task_answers: not JSON: "),
    (
        '[{"slot_0": "' + "x" * (100 * fields.MAX_ANSWER) + '"}]',
        "too_large: taskAnswers is too long to contain answers",
    ),
)
def test_task_answers_that_are_none(text, reason):
    assert str(raised(fields.Unusable, fields.split_answers, {"taskAnswers": text})).startswith(reason)


def test_empty_task_answers_are_no_answers():
    assert (fields.split_answers({"taskAnswers": " "}), fields.split_answers({})) == (({}, {}), ({}, {}))


# --- payloads --------------------------------------------------------------------------------------------------------


@cases("text", "3LP98UYL8WX9QKTAW1IZXSVTSKTE6S", "An answer", "ATM", "AvailableDates", "")
def test_other_texts_are_not(text):
    assert fields.payload(text) == text


@cases(
    "text",
    "yesterday",
    "Tue Oct 31 14:05:22 CET 2017",
    "Tue Oct 32 14:05:22 PDT 2017",
    "\ud800",
    "2262-04-11T23:47:16Z",  # more nanoseconds than 64 bits count
    "1969-12-31T23:59:59Z",
)
def test_times_that_cannot_be_read(text):
    assert fields.parse_time(text) is None


def test_values_of_task_answers_that_are_no_text():
    given_fields = {"taskAnswers": json.dumps([{"slot_0": 3, "slot_1": {"on": True}, "slot_2": None}])}
    answers, others = fields.split_answers(given_fields)
    assert (answers, others) == ({"slot_0": "3", "slot_1": '{"on":true}', "slot_2": "null"}, {})
