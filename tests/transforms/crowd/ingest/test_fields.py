import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms.crowd import ingest as fields

KEY = b"a key of at least sixteen bytes"
WORKER = "A3ZOYR34V3P4T6"


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("Tue Oct 31 14:05:22 PDT 2017", "2017-10-31T21:05:22+00:00"),
        ("Tue Jan 02 14:05:22 PST 2018", "2018-01-02T22:05:22+00:00"),
        ("Tue Jan 2 04:05:22 PST 2018", "2018-01-02T12:05:22+00:00"),
        ("Tue Oct 31 14:05:22 UTC 2017", "2017-10-31T14:05:22+00:00"),
        ("Tue Oct 31 14:05:22 GMT 2017", "2017-10-31T14:05:22+00:00"),
        ("2017-10-31 14:05:22-07:00", "2017-10-31T21:05:22+00:00"),
        ("2017-10-31T14:05:22.750000-07:00", "2017-10-31T21:05:22+00:00"),
        ("2017-10-31T21:05:22Z", "2017-10-31T21:05:22+00:00"),
        (" 2017-10-31T21:05:22 ", "2017-10-31T21:05:22+00:00"),
    ],
)
def test_times(text, iso):
    assert fields.parse_time(text) == int(datetime.fromisoformat(iso).timestamp())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Tue Oct 31 14:05:22 CET 2017",
        "Tue Oct 32 14:05:22 PDT 2017",
        "Tue Oct 31 25:05:22 PDT 2017",
        "Tue Okt 31 14:05:22 PDT 2017",
        "Tue Oct 31 14:05:22 PDT 20177",
        "0000-00-00",
        "2017-13-01",
        "\ud800",
        "9" * 40,
        "2262-04-11T23:47:16Z",  # more nanoseconds than 64 bits count
        "9999-12-31T23:59:59-23:59",  # in UTC of the year 10000: no reader of a table takes it
        "0001-01-01T00:00:00+23:59",
        "1969-12-31T23:59:59Z",
    ],
)
def test_times_that_cannot_be_read(text):
    assert fields.parse_time(text) is None


@given(st.datetimes(datetime(2005, 1, 1), datetime(2040, 1, 1)), st.sampled_from([("PST", 8), ("PDT", 7), ("UTC", 0)]))
def test_batch_times_come_back(when, zone):
    name, behind = zone
    text = f"{when:%a} {when:%b} {when.day:02} {when:%H:%M:%S} {name} {when.year}"
    utc = when.replace(microsecond=0, tzinfo=UTC) + timedelta(hours=behind)
    assert fields.parse_time(text) == int(utc.timestamp())


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader_of_times(text):
    assert fields.parse_time(text) is None or isinstance(fields.parse_time(text), int)


@pytest.mark.parametrize(
    ("accept", "submit", "stated", "seconds"),
    [
        (100, 160, "7", 60),
        (100, 90, "", -10),
        (None, 160, "7", 7),
        (100, None, "7", 7),
        (None, None, "", None),
        (None, None, "-7", None),
        (None, None, "7.5", None),
        (None, None, "٣", None),
        (None, None, "9" * 5000, None),
    ],
)
def test_work_seconds(accept, submit, stated, seconds):
    assert fields.work_seconds(accept, submit, stated) == seconds


@pytest.mark.parametrize("text", [f"{WORKER},{WORKER}", f" {WORKER} ", f"{WORKER} , {WORKER}", f"{WORKER},"])
def test_doubled_worker_ids_are_one(text):
    assert fields.worker_hash(KEY, text) == fields.worker_hash(KEY, WORKER)


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_no_worker_has_no_hash(text):
    assert fields.worker_hash(KEY, text) == ""


# --- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task_id", "service", "task", "annotation", "found"),
    [
        ("Taxi_1:names", "", "", "", ("Taxi_1", "names")),
        ("", "Taxi_1", "descriptions", "", ("Taxi_1", "descriptions")),
        ("", "", "", "Taxi_1:names", ("Taxi_1", "names")),
        (" Taxi_1:names ", " Taxi_1", "names ", "Taxi_1:names", ("Taxi_1", "names")),
        ("Taxi_1:names", "", "", "BatchId:123;OriginalHitTemplateId:456;", ("Taxi_1", "names")),
        ("Taxi_1:names", "Taxi_1", "", "", ("Taxi_1", "names")),
    ],
)
def test_the_task_is_found_wherever_it_stands(task_id, service, task, annotation, found):
    assert fields.find_task(task_id, service, task, annotation) == found


