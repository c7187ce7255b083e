"""A server whose answers are not what they should be: each is one clear line, and nothing is made or paid twice."""

import json
import subprocess
import sys
from decimal import Decimal

import pytest
from kit import cases, holding, lacking
from mturk_bench import DESCRIPTIONS, NAMES, OTHER

from parapet.transforms.crowd.mturk import client, collect

HTML = b"<!DOCTYPE html><html><title>Log in to the network</title></html>"
BODIES = [b"", HTML, b"null", b"[]", b"7", b'"x"', b"{", b"[" * 9_000, b'{"\xff": 1}', b"NaN"]
ODD = [None, 7, -1.5, True, "", "x" * 400, [], ["x"], {}, [None], 1e308]

# Of each operation, where what the commands read is in its answer.
READ = {
    "CreateHITType": ["HITTypeId"],
    "CreateQualificationType": ["QualificationType", "QualificationType.QualificationTypeId"],
    "GetAccountBalance": ["AvailableBalance"],
    "CreateHITWithHITType": ["HIT", "HIT.HITId", "HIT.Expiration"],
    "ListAssignmentsForHIT": [
        "Assignments",
        *(f"Assignments.0.{name}" for name in ("AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "SubmitTime")),
    ],
    "ListBonusPayments": ["BonusPayments", "BonusPayments.0.WorkerId", "BonusPayments.0.BonusAmount"],
    "GetHIT": ["HIT", "HIT.MaxAssignments"],
}
OFTEN = {"HIT.Expiration": [-1, "soon", 1e12], "Assignments.0.SubmitTime": [253_402_400_000, "2026-11-23", -1]}


def changed(path, *values):
    """A lie: another value at a path of an answer that has one, or none."""

    def lie(body):
        *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        answer = holder = json.loads(body)
        try:
            for part in above:
                holder = holder[part]
            if holder[last] is None:
                return body
        except (LookupError, TypeError):
            return body
        del holder[last]
        for value in values:
            holder[last] = value
        return json.dumps(answer).encode()

    return lie


def fits(path, value):
    """Whether an answer to this operation could have a value of ``ODD``."""
    return (
        (path.endswith("Expiration") and value in (7, True))
        or (path.endswith(("MaxAssignments", "SubmitTime")) and value == 7)
        or (path in ("Assignments", "BonusPayments") and value == [])
        or (path.endswith(("SubmitTime", "Expiration")) and value is True)
    )


def lies_of(operation, step=1):
    """Bodies that no answer to this operation can have; of all, every so many."""
    lies = [(lambda _, body=body: body) for body in BODIES]
    for path in READ[operation]:
        lies += [changed(path)] * (not path[-1].isdigit())
        lies += [changed(path, value) for value in ODD if not fits(path, value)]
        lies += [changed(path, value) for value in OFTEN.get(path, [])]
    return lies[::step]


def lying(bench, operation, lie):
    """The server tells this lie from now on; the list has whether it did."""
    told = []

    def hook(call):
        if call.operation == operation and call.outcome == "ok":
            body = lie(call.answer)
            if body != call.answer:
                told.append(call.index)
            call.answer = body

    bench.server.response_hooks[:] = [hook]
    return told


def honest(bench):
    bench.server.response_hooks.clear()


def check_told(bench, operation, status):
    """One clear line, which names the operation."""
    assert status == 1, bench.out + bench.err
    assert not holding(bench.err, "PARAPET_DEBUG", "Traceback")
    line = next(line for line in bench.err.splitlines() if "MTurk's answer" in line)
    assert operation in line or operation in bench.err
    assert len(line) < 400


SOME = pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.thorough)])


