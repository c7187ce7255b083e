"""A proxy's page instead of an answer is one clear line, and nothing is made or paid twice."""

from kit import cases, holding
from mturk_bench import NAMES

HTML = b"<!DOCTYPE html><html><title>Log in to the network</title></html>"


def lying(bench, operation):
    """The server answers calls of this operation with a page from now on."""

    def hook(call):
        if call.operation == operation and call.outcome == "ok":
            call.answer = HTML

    bench.server.response_hooks[:] = [hook]


def honest(bench):
    bench.server.response_hooks.clear()


def check_told(bench, operation, status):
    """One clear line, which names the operation."""
    assert status == 1, bench.out + bench.err
    assert not holding(bench.err, "PARAPET_DEBUG", "Traceback")
    assert operation in bench.err
    assert "MTurk's answer is not JSON" in bench.err


@cases("operation", "GetAccountBalance", "CreateQualificationType", "CreateHIT")
def test_publishing_is_continued_and_publishes_once(bench, operation):
    lying(bench, operation)
    check_told(bench, operation, bench.publish())
    honest(bench)
    bench.ok("publish")
    assert (len(bench.hit_ids()), bench.status()["total"]["hits"]) == (3, 3)
    assert (bench.status()["unclear"], len(bench.snapshot()["qualification_types"])) == ({}, 5)


def test_an_odd_answer_to_a_payment_is_no_payment_until_mturk_says_so(bench):
    made = bench.collected((NAMES, [1, 2, 3]))
    bonuses = bench.file("bonuses.csv", "assignment_id,amount,reason\n" + f"{made[0]},0.25,Thanks\n")
    for operation in ("ListAssignmentsForHIT", "ApproveAssignment", "ListBonusPayments", "SendBonus"):
        lying(bench, operation)
        check_told(bench, operation, bench.do("pay", "--all", "--bonuses", bonuses))
        honest(bench)
    bench.ok("pay", "--all", "--bonuses", bonuses)
    bench.ok("pay", "--all", "--bonuses", bonuses)
    assert (len(bench.snapshot()["bonuses"]), set(bench.statuses().values())) == (1, {"Approved"})
    assert sorted(row["kind"] for row in bench.ledger()) == ["bonus", "reward", "reward", "reward"]
