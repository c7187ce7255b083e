"""Paying: everyone once, nobody blindly, to the cent."""

import json
from collections import Counter
from decimal import Decimal

import pytest
from kit import cases, raised, write
from mturk_bench import NAMES, OTHER, worker

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.answer_files import read_rows
from parapet.transforms.crowd.mturk.batch import Batch
from parapet.transforms.crowd.mturk.pay import CARELESS, Audited, decide, feedback_of, read_rejections
from parapet.transforms.crowd.mturk.status import ledger_rows

APPROVE, REJECT = "ApproveAssignment", "RejectAssignment"


@pytest.fixture
def done(bench):
    """The bench with work on all three HITs collected: ``made`` has three assignments of NAMES and two of OTHER."""
    bench.made = bench.collected((NAMES, [1, 2, 3]), (OTHER, [1, 4]))
    return bench


def calls(bench):
    return bench.server.count(APPROVE), bench.server.count(REJECT)


def exact(bench):
    """Dollars that the ledger knows of, not rounded: as exact as the server's."""

    rows = ledger_rows(Batch(bench.batch, writable=False), bench.lines())
    return sum((row.amount + row.fee for row in rows), Decimal(0))


@cases(
    "text told",
    ("assignment_id\nX\n", "row 1: the header lacks feedback"),
    ("assignment_id,feedback\n{0},\n", "row 2: a feedback for the worker is required"),
    ("assignment_id,feedback\n{0},a\n{0},b\n", "row 3: assignment {0} appears twice"),
    ("assignment_id,feedback\n{0},a,b\n", "row 2: the row has 3 cells, but the header has 2"),
    (
        "assignment_id,feedback\n{0}," + "x" * 1_025 + "\n",
        "row 2: a feedback for the worker is required, of at most 1,024",
    ),
    ("assignment_id,feedback\n{0},a\n3NOBODY,b\n", "row 3: assignment 3NOBODY is not in the audit"),
)
def test_a_bad_rejection_is_an_error_by_row_and_nothing_is_paid(done, text, told):
    path = done.file("rejections.csv", text.replace("{0}", done.made[0]))
    assert told.replace("{0}", done.made[0]) in done.err_of(2, done.pay(done.audit(), "--rejections", path))
    assert calls(done) == (0, 0)


def test_a_rejection_of_what_is_approved_already_is_told(done):
    audit = done.audit()
    assert done.pay(audit) == 0
    done.pay(audit, "--rejections", done.file("rejections.csv", f"assignment_id,feedback\n{done.made[1]},no\n"))
    assert done.made[1] in done.out + done.err


def test_rejections_need_an_audit(done, tmp_path):
    (tmp_path / "x.csv").write_text("")
    for flags in (["--reject"], ["--rejections", str(tmp_path / "x.csv")]):
        assert "add --audit" in done.err_of(2, done.do("pay", "--all", *flags))
    assert "one of --audit DIR, --all and --bonuses FILE is required" in done.err_of(2, done.do("pay"))


def test_what_was_settled_elsewhere_is_not_called_again(done):
    audit = done.audit(reasons={done.made[0]: ["blank", "blank"]})
    done.server.approve_elsewhere(done.made[0])
    done.client.reject_assignment(AssignmentId=done.made[1], RequesterFeedback="by hand")
    before = calls(done)
    assert "3 approved, 0 rejected" in done.ok("pay", "--audit", audit, "--reject")
    assert calls(done) == (before[0] + 3, before[1])
    rows = {row["assignment_id"]: row for row in done.ledger()}
    assert (rows[done.made[0]]["kind"], rows[done.made[0]]["by"]) == ("reward", "elsewhere")
    assert (rows[done.made[1]]["kind"], rows[done.made[1]]["by"]) == ("rejected", "elsewhere")
    assert exact(done) == done.snapshot()["balance"]["paid"]
    done.ok("pay", "--audit", audit, "--reject")
    assert calls(done) == (before[0] + 3, before[1])


def test_nobody_is_rejected_for_what_another_worker_wrote_under_the_same_id(done):
    """Composed, then the id was given out anew, then collected: the audit judges work that is no longer there."""
    audit = done.audit(reasons={done.made[0]: ["blank", "blank"]})
    done.server.recycle(done.made[0], worker(9))
    done.ok("collect")
    done.pay(audit, "--reject")
    assert done.statuses()[done.made[0]] != "Rejected"
    assert done.server.count(REJECT) == 0