@SOME
@cases("operation", "GetAccountBalance", "CreateQualificationType", "CreateHITType", "CreateHITWithHITType")
def test_publishing_stands_every_odd_answer_and_publishes_once(bench, operation, step):
    for lie in lies_of(operation, step):
        told = lying(bench, operation, lie)
        status = bench.publish()
        if not told:
            break  # all of these are made: a call that is begun is looked up, not made again
        check_told(bench, operation, status)
    honest(bench)
    bench.ok("publish")
    assert (len(bench.hit_ids()), bench.status()["total"]["hits"]) == (3, 3)
    assert (bench.status()["unclear"], len(bench.snapshot()["qualification_types"])) == ({}, 5)


@SOME
def test_paying_stands_every_odd_answer_and_pays_once(bench, step):
    made = bench.collected((NAMES, [1, 2]))
    bonuses = bench.file("bonuses.csv", f"assignment_id,amount,reason\n{made[0]},0.25,Thanks\n")
    for lie in lies_of("ListAssignmentsForHIT", step):
        lying(bench, "ListAssignmentsForHIT", lie)
        check_told(bench, "ListAssignmentsForHIT", bench.do("pay", "--all"))
    assert set(bench.statuses().values()) == {"Submitted"}
    for body in BODIES[::step]:
        lying(bench, "ListBonusPayments", lambda _, body=body: body)
        check_told(bench, "ListBonusPayments", bench.do("pay", "--all", "--bonuses", bonuses))
    honest(bench)
    bench.ok("pay", "--all", "--bonuses", bonuses)
    for lie in lies_of("ListBonusPayments", step):
        lying(bench, "ListBonusPayments", lie)
        assert bench.do("pay", "--all", "--bonuses", bonuses) == 0  # it was sent: nothing is asked
    (bonus,) = bench.snapshot()["bonuses"]
    assert (bonus["BonusAmount"], set(bench.statuses().values())) == ("0.25", {"Approved"})
    spent = sum((Decimal(row["amount"]) + Decimal(row["fee"]) for row in bench.ledger()), Decimal(0))
    assert spent == bench.snapshot()["balance"]["paid"]


def test_an_odd_answer_to_a_payment_is_no_payment_until_mturk_says_so(bench):
    made = bench.collected((NAMES, [1, 2, 3]))
    bonuses = bench.file("bonuses.csv", "assignment_id,amount,reason\n" + f"{made[0]},0.25,Thanks\n")
    for operation in ("ApproveAssignment", "SendBonus"):
        lying(bench, operation, lambda _: HTML)
        check_told(bench, operation, bench.do("pay", "--all", "--bonuses", bonuses))
        honest(bench)
    bench.ok("pay", "--all", "--bonuses", bonuses)
    bench.ok("pay", "--all", "--bonuses", bonuses)
    assert (len(bench.snapshot()["bonuses"]), set(bench.statuses().values())) == (1, {"Approved"})
    assert sorted(row["kind"] for row in bench.ledger()) == ["bonus", "reward", "reward", "reward"]


def test_one_hit_id_for_several_hits_is_not_several_hits(bench):
    first = []

    def same(body):
        answer = json.loads(body)
        first.append(answer["HIT"]["HITId"])
        answer["HIT"]["HITId"] = first[0]
        return json.dumps(answer).encode()

    lying(bench, "CreateHITWithHITType", same)
    assert bench.publish("--parallel_calls", 1) == 1
    assert f"MTurk gave {first[0]} for another HIT" in bench.err
    assert "3 HITs published" not in bench.out
    assert bench.status()["total"]["hits"] == 1
    honest(bench)
    bench.ok("publish")
    assert len(bench.hit_ids()) == bench.status()["total"]["hits"] == 3


TOKENS = {"the same": lambda n: "again", "two by turns": lambda n: f"turn {n % 2}", "ever new": lambda n: f"token {n}"}