@pytest.mark.parametrize(
    ("task_id", "service", "task", "annotation", "reason"),
    [
        ("", "", "", "", "no_task: neither Input.task_id"),
        ("", "Taxi_1", "", "BatchId:1;OriginalHitTemplateId:2;", "no_task: "),
        ("Taxi_1", "", "names", "", "unknown_task: Input.task_id 'Taxi_1' is not SERVICE:names"),
        ("Taxi_1:utterances", "", "", "", "unknown_task: Input.task_id 'Taxi_1:utterances' is not SERVICE:names"),
        ("", "Taxi_1", "utterances", "", "unknown_task: 'utterances' is neither 'names' nor 'descriptions'"),
        (
            "Taxi_1:names",
            "",
            "",
            "Taxi_1:descriptions",
            "contradicting_task: the record names Taxi_1:descriptions and Taxi_1:names",
        ),
        ("Taxi_1:names", "Bus_1", "names", "", "contradicting_task: the record names Bus_1:names and Taxi_1:names"),
    ],
)
def test_the_task_is_not_clear(task_id, service, task, annotation, reason):
    with pytest.raises(fields.Unusable) as caught:
        fields.find_task(task_id, service, task, annotation)
    assert str(caught.value).startswith(reason)


# --- answers ---------------------------------------------------------------------------------------------------------


def test_answers_and_others_are_parted():
    given_fields = {
        "intent_0": "BookTaxi",
        "slot_12": "a\r\nb\rc\n",
        "service": "",
        "slot_01": "an old form",
        "comment": "nice",
        "empty": " ",
        "doNotRedirect": "true",
        "workerId": WORKER,
    }
    assert fields.split_answers(given_fields) == (
        {"intent_0": "BookTaxi", "slot_12": "a\nb\nc\n", "service": ""},
        {"slot_01": "an old form", "comment": "nice"},
    )


ANSWERS = st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_3", "service"]), st.text(), min_size=1)


@given(ANSWERS, st.booleans())
def test_both_shapes_of_task_answers(answers, in_a_list):
    page = json.dumps([answers] if in_a_list else answers)
    assert fields.split_answers({"taskAnswers": page}) == fields.split_answers(answers)


def test_values_of_task_answers_that_are_no_text():
    given_fields = {"taskAnswers": json.dumps([{"slot_0": 3, "slot_1": {"on": True}, "slot_2": None}])}
    answers, others = fields.split_answers(given_fields)
    assert answers == {"slot_0": "3", "slot_1": '{"on":true}', "slot_2": "null"}
    assert others == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "task_answers: not JSON: "),
        ("[3]", "task_answers: expected a JSON list of one object"),
        ('"slot_0"', "task_answers: expected a JSON list of one object"),
        ("[" * 100_000, "task_answers: not JSON: "),
        ('[{"slot_0": "' + "x" * (100 * fields.MAX_ANSWER) + '"}]', "too_large: taskAnswers is too long to be answers"),
    ],
)
def test_task_answers_that_are_none(text, reason):
    with pytest.raises(fields.Unusable) as caught:
        fields.split_answers({"taskAnswers": text})
    assert str(caught.value).startswith(reason)


def test_empty_task_answers_are_no_answers():
    assert fields.split_answers({"taskAnswers": " "}) == ({}, {})
    assert fields.split_answers({}) == ({}, {})


# --- payloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worker", [WORKER, "A1ROEDVMTO9Y3X", "AXXXXXXXXXXXXX", "A2345678901"])
@pytest.mark.parametrize("row", ['"x","{}","y"', "x,{},y", "{0},{0}", '{{"WorkerId": "{}"}}', "WorkerId={}", "{}"])
def test_worker_ids_are_masked(worker, row):
    assert worker not in fields.payload(row.format(worker))
    assert "[worker id]" in fields.payload(row.format(worker))


@pytest.mark.parametrize("text", ["3LP98UYL8WX9QKTAW1IZXSVTSKTE6S", "An answer", "ATM", "AvailableDates", ""])
def test_other_texts_are_not(text):
    assert fields.payload(text) == text


def test_long_payloads_are_cut_and_what_was_cut_is_said():
    text = "ab " * 4_000_000
    found = fields.payload(text)
    assert found == f"{text[:2_000]}… [12,000,000 characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}]"
    assert fields.payload("\ud800" * 3_000).startswith("\ud800")
