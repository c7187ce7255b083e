"""Topping up: new HITs for those who did neither the task nor its sibling, once for each shortfall."""

import pytest
from kit import cases
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, cut, worker

from parapet.transforms.crowd.mturk.publish import LOCALE

HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def shortfall(bench, *rows, name="shortfall.csv"):
    """Rows of (task id, field, have)."""
    lines = []
    for task_id, field, have in rows:
        service, _, task = task_id.rpartition(":")
        lines.append(f"{service},{service}/{field},{task},{field},{have},5,0,too_few\n")
    return bench.file(name, HEAD + "".join(lines))


def sizes(bench, task=NAMES):
    """The assignments of a task's HITs, in the order in which they were published."""
    hits = bench.snapshot()["hits"]
    return [hits[hit_id]["MaxAssignments"] for hit_id in bench.hit_ids(task)]


@pytest.fixture
def full(bench):
    """All HITs complete, everything collected."""
    bench.collected((NAMES, [1, 2, 3]), (DESCRIPTIONS, [4, 5, 6]), (OTHER, [7, 8, 9]))
    return bench


def test_pages_that_lack_answers_are_published_again_for_others(full):
    path = shortfall(full, (NAMES, "intent_0", 4), (NAMES, "slot_0", 3), ("Nobody_1:names", "slot_0", 1))
    assert "1 HIT to publish" in full.ok("topup", "--hits", full.hits, "--shortfall", path)
    assert (sizes(full), sizes(full, OTHER)) == ([3, 4], [3])
    hit_id = full.hit_ids(NAMES)[-1]
    assert [full.refused(hit_id, worker(n)) for n in (1, 4, 7)] == ["not_qualified", "not_qualified", ""]
    assert "0 HITs to publish" in full.ok("topup", "--hits", full.hits, "--shortfall", path)
    assert sizes(full) == [3, 4]
    path = shortfall(full, (NAMES, "intent_0", 4), name="later.csv")
    full.ok("topup", "--hits", full.hits, "--shortfall", path)
    assert sizes(full) == [3, 4, 2]


def test_a_stopped_batch_can_be_topped_up(bench):
    bench.ok("publish")
    path = shortfall(bench, (NAMES, "intent_0", 4))
    assert bench.do("topup", "--hits", bench.hits, "--shortfall", path, "--dry_run") == 0
    assert "earlier HITs still have 9 open places" in bench.err
    bench.ok("stop")
    assert bench.refused(NAMES, worker(1)) == "expired"
    bench.ok("topup", "--hits", bench.hits, "--shortfall", path)
    assert "open place" not in bench.err
    assert (bench.refused(bench.hit_ids(NAMES)[-1], worker(1)), bench.refused(OTHER, worker(1))) == ("", "expired")


def test_an_answer_lost_once_is_absorbed(full):
    lost = full.lose("CreateHIT", once=True)
    full.ok("topup", "--hits", full.hits, "--shortfall", shortfall(full, (NAMES, "intent_0", 4)))
    assert lost
    assert (sizes(full), full.status()["unclear"]) == ([3, 2], {})


@cases("work_between", 0, 2)
@cases("later", 0, 25 * 3_600)
def test_a_run_cut_off_after_its_call_adds_nothing_twice(full, later, work_between):
    flags = ["--hits", full.hits, "--shortfall", shortfall(full, (NAMES, "intent_0", 4))]
    full.lose("CreateHIT")
    assert full.do("topup", *flags) == 1
    full.server.response_hooks.clear()
    full.server.advance(later)
    full.work(full.hit_ids(NAMES)[-1], range(11, 11 + work_between))
    full.ok("topup", *flags)
    assert (sizes(full), full.status()["unclear"]) == ([3, 2], {})
    assert [hit.assignments for hit in full.open().hits().values() if hit.task_id == NAMES] == [3, 2]


@cases(
    "text told",
    ("a,b\n1,2\n", "row 1: the header lacks service_name, task, field, have, need"),
    (HEAD, "no answers are missing"),
    (HEAD + "Gyms_1,x,names,slot_0,few,5,0,a\n", "row 2: 'have' and 'need' must be numbers"),
    (HEAD + "Nobody_1,x,names,slot_0,4,5,0,a\n", "contains no HIT to publish"),
)
def test_a_bad_shortfall_is_usage(full, text, told):
    assert told in full.err_of(2, full.do("topup", "--hits", full.hits, "--shortfall", full.file("s.csv", text)))
    assert sizes(full) == [3]


def test_pages_that_ask_for_everything_need_a_shortfall(full, all_hits):
    assert "this folder asks for all answers again" in full.err_of(2, full.do("topup", "--hits", all_hits))


def test_new_hits_keep_the_settings_of_the_batch(bench, hits, tmp_path):
    bench.ok("publish", "--countries", "CA,GB")
    bench.ok("topup", "--hits", cut(hits, tmp_path / "more", [NAMES], assignments=2, fields=["intent_0"]))
    hit = bench.snapshot()["hits"][bench.hit_ids(NAMES)[-1]]
    (place,) = [each for each in hit["QualificationRequirements"] if each["QualificationTypeId"] == LOCALE]
    assert place["LocaleValues"] == [{"Country": "CA"}, {"Country": "GB"}]
