"""Workers that are played: from recorded assignments, and invented."""

import json
from collections import Counter

import pytest
from kit import raised, write

from parapet.local_mturk.marketplace import answer_xml
from parapet.local_mturk.qualifications import Profile
from parapet.local_mturk.server import simulate
from parapet.local_mturk.workers import Report, Script, invented, play, scripts_from_jsonl
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.markup import question_xml
from parapet.transforms.crowd.ingest import parse_answer_xml


def question(*names):
    fields = "".join(f'<input name="{name}">' for name in names)
    action = "https://www.mturk.com/mturk/externalSubmit"
    return question_xml(f'<form method="post" action="{action}"><input name="assignmentId">{fields}</form>').decode()


def script(worker_id, seconds=90, annotation="Parcels_1:names", **answers):
    return Script(worker_id, annotation, answers, seconds)


def row(**changes):
    good = {
        "WorkerId": "A1",
        "RequesterAnnotation": "Parcels_1:names",
        "AcceptTime": "2021-06-11T10:00:00-07:00",
        "SubmitTime": "2021-06-11T10:04:00-07:00",
        "Answer": answer_xml({"slot_0": "one"}),
    }
    return json.dumps({**good, **changes})


def test_scripts_are_read_and_what_is_none_is_counted(tmp_path):
    boxes = answer_xml({"taskAnswers": json.dumps([{"slot_0": "two", "note": "hm"}])})
    lines = [
        row(),
        row(WorkerId="A2,A2", Answer=boxes, SubmitTime="2021-06-11T09:00:00-07:00"),
        "",
        "{",
        "[]",
        row(WorkerId="someone"),
        row(Answer="<x"),
        row(Answer='<!DOCTYPE a [<!ENTITY b "c">]><a/>'),
    ]
    path = write(tmp_path / "assignments.jsonl", "\n".join(lines).encode() + b"\n\xff\n")
    scripts, unusable = scripts_from_jsonl(path)
    assert scripts == [script("A1", 240, slot_0="one"), script("A2", 0, slot_0="two", note="hm")]
    assert unusable == Counter(broken_row=3, worker_id=1, broken_xml=1, unsafe_xml=1)
    raised(InputError, scripts_from_jsonl, tmp_path / "none", match="cannot be read")


def test_a_report_says_why_not(mturk, make_hit, client):
    us = {"QualificationTypeId": "00000000000000000071", "Comparator": "EqualTo", "LocaleValues": [{"Country": "US"}]}
    make_hit(QualificationRequirements=[us])
    mturk.set_worker("A2", Profile(country="DE"))
    client.create_worker_block(WorkerId="A3", Reason="spam")
    scripts = [script(f"A{i}", slot_0="x") for i in (1, 1, 2, 3)]
    scripts += [script("A4", annotation="Other:names", slot_0="x"), script("A4", slot_9="x")]
    report = play(mturk.url, scripts)
    assert report == Report(1, Counter(already_done=1, not_qualified=1, blocked=1, no_such_hit=2))
    assert report.text().splitlines()[:2] == ["1 assignment submitted", "1 script without: already_done"]


def test_invented_workers_fill_everything_and_are_always_the_same(mturk, make_hit):
    hits = [make_hit(), make_hit(RequesterAnnotation="Parcels_1:descriptions"), make_hit(MaxAssignments=9)]
    first, again = (list(invented(mturk.url, 7, 5)) for _ in range(2))
    assert first == again
    assert first != list(invented(mturk.url, 8, 5))
    assert [sum(each.hit_id == hit_id for each in first) for hit_id in hits] == [3, 3, 5]
    assert {len(each.answers["slot_0"].split()) for each in first} == {3, 7}
    assert simulate(mturk.url, workers=5, seed=7).submitted == 11
    assert simulate(mturk.url, workers=5, seed=7) == Report(0, Counter(already_done=4))
    assert len(mturk.snapshot()["assignments"]) == 11
    raised(InputError, simulate, mturk.url, workers=0)


@pytest.mark.parametrize("url", ["https://example.com", "http://127.0.0.1:9", "gibberish"])
def test_where_no_mturk_is(url):
    raised(InputError, simulate, url, match="--url")


def test_recorded_work_of_the_sample_is_done_again(pages, sample, mturk, make_hit):
    """From ``parapet hits`` to assignments that say what the recorded ones said."""
    folder, manifest = pages
    for record in manifest:
        make_hit(
            Question=(folder / record["question"]).read_text(),
            RequesterAnnotation=record["requester_annotation"],
            MaxAssignments=record["assignments"],
            Reward="0.05",
        )
    recorded = sample / "crowd/assignments.jsonl"
    scripts, unusable = scripts_from_jsonl(recorded)
    report = simulate(mturk.url, recorded)
    assert report.submitted + report.reasons.total() == len(scripts) + unusable.total()
    found = [
        (each["WorkerId"], {name: text for name, text in parse_answer_xml(each["Answer"]).items() if text})
        for each in mturk.snapshot()["assignments"].values()
    ]
    said = [(each.worker_id, {name: text for name, text in each.answers.items() if text}) for each in scripts]
    assert found
    assert all((worker, {n: t.replace("\r\n", "\n") for n, t in texts.items()}) in said for worker, texts in found)


def given(server, hit_id):
    return {
        each["WorkerId"]: parse_answer_xml(each["Answer"])
        for each in server.snapshot()["assignments"].values()
        if each["HITId"] == hit_id
    }


def test_a_script_goes_to_the_pages_that_ask_for_its_fields(mturk, make_hit):
    part_1 = make_hit(Question=question("intent_0", "slot_0"))
    part_2 = make_hit(Question=question("slot_1"))
    make_hit(Question=question("slot_0", "slot_1"), RequesterAnnotation="Parcels_1:descriptions")
    report = play(mturk.url, [script("A1", slot_0="a\nb", slot_1="c", intent_0=""), script("A2", slot_1="d")])
    assert report == Report(3, Counter())
    assert given(mturk, part_1) == {"A1": {"intent_0": "", "slot_0": "a\r\nb"}}
    assert given(mturk, part_2) == {"A1": {"slot_1": "c"}, "A2": {"slot_1": "d"}}
    times = [each["SubmitTime"] - each["AcceptTime"] for each in mturk.snapshot()["assignments"].values()]
    assert all(90 <= seconds <= 120 for seconds in times)


def test_when_a_hit_is_full_its_top_up_is_played(mturk, make_hit):
    full = make_hit(Question=question("slot_0", "slot_1"), MaxAssignments=1)
    top_up = make_hit(Question=question("slot_1"), MaxAssignments=1)
    report = play(mturk.url, [script(f"AW{i}", slot_0="x", slot_1=str(i)) for i in range(3)])
    assert report == Report(2, Counter(no_assignment_left=1))
    assert given(mturk, full) == {"AW0": {"slot_0": "x", "slot_1": "0"}}
    assert given(mturk, top_up) == {"AW1": {"slot_1": "1"}}
