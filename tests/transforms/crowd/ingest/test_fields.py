import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.transforms.crowd import answer_files
from parapet.transforms.crowd import answer_files as fields


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


@cases(
    "text seconds", ("10/31/2017 14:05", 1509458700), ("31.10.17 14:05", 1509458700), ("11/11/2017 14:05", 1510409100)
)
def test_times_without_seconds_do_not_measure_work(text, seconds):
    assert answer_files.read_time(text) == (seconds, "")
    for stated, worked in (("", None), ("61,0", 61)):
        row = {"AcceptTime": text, "SubmitTime": text, "WorkTimeInSeconds": stated}
        assert fields._times(row, "")["work_seconds"] == worked


@cases(
    "text why",
    ("10/11/2017 14:05", "is ambiguous: the day or the month may come first"),
    ("Tue Oct 31 14:05:22 IST 2017", "has a time zone that is unknown or ambiguous"),
    *((text, "is not a time") for text in ("yesterday", "02/30/2017 14:05", "14:05", "13:05 PM 10/31/2017", "\ud800")),
    ("Tue Oct 32 14:05:22 PDT 2017", "is not a time"),
    ("1969-12-31T23:59:59Z", "is before 1970 or after 2262"),
    ("2262-04-11T23:47:16Z", "is before 1970 or after 2262"),  # more nanoseconds than 64 bits count
)
def test_why_a_time_is_not_read(text, why):
    assert answer_files.read_time(text)[1].startswith(why)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader_of_times(text):
    seconds, problem = answer_files.read_time(text)
    assert (seconds is None) == bool(problem)


# --- tasks -----------------------------------------------------------------------------------------------------------


@cases(
    "task_id service task annotation reason",
    ("", "", "", "", "no_task: add the column RequesterAnnotation"),
    ("", "Taxi_1", "", "BatchId:1;OriginalHitTemplateId:2;", "no_task: "),
    ("Taxi_1", "", "names", "", "unknown_task: Input.task_id 'Taxi_1' is not of the form SERVICE:names"),
    ("Taxi_1:utterances", "", "", "", ("unknown_task: Input.task_id 'Taxi_1:utterances' is "
        "not of the form SERVICE:names")),
    ("", "Taxi_1", "utterances", "", "unknown_task: 'utterances' must be one of names, descriptions"),
    ("Taxi_1:names", "", "", "Taxi_1:descriptions",
     "contradicting_task: the record names Taxi_1:descriptions and Taxi_1:names"),
    ("Taxi_1:names", "Bus_1", "names", "", "contradicting_task: the record names Bus_1:names and Taxi_1:names"),
)  # fmt: skip
def test_the_task_is_not_clear(task_id, service, task, annotation, reason):
    row = {"Input.task_id": task_id, "Input.service_name": service, "Input.task": task}
    row["RequesterAnnotation"] = annotation
    assert str(raised(fields.Unusable, fields.find_task, row)).startswith(reason)


# --- answers ---------------------------------------------------------------------------------------------------------


ANSWERS = st.dictionaries(st.sampled_from(["intent_0", "slot_0", "slot_3", "service"]), st.text(), min_size=1)


@given(ANSWERS, st.booleans())
def test_both_shapes_of_task_answers(answers, in_a_list):
    page = json.dumps([answers] if in_a_list else answers)
    assert fields.split_answers({"taskAnswers": page}) == fields.split_answers(answers)


@cases(
    "text reason",
    ("{", "task_answers: expected a JSON list of one object: "),
    ("[3]", "task_answers: expected a JSON list of one object"),
    ("[" * 100_000, "task_answers: expected a JSON list of one object: "),
    ('[{"slot_0": "a"}, {"slot_0": "b"}]', "task_answers: expected a JSON list of one object"),
)
def test_task_answers_that_are_none(text, reason):
    assert str(raised(fields.Unusable, fields.split_answers, {"taskAnswers": text})).startswith(reason)


def test_empty_task_answers_are_no_answers():
    assert [fields.split_answers({"taskAnswers": text}) for text in (" ", "[]", "[{}]")] == [({}, {})] * 3


# --- payloads --------------------------------------------------------------------------------------------------------


@cases("text", "3LP98UYL8WX9QKTAW1IZXSVTSKTE6S", "An answer", "ATM", "AvailableDates", "")
def test_other_texts_are_not(text):
    assert fields.payload(text) == text


def test_values_of_task_answers_that_are_no_text():
    page = json.dumps([{"slot_0": 3, "slot_1": {"on": True}, "slot_2": None}])
    texts = {"slot_0": "3", "slot_1": '{"on":true}', "slot_2": "null"}
    assert fields.split_answers({"taskAnswers": page}) == (texts, {})
