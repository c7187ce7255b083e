"""A network that fails or lies, and a journal that is an old copy: nothing is asked or paid for again."""

from collections import Counter
from decimal import Decimal

import pytest
from fake_mturk import Faults
from kit import cases, holding, lacking
from mturk_bench import DESCRIPTIONS, NAMES, OTHER, cut

FAULTS = Faults(throttle=0.10, error=0.02, drop_before=0.02, drop_after=0.02)
HEAD = "service_name,element_id,task,field,have,need,in_review,reason\n"


def again(bench, action, *flags):
    """Runs an action until it ends well, as its messages say to."""
    for _ in range(5):
        status = bench.publish(*flags) if action == "publish" else bench.do(action, *flags)
        assert "PARAPET_DEBUG" not in bench.err
        if status == 0:
            return
    pytest.fail(bench.err)


def loop(bench):
    """A batch from end to end; gives what must not depend on the network."""
    again(bench, "publish", "--max_per_worker", 2)
    made = bench.work(NAMES, [1, 2, 3]) + bench.work(OTHER, [1, 2])
    again(bench, "collect")
    made += bench.work(DESCRIPTIONS, [4, 5])
    shortfall = bench.file("shortfall.csv", HEAD + "Ferries_1,x,names,slot_0,3,5,0,a\n")
    again(bench, "topup", "--hits", bench.hits, "--shortfall", shortfall)
    made += bench.work(bench.hit_ids(NAMES)[-1], [6, 7])
    again(bench, "collect")
    rows = "".join(f"{each},0.25,Thank you\n" for each in made[:4])
    bonuses = bench.file("bonuses.csv", "assignment_id,amount,reason\n" + rows)
    again(bench, "pay", "--audit", bench.audit(reasons={made[0]: ["blank", "blank"]}), "--reject", "--bonuses", bonuses)
    again(bench, "collect")
    again(bench, "stop")
    found = bench.snapshot()
    types = {facts["id"]: name for name, facts in bench.open().journal.with_prefix("type").items()}
    return {
        "states": bench.states(),
        "collected": Counter((line["RequesterAnnotation"], line["AssignmentStatus"]) for line in bench.lines()),
        "sizes": Counter((hit["RequesterAnnotation"], hit["MaxAssignments"]) for hit in found["hits"].values()),
        "bonuses": Counter((each["WorkerId"], each["BonusAmount"]) for each in found["bonuses"]),
        "granted": Counter((each["WorkerId"], types[each["QualificationTypeId"]]) for each in found["qualifications"]),
        "money": {name: amount.normalize() for name, amount in found["balance"].items()},
        "types": len(found["qualification_types"]),
        "ledger": Counter((row["kind"], row["task_id"], row["amount"], row["by"]) for row in bench.ledger()),
        "status": {key: bench.status()["total"][key] for key in ("wanted", "approved", "rejected", "paid", "out")},
        "unclear": bench.status()["unclear"],
        "ids": len({line["AssignmentId"] for line in bench.lines()}) == len(made),
    }


@pytest.fixture(scope="module")
def expected(undisturbed):
    """What comes of the loop where nothing fails."""
    found = loop(undisturbed)
    assert found["ids"]
    assert found["unclear"] == {}
    assert found["money"]["paid"] > 0
    assert sum(found["bonuses"].values()) == 4
    assert {kind for kind, *_ in found["ledger"]} == {"reward", "bonus", "rejected"}
    return found


@cases("seed", 1, 2)
def test_faults_change_nothing(bench, expected, seed):
    bench.server.seed, bench.server.faults = seed, FAULTS
    assert loop(bench) == expected
    assert sum(outcomes["ThrottlingException"] for outcomes in bench.server.calls.values()) > 2
    paid = sum((Decimal(row["amount"]) + Decimal(row["fee"]) for row in bench.ledger()), Decimal(0))
    assert (paid, len(bench.hit_ids())) == (bench.snapshot()["balance"]["paid"], 4)


def check_told(bench, operation, run):
    """Runs an action while calls of the operation are answered with a page: it says so in one clear line."""

    def hook(call):
        if call.operation == operation and call.outcome == "ok":
            call.answer = b"<!DOCTYPE html><html><title>Log in to the network</title></html>"

    bench.server.on_response(hook)
    error = bench.err_of(1, run())
    bench.server.response_hooks.clear()
    assert not holding(error, "PARAPET_DEBUG", "Traceback")
    assert not lacking(error, operation, "MTurk's answer is not JSON")


@cases("operation", "GetAccountBalance", "CreateQualificationType", "CreateHIT")
def test_publishing_is_continued_and_publishes_once(bench, operation):
    check_told(bench, operation, bench.publish)
    bench.ok("publish")
    assert (len(bench.hit_ids()), bench.status()["total"]["hits"]) == (3, 3)
    assert (bench.status()["unclear"], len(bench.snapshot()["qualification_types"])) == ({}, 5)


def test_an_odd_answer_to_a_payment_is_no_payment_until_mturk_says_so(bench):
    made = bench.collected((NAMES, [1, 2, 3]))
    bonuses = bench.file("bonuses.csv", "assignment_id,amount,reason\n" + f"{made[0]},0.25,Thanks\n")
    for operation in ("ListAssignmentsForHIT", "ApproveAssignment", "ListBonusPayments", "SendBonus"):
        check_told(bench, operation, lambda: bench.do("pay", "--all", "--bonuses", bonuses))
    for _ in range(2):
        bench.ok("pay", "--all", "--bonuses", bonuses)
    assert (len(bench.snapshot()["bonuses"]), set(bench.statuses().values())) == (1, {"Approved"})
    assert sorted(row["kind"] for row in bench.ledger()) == ["bonus", "reward", "reward", "reward"]


def there(bench):
    """What there is at MTurk, all of which costs."""
    found = bench.snapshot()
    return {
        "hits": {hit_id: hit["MaxAssignments"] for hit_id, hit in found["hits"].items()},
        "assignments": bench.statuses(),
        "bonuses": [(bonus["AssignmentId"], bonus["BonusAmount"]) for bonus in found["bonuses"]],
        "types": len(found["qualification_types"]),
        "balance": {name: str(amount) for name, amount in found["balance"].items()},
    }


@cases("step", 9, pytest.param(1, marks=pytest.mark.thorough))
def test_an_old_copy_of_the_journal_asks_and_pays_for_nothing_again(bench, hits, tmp_path, step):
    """As after a backup from last week: whatever the journal lacks at its end is found at MTurk."""
    shortfall = bench.file("shortfall.csv", HEAD + "Ferries_1,x,descriptions,slot_0,3,5,0,a\n")
    topup = ("topup", "--hits", bench.hits, "--shortfall", shortfall)
    more = cut(hits, tmp_path / "more", [NAMES], assignments=2)
    made = bench.collected((NAMES, [1, 2]), (OTHER, [3]))
    bench.ok(*topup)
    bench.ok("topup", "--hits", more)
    bonuses = bench.file("bonuses.csv", f"assignment_id,amount,reason\n{made[0]},0.25,Thanks\n")
    bench.ok("pay", "--all", "--bonuses", bonuses)
    bench.server.advance(25 * 3_600)
    before = there(bench)
    assert len(before["hits"]) == 5
    whole = (bench.batch / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(whole) + 1, step):
        (bench.batch / "journal.jsonl").write_bytes(b"".join(whole[:kept]))
        bench.ok("publish")
        bench.ok("topup", "--hits", more)
        bench.do(*topup)
        bench.ok("collect")
        bench.ok("pay", "--all", "--bonuses", bonuses)
        assert there(bench) == before, kept
