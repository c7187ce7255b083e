"""Publishing: each HIT once, for whom it is meant, whatever is cut off."""

import json

import pytest
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, worker
from mturk_publishing import CREATE, QUESTION, forget_failures, lose_answers, requirements

from parapet.local_mturk.faults import Drop
from parapet.local_mturk.hits import create_hit_with_hit_type
from parapet.local_mturk.qualifications import Profile
from parapet.transforms.crowd.mturk.qualifications import LOCALE, MASTERS, NUMBER_APPROVED, PERCENT_APPROVED


def test_every_hit_is_published_as_its_folder_says(bench):
    bench.ok("publish")
    records = {r["task_id"]: r for r in map(json.loads, (bench.hits / "manifest.jsonl").read_text().splitlines())}
    found = bench.snapshot()["hits"].values()
    assert sorted(hit["RequesterAnnotation"] for hit in found) == sorted(records)
    for hit in found:
        record = records[hit["RequesterAnnotation"]]
        assert hit["Question"] == (bench.hits / record["question"]).read_text()
        assert hit["MaxAssignments"] == 3
        assert (hit["Title"], hit["Description"]) == (record["title"], record["description"])
        assert (hit["Reward"], hit["Keywords"]) == (record["reward"], record["keywords"])
        assert hit["Expiration"] - hit["CreationTime"] == record["lifetime_seconds"]
        assert hit["AutoApprovalDelayInSeconds"] == record["auto_approval_delay_seconds"]
        assert hit["AssignmentDurationInSeconds"] == record["assignment_duration_seconds"]
    assert "$14.45 with fees" in bench.out
    # What was told is what the server holds, but for broken cents.
    held = bench.snapshot()["balance"]["held"]
    assert 14.42 < held <= 14.45
    out = {hit.hit_id for hit in bench.open().hits().values()}
    assert out == set(bench.hit_ids())


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


def test_as_many_qualifications_as_mturk_takes(bench):
    def made(n):
        given = {"Name": f"q{n}", "Description": "d", "QualificationTypeStatus": "Active"}
        return bench.client.create_qualification_type(**given)["QualificationType"]["QualificationTypeId"]

    bench.ok("publish", *(flag for n in range(5) for flag in ("--require_qualification", made(n))))
    assert len(requirements(bench)) == 9  # a top-up adds the tenth


def test_a_qualification_that_is_named_twice_is_one(bench):
    made = bench.client.create_qualification_type(Name="a", Description="a", QualificationTypeStatus="Active")
    flags = ["--require_qualification", made["QualificationType"]["QualificationTypeId"]]
    assert bench.publish(*flags, *flags) == 0, bench.err


def test_who_did_a_task_cannot_do_its_sibling(bench):
    bench.ok("publish")
    bench.work(NAMES, [1])
    bench.work(DESCRIPTIONS, [2])
    bench.ok("collect")
    assert bench.refused(DESCRIPTIONS, worker(1)) == "not_qualified"
    assert bench.refused(NAMES, worker(2)) == "not_qualified"
    assert bench.refused(OTHER, worker(1)) == ""
    assert bench.refused(OTHER, worker(2)) == ""
    assert bench.refused(NAMES, worker(3)) == ""
    assert bench.server.count("AssociateQualificationWithWorker") == 2
    bench.ok("collect")
    assert bench.server.count("AssociateQualificationWithWorker") == 2


def test_workers_hear_nothing_of_what_they_are_granted(bench):
    notified = []
    bench.server.on_request(lambda call: notified.append((call.params or {}).get("SendNotification", "no such member")))
    bench.ok("publish")
    bench.work(NAMES, [1])
    notified.clear()
    bench.ok("collect")
    assert False in notified
    assert True not in notified


def test_who_did_a_task_before_its_sibling_was_published_cannot_do_that(bench):
    bench.ok("publish", "--tasks", "names")
    bench.work(NAMES, [1])
    bench.ok("collect")
    bench.ok("publish")
    assert bench.refused(DESCRIPTIONS, worker(1)) == "not_qualified"


def test_publishing_the_sibling_looks_first_who_did_the_task(bench):
    bench.ok("publish", "--tasks", "names")
    bench.work(NAMES, [1])  # handed in since the last collect
    bench.ok("publish")
    assert bench.refused(DESCRIPTIONS, worker(1)) == "not_qualified"


def test_what_workers_see_tells_nothing_of_the_service(bench):
    bench.ok("publish")
    found = bench.snapshot()
    types = found["qualification_types"].values()
    assert len(types) == 5  # kept out; two of the Ferries; of the Gyms the names and their sibling
    seen = json.dumps(list(types))
    seen += json.dumps([[hit["Title"], hit["Description"], hit["Keywords"]] for hit in found["hits"].values()])
    for told in ("erries", "erry", "yms", "names_1", "descriptions_1", ":names", ":descriptions", "RAPET"):
        assert told not in seen


def test_each_page_has_its_token(bench):
    tokens = []
    bench.server.on_request(lambda call: tokens.append((call.params or {}).get("UniqueRequestToken")))
    bench.ok("publish")
    made = [token for token in tokens if token]
    assert len(set(made)) == 3
    assert all(len(token) <= 64 for token in made)


def test_two_batches_share_no_token_and_no_qualification(bench):
    bench.ok("publish")
    bench.batch = bench.batch.with_name("another")
    bench.ok("publish")
    assert len(bench.hit_ids()) == 6
    bench.work(bench.hit_ids(NAMES)[0], [1])
    bench.ok("collect")  # the other batch's work is not this one's
    assert "0 new assignments" in bench.out


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


@pytest.mark.parametrize("later", [0, 25 * 3_600])
@pytest.mark.parametrize("killed", [False, True])
def test_a_run_cut_off_after_its_calls_makes_none_twice(bench, later, killed):
    lose_answers(bench, CREATE)
    assert bench.publish() == 1
    assert "no answer from MTurk" in bench.err
    assert bench.err.count("\n") <= 2
    assert len(bench.hit_ids()) == 3
    if killed:
        forget_failures(bench)
    bench.server.response_hooks.clear()
    bench.server.advance(later)  # the tokens live a day
    created = bench.server.count(CREATE)
    bench.ok("publish")
    assert "3 HITs that a cut-off run had made were found again" in bench.err
    assert bench.server.count(CREATE) == created
    assert set(bench.open().hits()) == set(bench.hit_ids())
    assert len(bench.hit_ids()) == 3
    assert not bench.open().journal.open


def test_resuming_needs_no_money_for_what_exists(bench):
    bench.server.store.add("available", -99_800_000)  # leaves twenty dollars
    lose_answers(bench, CREATE)
    assert bench.publish() == 1
    bench.server.response_hooks.clear()
    assert 5.5 < bench.snapshot()["balance"]["available"] < 5.6
    bench.ok("publish")
    assert len(bench.hit_ids()) == 3
    assert not bench.open().journal.open


def test_a_run_cut_off_before_its_calls_makes_all(bench):
    def hook(call):
        if call.operation == CREATE:
            raise Drop

    bench.server.on_request(hook)
    assert bench.publish() == 1
    forget_failures(bench)
    bench.server.request_hooks.clear()
    assert not bench.hit_ids()
    bench.ok("publish")
    assert bench.server.count("ListHITsForQualificationType") == 1
    assert len(bench.hit_ids()) == 3


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
