"""Publishing and topping up: each HIT once, for whom it is meant, whatever is cut off; what is refused."""

import hashlib
import io

import pytest
from kit import cases, edit, holding, rows_of, write
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, cut, worker

from parapet.pipelines.mturk import session
from parapet.transforms.crowd.mturk import batch, publish
from parapet.transforms.crowd.mturk.publish import LOCALE

CREATE = "CreateHIT"


def requirements(bench, hit_id):
    """Type id to (comparator, values) of a HIT at the server."""
    hit = bench.snapshot()["hits"][hit_id]
    return {
        each["QualificationTypeId"]: (each["Comparator"], each.get("IntegerValues") or each.get("LocaleValues"))
        for each in hit["QualificationRequirements"]
    }


def page_changed(hits, task):
    """Gives a task another page, as another version of it would have."""
    records = rows_of(hits / "manifest.jsonl")
    (record,) = [record for record in records if record["task_id"] == task]
    path = hits / record["question"]
    data = path.read_text().replace("</form>", "<p>Other words</p></form>", 1).encode()
    assert data != path.read_bytes()
    record["sha256"] = hashlib.sha256(write(path, data).read_bytes()).hexdigest()
    write(hits / "manifest.jsonl", records)


def test_tasks_may_follow_one_another(bench):
    bench.ok("publish", "--tasks", "names")
    assert len(bench.hit_ids()) == 2
    bench.ok("publish", "--tasks", "names,descriptions")
    assert (len(bench.hit_ids(DESCRIPTIONS)), len(bench.hit_ids())) == (1, 3)
    assert "--tasks: must be some of descriptions, names" in bench.err_of(2, bench.publish("--tasks", "rewrites"))
    assert "--tasks: must be one or more values" in bench.err_of(2, bench.publish("--tasks", ","))


@cases(
    "flags told",
    (["--countries", ""], "--countries"),  # no countries are not any country
    *((["--endpoint_url", text], "--endpoint_url") for text in ("nonsense", "ftp://127.0.0.1", "http://")),
    (["--countries", "USA"], "'USA' is not a country code"),
    (["--min_approval", "101"], "--min_approval: must be a percentage"),
    (["--max_per_worker", "-1"], "--max_per_worker: must be a number"),
    (["--require_qualification", "lower"], "'lower' is not a qualification id"),
    (["--exclude_qualification", ""], "'' is not a qualification id"),
    (["--parallel_calls", "0"], "--parallel_calls: 0: must be a number from 1 to 32"),
    (["--confirm", "much"], "'much' is not an amount"),
)  # fmt: skip
def test_wrong_settings_are_usage_and_leave_no_folder(bench, flags, told):
    assert told in bench.err_of(2, bench.publish(*flags))
    assert not bench.batch.exists()
    assert not bench.server.calls


def test_a_qualification_that_is_named_twice_is_one(bench):
    made = bench.client.create_qualification_type(Name="a", Description="a", QualificationTypeStatus="Active")
    flags = ["--require_qualification", made["QualificationType"]["QualificationTypeId"]]
    assert bench.publish(*flags, *flags) == 0, bench.err


def test_an_answer_lost_once_is_absorbed(bench):
    bench.lose(CREATE, once=True)
    bench.ok("publish", "--parallel_calls", 1)
    assert bench.server.calls[CREATE] == {"dropped_after": 1, "HitAlreadyExists": 1, "ok": 2}
    assert (len(bench.hit_ids()), set(bench.open().hits())) == (3, set(bench.hit_ids()))


@cases("published", True, False)
def test_a_task_with_another_page_is_refused(bench, copy, published):
    if not published:
        bench.lose(CREATE)
    assert bench.publish() == int(not published)
    bench.server.response_hooks.clear()
    page_changed(copy, NAMES)
    created = bench.server.count(CREATE)
    assert f"{NAMES}: this task is published already with another page" in bench.err_of(1, bench.publish(hits=copy))
    assert "topup" in bench.err
    assert bench.server.count(CREATE) == created


def test_without_the_money_nothing_is_made(bench):
    bench.server.state.available -= 9_999  # leaves a dollar
    assert "the balance of the account is $1.00, but $14.45" in bench.err_of(1, bench.publish())
    assert "nothing was spent" in bench.err
    assert list(bench.server.calls) == ["GetAccountBalance", "ListQualificationTypes"]