@cases("token", *TOKENS)
@cases("items", "the same", "none", "new")
def test_a_listing_without_an_end_is_ended(bench, token, items, monkeypatch):
    monkeypatch.setattr(collect, "MAX_ASSIGNMENTS", 500)
    bench.ok("publish")
    made = bench.work(NAMES, [1, 2])
    calls = []

    def endless(body):
        answer = json.loads(body)
        calls.append(1)
        answer["NextToken"] = TOKENS[token](len(calls))
        if items == "new":
            for each in answer["Assignments"]:
                each["AssignmentId"] = f"3{len(calls):05d}{each['AssignmentId'][6:]}"
        elif items == "none":
            answer["Assignments"] = []
        return json.dumps(answer).encode()

    hit_id = bench.hit_id(NAMES)
    # The server would refuse the token.
    bench.server.on_request(lambda call: call.params.pop("NextToken", None))
    lying(bench, "ListAssignmentsForHIT", lambda body: endless(body) if hit_id.encode() in body or calls else body)
    status = bench.do("collect", "--parallel_calls", 1)
    assert len(calls) < 700
    assert "PARAPET_DEBUG" not in bench.err
    if items == "none":
        assert (status, bench.lines()) == (0, [])
    else:
        assert status == 1
        assert not lacking(bench.err, "MTurk's listing does not end", hit_id)
    honest(bench)
    bench.server.request_hooks.clear()
    bench.ok("collect")
    assert sorted(line["AssignmentId"] for line in bench.lines()) == sorted(made)


def test_two_assignments_under_one_id_in_one_listing_are_neither(bench):
    bench.ok("publish")
    bench.work(NAMES, [1, 2])

    def one_id(body):
        answer = json.loads(body)
        for each in answer["Assignments"]:
            each["AssignmentId"] = answer["Assignments"][0]["AssignmentId"]
        return json.dumps(answer).encode()

    lying(bench, "ListAssignmentsForHIT", one_id)
    check_told(bench, "ListAssignmentsForHIT", bench.do("collect"))
    assert "twice, with different answers" in bench.err
    assert bench.lines() == []


def test_assignments_of_another_hit_are_not_taken(bench):
    bench.ok("publish")
    made = bench.work(NAMES, [1, 2]) + bench.work(OTHER, [3])
    taken = [each for each in bench.snapshot()["assignments"].values() if each["AssignmentId"] == made[2]]
    of_other = json.dumps({"Assignments": taken}).encode()
    lying(bench, "ListAssignmentsForHIT", lambda body: of_other)
    check_told(bench, "ListAssignmentsForHIT", bench.do("collect"))
    assert ", which belongs to another HIT" in bench.err
    assert [line["AssignmentId"] for line in bench.lines()] == [made[2]]


@cases("status", 400, 502)
@cases("body", HTML, b"", b"[]", b'{"__type": 5, "Message": {}}', b'{"message": null}', b"{")
def test_a_refusal_that_is_odd_is_one_clear_line(bench, status, body):
    def hook(call):
        call.outcome, call.status, call.answer = "failed", status, body

    bench.server.on_response(hook)
    assert bench.publish() == 1
    assert "PARAPET_DEBUG" not in bench.err
    assert "MTurk refused" in bench.err
    honest(bench)
    bench.ok("publish")
    assert len(bench.hit_ids()) == 3


def test_an_answer_that_is_too_large_is_not_taken(bench, monkeypatch):
    bench.ok("publish")
    bench.work(DESCRIPTIONS, [1])
    monkeypatch.setattr(client, "MAX_BYTES", 10_000)
    lying(bench, "ListAssignmentsForHIT", lambda body: body + b" " * 10_000)
    check_told(bench, "ListAssignmentsForHIT", bench.do("collect"))
    assert "is too large" in bench.err


FIRST_ANSWERS = """
import sys, threading
from parapet.transforms.crowd.mturk import client, collect

sys.setswitchinterval(1e-6)
start = threading.Barrier(8)

def check():
    start.wait()
    client.check("ListAssignmentsForHIT", b'{"NumResults": 0, "Assignments": []}')

threads = [threading.Thread(target=check) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_the_first_answers_may_come_to_several_threads_at_once():
    """msgspec 0.22 crashes where threads lay out a type at once: nine of ten such processes ended by a signal."""
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", FIRST_ANSWERS], check=False).returncode == 0
