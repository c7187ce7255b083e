"""Topping up: more workers within nine, or new HITs for those who did neither the task nor its sibling."""

import pytest
from kit import cases, write
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, cut, worker

ADD, PROLONG = "CreateAdditionalAssignmentsForHIT", "UpdateExpirationForHIT"
HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def shortfall(bench, *rows, name="shortfall.csv"):
    """Rows of (task id, field, have)."""
    lines = []
    for task_id, field, have in rows:
        service, _, task = task_id.rpartition(":")
        lines.append(f"{service},{service}/{field},{task},{field},{have},5,0,too_few\n")
    return bench.file(name, HEAD + "".join(lines))


def sizes(bench):
    return {hit["RequesterAnnotation"]: hit["MaxAssignments"] for hit in bench.snapshot()["hits"].values()}


@pytest.fixture
def full(bench):
    """All HITs complete, everything collected."""
    bench.collected((NAMES, [1, 2, 3]), (DESCRIPTIONS, [4, 5, 6]), (OTHER, [7, 8, 9]))
    return bench


def test_places_that_are_still_open_count(bench):
    bench.ok("publish")
    bench.work(NAMES, [1])  # two of three are open
    path = shortfall(bench, (NAMES, "intent_0", 4))
    bench.ok("topup", "--shortfall", path)  # needs two
    assert "nothing to do" in bench.out
    assert sizes(bench)[NAMES] == 3
    path = shortfall(bench, (NAMES, "intent_0", 3), name="more.csv")
    bench.ok("topup", "--shortfall", path)  # needs four
    assert sizes(bench)[NAMES] == 5


def soon(bench, task):
    """The journal says that the HIT has ended."""
    entries = bench.journal()
    for entry in entries:
        if entry["event"] == "done" and entry["key"].startswith(f"hit:{task}:"):
            entry["facts"]["expiration"] = "2020-01-01T00:00:00+00:00"
    write(bench.batch / "journal.jsonl", entries)


def test_open_places_of_a_hit_that_ended_are_put_on_offer_alone(bench):
    bench.ok("publish")
    soon(bench, NAMES)
    bench.ok("topup", "--shortfall", shortfall(bench, (NAMES, "intent_0", 4)))
    assert "0 more assignments on 1 HIT: $0.00 with fees; 1 offered again" in bench.out
    assert (bench.server.count(PROLONG), bench.server.count(ADD)) == (1, 0)


def test_a_stopped_batch_is_put_on_offer_by_a_top_up(bench):
    bench.ok("publish")
    bench.ok("stop")
    assert bench.refused(NAMES, worker(1)) == "expired"
    bench.ok("topup", "--shortfall", shortfall(bench, (NAMES, "intent_0", 4)))
    assert (bench.refused(NAMES, worker(1)), bench.refused(OTHER, worker(1))) == ("", "expired")


@cases("operation", ADD, PROLONG)
def test_an_answer_lost_once_is_absorbed(full, operation):
    soon(full, NAMES)
    lost = full.lose(operation, once=True)
    assert full.do("topup", "--shortfall", shortfall(full, (NAMES, "intent_0", 4))) == 0, full.err
    assert lost
    assert (sizes(full)[NAMES], full.status()["unclear"]) == (5, {})


@cases("work_between", 0, 1, 2)
@cases("later", 0, 25 * 3_600)
def test_a_run_cut_off_after_its_call_adds_nothing_twice(full, later, work_between):
    path = shortfall(full, (NAMES, "intent_0", 4))
    full.lose(ADD)
    assert full.do("topup", "--shortfall", path) == 1
    full.server.response_hooks.clear()
    assert sizes(full)[NAMES] == 5
    full.server.advance(later)
    full.work(NAMES, range(11, 11 + work_between))
    assert full.do("topup", "--shortfall", path) == 0, full.err
    assert (sizes(full)[NAMES], full.status()["unclear"]) == (5, {})
    assert {hit.task_id: hit.wanted for hit in full.open().hits().values()}[NAMES] == 5


def test_a_run_cut_off_is_ended_by_a_top_up_of_another_shortfall(full):
    full.lose(ADD)
    assert full.do("topup", "--shortfall", shortfall(full, (NAMES, "intent_0", 4))) == 1
    full.server.response_hooks.clear()
    full.work(NAMES, [11, 12])  # of the two places that nobody knows of
    path = shortfall(full, (NAMES, "intent_0", 4), (NAMES, "slot_0", 4), name="more.csv")
    assert full.do("topup", "--shortfall", path) == 0, full.err
    assert sizes(full)[NAMES] == 7  # two more than the five that are there
    assert full.status()["unclear"] == {}


@cases("cut_off", False, True)
def test_a_hit_that_is_gone_is_told_in_one_line(full, cut_off):
    path = shortfall(full, (NAMES, "intent_0", 4))
    if cut_off:
        full.lose(ADD, before=True)
        assert full.do("topup", "--shortfall", path) == 1
        full.server.request_hooks.clear()
    for each in full.statuses():
        full.server.approve_elsewhere(each)
    full.ok("collect")  # so that nothing is read that would tell
    full.server.delete_hit(full.hit_id(NAMES))
    assert full.do("topup", "--shortfall", path) == 1
    assert "does not exist" in full.err or "deleted at MTurk" in full.err
    assert "PARAPET_DEBUG" not in full.err


def test_tasks_that_the_batch_has_not_are_told(full):
    path = shortfall(full, ("Nobody_1:names", "intent_0", 4), (NAMES, "intent_0", 4))
    assert full.do("topup", "--shortfall", path) == 1
    assert "this batch has no HIT of Nobody_1:names, which needs more answers" in full.err
    assert sizes(full)[NAMES] == 5


@cases(
    "text told",
    ("a,b\n1,2\n", "row 1: the header lacks service_name, task, field, have, need"),
    (HEAD, "no answers are missing"),
    (HEAD + "Gyms_1,x,names,slot_0,few,5,0,a\n", "row 2: 'have' and 'need' must be numbers"),
)
def test_a_bad_shortfall_is_usage(full, text, told):
    assert told in full.err_of(2, full.do("topup", "--shortfall", full.file("s.csv", text)))
    assert full.server.count(ADD) == 0


def test_one_way_of_topping_up_at_a_time(full):
    assert (full.do("topup"), full.do("topup", "--shortfall", "a", "--hits", "b")) == (2, 2)
    assert "either --shortfall FILE or --hits DIR is required" in full.err


# New HITs.


@pytest.fixture
def more(hits, tmp_path):
    """A folder of HITs for one task, as ``parapet hits --shortfall`` makes it."""
    return cut(hits, tmp_path / "more", [NAMES], assignments=2, fields=["intent_0"])


def test_what_is_new_to_the_batch_is_published_not_topped_up(bench, more):
    alone = cut(bench.hits, bench.batch.parent / "names", [OTHER])
    bench.batch = bench.batch.with_name("another")
    assert (bench.publish(hits=alone), bench.do("topup", "--hits", more)) == (0, 2)
    assert f"the batch has no HIT of {NAMES}: use 'parapet mturk publish'" in bench.err


def test_new_hits_keep_the_settings_of_the_batch(bench, more):
    from parapet.transforms.crowd.mturk.qualifications import LOCALE

    bench.ok("publish", "--countries", "CA,GB")
    bench.ok("topup", "--hits", more)
    hit = bench.snapshot()["hits"][bench.hit_ids(NAMES)[-1]]
    (place,) = [each for each in hit["QualificationRequirements"] if each["QualificationTypeId"] == LOCALE]
    assert place["LocaleValues"] == [{"Country": "CA"}, {"Country": "GB"}]