def one_line(text):
    assert text.count("\n") == 1, text
    assert not holding(text, "Traceback", "PARAPET_DEBUG")
    return text


def test_wrong_credentials_are_told_in_one_line(bench):
    bench.server.refused_keys = {"practice"}
    assert "MTurk does not recognise these credentials" in one_line(bench.err_of(1, bench.publish()))
    assert list(bench.server.calls) == ["ListQualificationTypes"]
    bench.server.refused_keys = set()
    bench.ok("publish")
    bench.server.refused_keys = {"practice"}
    for action in (["collect"], ["pay", "--all"], ["stop"], ["topup", "--hits", bench.hits]):
        assert bench.do(*action) in (0, 1)  # paying nothing calls nothing
        if action != ["pay", "--all"]:
            assert "credentials" in one_line(bench.err)


def test_no_credentials_are_told_in_one_line_and_a_dry_run_needs_none(bench, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "no AWS credentials: set AWS_ACCESS_KEY_ID" in one_line(bench.err_of(1, bench.publish()))
    calls = [line for line in bench.ok("publish", "--dry_run").splitlines() if line.startswith("{")]
    assert (len(calls), bench.server.calls) == (8, {})


def test_a_profile_that_is_not_there_is_told_in_one_line(bench, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unheard of")  # past the cache of sessions
    assert "nobody" in one_line(bench.err_of(1, bench.publish()))


def test_the_address_may_be_in_the_environment(bench, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_MTURK", f"{bench.server.url}/")
    assert (bench.do("publish", "--hits", bench.hits), len(bench.hit_ids())) == (0, 3)
    monkeypatch.delenv("AWS_ENDPOINT_URL_MTURK")
    bench.ok("collect")  # the batch knows where it lives
    assert bench.do("publish", "--hits", bench.hits) == 1
    assert f"was published at {bench.server.url}: add --endpoint_url {bench.server.url}" in bench.err


def test_the_settings_of_a_batch_are_kept(bench):
    bench.ok("publish", "--tasks", "names", "--countries", "CA", "--max_per_worker", 2)
    assert "this batch was started with countries ('CA',)" in bench.err_of(1, bench.publish("--countries", "US"))
    assert "max_per_worker 2" in bench.err_of(1, bench.publish("--max_per_worker", "3"))
    assert bench.server.count(CREATE) == 2
    bench.ok("publish", "--countries", "CA")
    assert requirements(bench, bench.hit_id(DESCRIPTIONS))[LOCALE] == ("In", [{"Country": "CA"}])


def in_run(folder, **changes):
    edit(folder / "run.json", lambda run: run | changes)


def sandbox(folder, is_for_it):
    edit(folder / "run.json", lambda run: run["options"].update(sandbox=is_for_it))


def test_a_folder_that_is_none_or_made_by_something_else_is_usage(bench, copy, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, told in (("missing", "--hits: there is no such folder"), ("empty", "not a complete output")):
        assert f"{name}: {told}" in bench.err_of(2, bench.publish(hits=tmp_path / name))
    in_run(copy, version="0.0.1")
    assert "made by Parapet 0.0.1, but this is " in one_line(bench.err_of(2, bench.publish(hits=copy)))
    in_run(copy, pipeline="compose")
    assert "made by 'parapet compose'" in one_line(bench.err_of(2, bench.publish(hits=copy)))
    assert (bench.batch.exists(), bench.server.calls) == (False, {})


def test_a_page_changed_by_hand_is_not_published(bench, copy):
    path = copy / "pages/Ferries_1.names.xml"
    path.write_text(path.read_text().replace("</form>", "<p>more</p></form>", 1))
    assert f"{path}: has been changed since 'parapet hits' wrote it" in bench.err_of(1, bench.publish(hits=copy))
    assert not bench.hit_ids(NAMES)
    path.unlink()
    assert "Ferries_1.names.xml: cannot be read" in bench.err_of(1, bench.publish(hits=copy))


def test_from_ten_workers_on_the_fee_is_higher(bench, hits, tmp_path):
    assert bench.publish(hits=cut(hits, tmp_path / "ten", [NAMES], assignments=10)) == 0
    assert "$16.38 with fees" in bench.out  # 10 * 1.17 * 1.4
    assert bench.snapshot()["balance"]["held"] == bench.open().hits()[bench.hit_id(NAMES)].reward * 14
    assert bench.status()["total"]["committed"] == "16.38"


@pytest.fixture
def real(bench, copy, monkeypatch):
    """A bench that believes that it spends real money: its server stands where MTurk's production is."""
    for module in (batch, publish, session):
        monkeypatch.setattr(module, "PRODUCTION", bench.server.url)
    sandbox(copy, False)
    bench.hits = copy
    return bench


def type_in(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@cases("typed", "14.45\n", "$14.45\n", " 14.45 \n")
def test_production_asks_for_the_amount(real, monkeypatch, typed):
    type_in(monkeypatch, typed)
    assert "This spends $14.45 of real money" in real.err_of(0, real.do("publish", "--hits", real.hits, "--production"))
    assert len(real.hit_ids()) == 3
    assert "in production" in real.out


@cases("typed", "", "\n", "14.44\n", "yes\n", "y\n", "NaN\n", "sNaN\n", "1445\n")
def test_another_amount_spends_nothing(real, monkeypatch, typed):
    type_in(monkeypatch, typed)
    assert real.do("publish", "--hits", real.hits, "--production") == 1
    assert "does not match the amount, which is 14.45: nothing was spent" in real.err
    assert list(real.server.calls) == ["GetAccountBalance", "ListQualificationTypes"]


def test_production_is_said_each_time(real):
    assert real.do("publish", "--hits", real.hits, "--production", "--confirm", "14.45") == 0
    real.work(NAMES, [1])
    real.ok("collect")  # reads
    assert "was published in production: add --production, which" in real.err_of(2, real.do("pay", "--all"))
    assert real.do("publish", "--hits", real.hits) != 0
    assert real.do("topup", "--hits", real.hits) == 2
    assert "Approved" not in real.statuses().values()


def test_production_does_not_go_to_another_address(bench, monkeypatch):
    assert bench.publish("--production") == 2
    assert f"--endpoint_url names {bench.server.url}: remove it, or leave out --production" in bench.err
    monkeypatch.setenv("AWS_ENDPOINT_URL_MTURK", bench.server.url)
    assert "AWS_ENDPOINT_URL_MTURK names" in bench.err_of(2, bench.do("publish", "--hits", bench.hits, "--production"))
    assert not bench.batch.exists()


def test_a_dry_run_asks_nothing_and_pages_for_the_sandbox_are_not_published_in_production(real, monkeypatch):
    type_in(monkeypatch, "")
    assert real.do("publish", "--hits", real.hits, "--production", "--dry_run") == 0
    assert not real.server.calls
    sandbox(real.hits, True)
    assert real.do("publish", "--hits", real.hits, "--production") == 2
    assert "the forms on these pages are sent to the sandbox: run 'parapet hits' again, without --sandbox" in real.err


def test_pages_for_production_are_not_published_in_the_sandbox(bench, copy, monkeypatch):
    for module in (batch, publish):
        monkeypatch.setattr(module, "SANDBOX", bench.server.url)
    sandbox(copy, False)
    told = "the forms on these pages are sent to production: run 'parapet hits' again, with --sandbox"
    assert told in bench.err_of(2, bench.do("publish", "--hits", copy))
    assert "in the sandbox" in bench.ok("publish", "--hits", bench.hits)


def test_production_and_sandbox_are_not_mixed_in_a_batch(bench, copy, monkeypatch):
    bench.ok("publish")
    monkeypatch.setattr(batch, "PRODUCTION", "http://127.0.0.1:9")
    in_run(copy, options={"sandbox": False})
    assert bench.do("publish", "--hits", copy, "--production", "--confirm", "0") == 1
    assert f"was published at {bench.server.url}" in bench.err


def test_an_address_where_nothing_is_is_told_in_one_line(bench):
    nowhere = bench.do("publish", "--hits", bench.hits, "--endpoint_url", "http://127.0.0.1:9")
    assert "no answer from MTurk" in one_line(bench.err_of(1, nowhere))
    # Nothing was done there, so the batch may live elsewhere after all.
    bench.ok("publish")


HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def shortfall(bench, *rows, name="shortfall.csv"):
    """Rows of (task id, field, have)."""
    lines = [f"{task.replace(':', ',x,')},{field},{have},5,0,too_few\n" for task, field, have in rows]
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
    places = ("In", [{"Country": "CA"}, {"Country": "GB"}])
    assert [requirements(bench, hit_id)[LOCALE] for hit_id in bench.hit_ids(NAMES)] == [places, places]