def test_a_hit_that_is_gone_stops_no_other(done):
    audit = done.audit()
    done.server.delete_hit(done.hit_id(NAMES))
    assert f"Assignment {done.made[0]} does not exist" in done.err_of(1, done.pay(audit))
    assert "2 approved" in done.out
    assert list(done.statuses().values()) == ["Approved", "Approved"]


def test_settled_elsewhere_in_the_other_way_between_look_and_call_is_a_failure(done):
    audit = done.audit()

    def hook(call):
        if call.operation == APPROVE and call.params["AssignmentId"] == done.made[0]:
            done.server.state.assignments[done.made[0]].status = "Rejected"

    done.server.on_request(hook)
    assert "InvalidAssignmentState" in done.err_of(1, done.pay(audit))
    assert "4 approved" in done.out


def test_the_most_that_paying_may_take_is_asked_for_in_production(done, monkeypatch):
    crowd = "parapet.transforms.crowd.mturk"
    for module in (f"{crowd}.client", f"{crowd}.publish", "parapet.pipelines.mturk.session"):
        monkeypatch.setattr(f"{module}.PRODUCTION", done.server.url)
    audit = done.audit()
    assert (done.pay(audit), done.pay(audit, "--production", "--confirm", "6.82")) == (2, 1)
    assert "does not match the amount, which is 6.83: nothing was spent" in done.err
    assert calls(done) == (0, 0)
    done.ok("pay", "--audit", audit, "--production", "--confirm", "6.83")
    assert calls(done) == (5, 0)


def test_an_audit_that_is_none_is_usage(done, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (empty, tmp_path / "missing", done.hits):
        assert str(folder) in done.err_of(2, done.pay(folder))
        assert done.err.count("\n") == 1
    broken = done.audit("broken")
    (broken / "responses.parquet").write_bytes(b"PAR1")
    assert done.pay(broken) == 2
    torn = done.audit("torn")
    for text in ("nonsense\n", "[]\n", "{}\n"):
        (torn / "dead_letters.jsonl").write_text(text)
        assert "cannot be read" in done.err_of(2, done.pay(torn))


def test_an_audit_of_another_batch_pays_nobody(done):
    assert "0 assignments to approve" in done.ok("pay", "--audit", done.audit(leave_out=done.made))
    assert "5 assignments not in the audit" in done.err
    assert calls(done) == (0, 0)


def test_work_of_another_batch_in_the_file_is_not_paid_from_this_one(done):
    path = done.batch / "assignments.jsonl"
    foreign = {**done.lines()[0], "AssignmentId": "3FOREIGN", "HITId": "3NOTOURS"}
    path.write_bytes(path.read_bytes() + json.dumps(foreign).encode() + b"\n")
    done.do("pay", "--all")
    assert "PARAPET_DEBUG" not in done.err
    assert set(done.statuses().values()) == {"Approved"}


# The rule by itself.


def audit_of(answers, dead=()):
    """What ``read_audit`` returns."""
    return {each: Audited(Counter(answers.get(each, [])) + Counter({"": each in dead})) for each in {*answers, *dead}}


def test_every_careless_reason_is_one_of_vetting():
    from parapet.transforms.crowd.rules import EXPLANATIONS

    assert set(CARELESS) <= set(EXPLANATIONS)


def test_feedback_is_never_too_long_and_says_how_many():
    told = feedback_of(dict.fromkeys(CARELESS, 1000))
    assert "None of the 9000 answers" in told
    assert len(told) <= 1_024


def test_every_assignment_gets_one_verdict():
    audit = audit_of({"3A": [""], "3B": ["blank"], "3D": ["blank"]}, dead={"3B", "3C"})
    feedback = decide(audit, True, {"3A": "no"})
    assert feedback == {"3A": "no", "3B": "", "3C": "", "3D": feedback_of({"blank": 1})}


def test_rows_of_a_table_with_quotes_bom_and_crlf(tmp_path):
    path = write(tmp_path / "a.csv", b'\xef\xbb\xbfassignment_id,feedback\r\n 3A ,"two\r\nlines, ""really"""\r\n')
    assert read_rejections(str(path), ["3A"]) == {"3A": 'two\nlines, "really"'}
    for data in (b"\xff", b'a,b\n"open\n', b"a\x00,b\n"):
        path.write_bytes(data)
        raised(InputError, read_rows, str(path), ("a", "b"), match=r"a\.csv")
    raised(InputError, read_rows, str(tmp_path / "missing"), (), match="cannot be read")
