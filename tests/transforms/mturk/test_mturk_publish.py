"""Publishing: each HIT once, for whom it is meant, whatever is cut off."""

import pytest
from mturk_bench import DESCRIPTIONS, NAMES, worker
from mturk_publishing import CREATE, QUESTION, lose_answers, requirements

from parapet.local_mturk.faults import Drop
from parapet.local_mturk.hits import create_hit_with_hit_type
from parapet.local_mturk.qualifications import Profile
from parapet.transforms.crowd.mturk.qualifications import LOCALE, MASTERS, NUMBER_APPROVED, PERCENT_APPROVED


def test_a_second_run_publishes_nothing(bench):
    bench.ok("publish")
    before = bench.snapshot()["hits"]
    bench.ok("publish")
    assert "0 HITs to publish" in bench.out
    assert "3 were out already" in bench.out
    assert bench.snapshot()["hits"] == before
    assert bench.server.count(CREATE) == 3


def test_tasks_may_follow_one_another(bench):
    bench.ok("publish", "--tasks", "names")
    assert len(bench.hit_ids()) == 2
    bench.ok("publish", "--tasks", "names,descriptions")
    assert len(bench.hit_ids(DESCRIPTIONS)) == 1
    assert len(bench.hit_ids()) == 3
    assert bench.publish("--tasks", "rewrites") == 2
    assert "no rewrites; it has descriptions, names" in bench.err


def test_by_default_workers_are_american_and_approved_of(bench):
    bench.ok("publish")
    found = requirements(bench)
    assert found.pop(LOCALE) == ("In", [{"Country": "US"}])
    assert found.pop(PERCENT_APPROVED) == ("GreaterThanOrEqualTo", [90])
    assert set(found.values()) == {("DoesNotExist", None)}
    assert len(found) == 2  # kept out of all, did the sibling
    set_worker = bench.server.set_worker
    set_worker(worker(1), Profile(country="FR"))
    set_worker(worker(2), Profile(percent_approved=89))
    set_worker(worker(3), Profile(percent_approved=90, number_approved=0))
    assert bench.refused(NAMES, worker(1)) == "not_qualified"
    assert bench.refused(NAMES, worker(2)) == "not_qualified"
    assert bench.refused(NAMES, worker(3)) == ""
    # Who may not do a HIT does not see its page either: a sibling's page shows what this one asks for.
    hits = bench.snapshot()["hits"].values()
    guarded = {each["ActionsGuarded"] for hit in hits for each in hit["QualificationRequirements"]}
    assert guarded == {"DiscoverPreviewAndAccept"}


def test_who_may_work_can_be_said(bench):
    made = bench.client.create_qualification_type(Name="a", Description="a", QualificationTypeStatus="Active")
    other = bench.client.create_qualification_type(Name="b", Description="b", QualificationTypeStatus="Active")
    ids = [each["QualificationType"]["QualificationTypeId"] for each in (made, other)]
    flags = ["--countries", "US-CA, CA", "--min_approval", 97, "--min_approved", 500, "--masters"]
    bench.ok("publish", *flags, "--require_qualification", ids[0], "--exclude_qualification", ids[1])
    found = requirements(bench)
    assert found[LOCALE] == ("In", [{"Country": "US", "Subdivision": "CA"}, {"Country": "CA"}])
    assert found[PERCENT_APPROVED] == ("GreaterThanOrEqualTo", [97])
    assert found[NUMBER_APPROVED] == ("GreaterThanOrEqualTo", [500])
    assert found[MASTERS[False]] == ("Exists", None)
    assert found[ids[0]] == ("Exists", None)
    assert found[ids[1]] == ("DoesNotExist", None)
    assert len(found) == 8


def test_anybody_may_work_where_that_is_asked_for(bench):
    bench.ok("publish", "--countries", "any", "--min_approval", 0)
    assert len(requirements(bench)) == 2  # ours
    bench.server.set_worker(worker(1), Profile(country="FR", percent_approved=0))
    assert bench.refused(NAMES, worker(1)) == ""


def test_no_countries_is_not_any_country(bench):
    for nothing in ("", ","):
        assert bench.publish("--countries", nothing) == 2
        assert "--countries" in bench.err
    assert not bench.hit_ids()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--countries", "USA"], "'USA' is no country"),
        (["--countries", "us"], "'us' is no country"),
        (["--min_approval", "101"], "--min_approval: per cent"),
        (["--min_approved", "-1"], "--min_approved: a number"),
        (["--max_per_worker", "-1"], "--max_per_worker: a number"),
        (["--require_qualification", "lower"], "'lower' is no qualification id"),
        (["--exclude_qualification", ""], "'' is no qualification id"),
        ([f for i in range(6) for f in ("--require_qualification", f"Q{i}")], "MTurk takes 10 qualifications a HIT"),
        (["--masters", "--min_approved", "1", *(f for i in range(4) for f in ("--exclude_qualification", f"Q{i}"))],
         "MTurk takes 10"),
        (["--parallel_calls", "0"], "--parallel_calls: 1 to 32"),
        (["--parallel_calls", "33"], "--parallel_calls: 1 to 32"),
        (["--confirm", "much"], "'much' is no amount"),
    ],
)  # fmt: skip
def test_wrong_settings_are_usage_and_leave_no_folder(bench, flags, told):
    assert bench.publish(*flags) == 2
    assert told in bench.err
    assert not bench.batch.exists()
    assert not bench.server.calls


def test_a_qualification_that_is_named_twice_is_one(bench):
    made = bench.client.create_qualification_type(Name="a", Description="a", QualificationTypeStatus="Active")
    flags = ["--require_qualification", made["QualificationType"]["QualificationTypeId"]]
    assert bench.publish(*flags, *flags) == 0, bench.err


def test_an_answer_lost_once_is_absorbed(bench):
    lost = []

    def hook(call):
        if call.operation == CREATE and call.outcome == "ok" and not lost:
            lost.append(call.operation)
            raise Drop

    bench.server.on_response(hook)
    bench.ok("publish", "--parallel_calls", 1)
    assert bench.server.calls[CREATE] == {"dropped_after": 1, "HitAlreadyExists": 1, "ok": 2}
    assert len(bench.hit_ids()) == 3
    assert set(bench.open().hits()) == set(bench.hit_ids())


def test_the_scan_goes_through_all_pages_of_an_account(bench):
    lose_answers(bench, CREATE)
    assert bench.publish() == 1
    bench.server.response_hooks.clear()
    ours = set(bench.hit_ids())
    hit_type = next(iter(bench.snapshot()["hits"].values()))["HITTypeId"]
    with bench.server.store.transaction():
        for n in range(110):  # newer ones, of somebody else
            given = {"HITTypeId": hit_type, "LifetimeInSeconds": 3_600, "Question": QUESTION}
            create_hit_with_hit_type(bench.server.store, {**given, "RequesterAnnotation": f"other {n}"})
    bench.server.advance(25 * 3_600)
    bench.ok("publish")
    assert bench.server.count("ListHITsForQualificationType") == 2
    assert set(bench.open().hits()) == ours


def test_another_batch_s_hit_with_the_same_page_is_not_adopted(bench):
    bench.ok("publish")
    first = set(bench.hit_ids())
    bench.batch = bench.batch.with_name("another")

    def hook(call):
        if call.operation == CREATE:
            raise Drop

    bench.server.on_request(hook)
    assert bench.publish() == 1
    bench.server.request_hooks.clear()
    bench.ok("publish")
    assert len(bench.hit_ids()) == 6
    assert not first & set(bench.open().hits())
