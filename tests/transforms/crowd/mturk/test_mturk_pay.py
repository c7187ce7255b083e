"""Paying: everyone once, nobody blindly, to the cent; odd submissions, bonuses, and the site's Approve/Reject file."""

import json
from collections import Counter

import pytest
from kit import cases, lacking, rows_of, run, write
from mturk_bench import NAMES, OTHER, worker

from parapet.transforms.crowd.mturk.pay import CARELESS, Audited, decide, feedback_of, fill_in, read_rejections
from parapet.transforms.crowd.mturk.status import ledger_rows

APPROVE, REJECT = "ApproveAssignment", "RejectAssignment"


@pytest.fixture
def done(bench):
    """The bench with work on all three HITs collected: ``made`` has three assignments of NAMES and two of OTHER."""
    bench.made = bench.collected((NAMES, [1, 2, 3]), (OTHER, [1, 4]))
    return bench


def calls(bench):
    return bench.server.count(APPROVE), bench.server.count(REJECT)


@cases(
    "text told",
    ("assignment_id\nX\n", "row 1: the header lacks feedback"),
    ("assignment_id,feedback\n{0},\n", "row 2: a feedback for the worker is required"),
    ("assignment_id,feedback\n{0},a\n{0},b\n", "row 3: assignment {0} appears twice"),
    ("assignment_id,feedback\n{0},a,b\n", "row 2: the row has 3 cells, but the header has 2"),
    ("assignment_id,feedback\n{0}," + "x" * 1_025 + "\n", "a feedback for the worker is required, of at most 1,024"),
    ("assignment_id,feedback\n{0},a\n3NOBODY,b\n", "row 3: assignment 3NOBODY is not in the audit"),
)
def test_a_bad_rejection_is_an_error_by_row_and_nothing_is_paid(done, text, told):
    path = done.file("rejections.csv", text.replace("{0}", done.made[0]))
    assert told.replace("{0}", done.made[0]) in done.err_of(2, done.pay(done.audit(), "--rejections", path))
    assert calls(done) == (0, 0)


def test_a_rejection_of_what_is_approved_already_is_told_and_rejections_need_an_audit(done):
    audit, path = done.audit(), done.file("rejections.csv", f"assignment_id,feedback\n{done.made[1]},no\n")
    assert done.pay(audit) == 0
    done.pay(audit, "--rejections", path)
    assert done.made[1] in done.out + done.err
    for flags in (["--reject"], ["--rejections", path]):
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
    kinds = [(rows[made]["kind"], rows[made]["by"]) for made in done.made[:2]]
    assert kinds == [("reward", "elsewhere"), ("rejected", "elsewhere")]
    exact = sum(row.amount + row.fee for row in ledger_rows(done.open(), done.lines()))
    assert exact == done.snapshot()["balance"]["paid"]
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
    for module in (f"{crowd}.batch", f"{crowd}.publish", "parapet.pipelines.mturk.session"):
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


def test_every_careless_reason_is_one_of_vetting():
    from parapet.transforms.crowd.rules import EXPLANATIONS

    assert set(CARELESS) <= set(EXPLANATIONS)


def test_feedback_is_never_too_long_and_says_how_many():
    told = feedback_of(dict.fromkeys(CARELESS, 1000))
    assert "None of the 9000 answers" in told
    assert len(told) <= 1_024


def test_every_assignment_gets_one_verdict():
    reasons = {"3A": [""], "3B": ["blank", ""], "3C": [""], "3D": ["blank"]}  # the empty ones: used, or dead letters
    feedback = decide({each: Audited(Counter(found)) for each, found in reasons.items()}, True, {"3A": "no"})
    assert feedback == {"3A": "no", "3B": "", "3C": "", "3D": feedback_of({"blank": 1})}


def test_rows_of_a_table_with_quotes_bom_and_crlf(tmp_path):
    path = write(tmp_path / "a.csv", b'\xef\xbb\xbfassignment_id,feedback\r\n 3A ,"two\r\nlines, ""really"""\r\n')
    assert read_rejections(str(path), ["3A"]) == {"3A": 'two\nlines, "really"'}


SEND = "SendBonus"


def bonuses(bench, *rows, name="bonuses.csv"):
    text = "".join(f"{assignment_id},{amount},{reason}\n" for assignment_id, amount, reason in rows)
    return bench.file(name, "assignment_id,amount,reason\n" + text)


def sent(bench):
    return Counter((each["AssignmentId"], each["BonusAmount"]) for each in bench.snapshot()["bonuses"])


def test_bonuses_are_sent_once_with_a_token_each(done):
    tokens = []
    done.server.on_request(lambda call: call.operation == SEND and tokens.append(call.params["UniqueRequestToken"]))
    amounts = zip(done.made, ("0.50", "$1", "0.1"), ("Thank you", "Well done", "a"), strict=False)
    path = bonuses(done, *amounts)
    assert "3 bonuses to send ($1.92)" in done.ok("pay", "--bonuses", path)  # 1.60 and 20 %
    assert "3 bonuses sent" in done.out
    assert sent(done) == {(done.made[0], "0.50"): 1, (done.made[1], "1.00"): 1, (done.made[2], "0.10"): 1}
    assert (len(set(tokens)), max(map(len, tokens)) <= 64) == (3, True)
    to = {each["AssignmentId"]: (each["WorkerId"], each["Reason"]) for each in done.snapshot()["bonuses"]}
    assert to[done.made[1]] == (worker(2), "Well done")
    assert "0 bonuses to send ($0.00)" in done.ok("pay", "--bonuses", path)
    assert done.server.count(SEND) == 3


def test_another_bonus_sent_elsewhere_is_left_to_a_person(done):
    for n in (0, 1):
        done.client.send_bonus(WorkerId=worker(n + 1), AssignmentId=done.made[n], BonusAmount="0.40", Reason="by hand")
    assert done.do("pay", "--bonuses", bonuses(done, *((made, "0.50", "Thank you") for made in done.made[:2]))) == 1
    assert "2 failures: the assignment has a bonus of $0.40 already" in done.err
    assert done.server.count(SEND) == 2


def test_another_amount_than_the_batch_has_sent_is_refused(done):
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "Thank you"))) == 0
    path = bonuses(done, (done.made[1], "0.60", "a"), (done.made[0], "0.60", "more"), name="more.csv")
    assert done.do("pay", "--bonuses", path) == 1
    assert f"the assignment has a bonus of $0.50 already: bonus:{done.made[0]}" in done.err
    assert sent(done) == {(done.made[0], "0.50"): 1, (done.made[1], "0.60"): 1}


@cases(
    "row told",
    ("3NOBODY,0.50,a", "row 3: assignment 3NOBODY was not collected in this batch"),
    ("{0},0.50,a", "row 3: assignment {0} appears twice"),
    ("{1},0.50,", "row 3: a reason for the worker is required"),
    ("{1},0.50," + "x" * 1_025, "row 3: a reason for the worker is required"),
    ("{1},-1,a", "row 3: '-1' is not an amount"),
    ("{1},0.505,a", "row 3: '0.505' is not an amount"),
    ("{1},NaN,a", "row 3: 'NaN' is not an amount"),
    ("{1},1e9,a", "row 3: '1e9' is not an amount"),
    ("{1},1_0,a", "row 3: '1_0' is not an amount"),
    ("{1},1" + "0" * 40 + ",a", "is not an amount"),
    ("{1},0.50", "row 3: the row has 2 cells, but the header has 3"),
)
def test_a_bad_row_is_named_and_nothing_is_sent(done, row, told):
    text = f"assignment_id,amount,reason\n{done.made[0]},0.50,good\n{row}\n"
    path = done.file("bonuses.csv", text.replace("{0}", done.made[0]).replace("{1}", done.made[1]))
    assert told.replace("{0}", done.made[0]) in done.err_of(2, done.do("pay", "--bonuses", path))
    assert done.server.count(SEND) == 0


def test_a_bonus_for_work_that_is_anothers_now_or_gone_is_not_sent_and_stops_no_other(done):
    done.server.recycle(done.made[0], worker(9))
    done.server.delete_hit(done.hit_id(OTHER))
    assert done.do("pay", "--bonuses", bonuses(done, *((made, "0.50", "a") for made in done.made))) == 1
    assert not lacking(done.err, "MTurk refused: ", f"Assignment {done.made[3]} does not exist")
    assert sent(done) == {(done.made[1], "0.50"): 1, (done.made[2], "0.50"): 1}


def test_an_answer_lost_once_is_absorbed(done):
    done.lose(SEND, once=True)
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a"))) == 0
    assert done.server.calls[SEND] == {"dropped_after": 1, "DuplicateRequest": 1}
    assert sent(done) == {(done.made[0], "0.50"): 1}


def test_without_the_money_or_dry_no_bonus_is_sent(done):
    path = bonuses(done, (done.made[0], "0.50", "a"))
    assert '{"call": "send_bonus", "key": "bonus:' in done.ok("pay", "--bonuses", path, "--dry_run")
    assert "WORKERID" not in done.out + done.err
    done.server.state.available -= done.server.state.available
    assert "the balance of the account is $0.00, but $0.60" in done.err_of(1, done.do("pay", "--bonuses", path))
    assert done.server.count(SEND) == 0


# What workers post: nothing, blanks, fields of no form, and what no reader of JSON likes.
POSTS = {
    "nothing": [],
    "blank": [("intent_0", ""), ("slot_0", "")],
    "unknown": [("comment", "nice"), ("slot_999", "more"), ("intent_0x", "x")],
    "plumbing": [("doNotRedirect", "true"), ("csrf_token", "x")],
    "empty list": [("taskAnswers", "[]")],
    "empty answers": [("taskAnswers", "[{}]")],
    "nested inside": [("taskAnswers", '[{"slot_0": ' + "[" * 300 + "]" * 300 + "}]")],
    "too large": [("slot_0", "a b" * 10_000)],
    "an id": [("intent_0", worker(12)), ("slot_0", worker(1))],
    "hostile": [("intent_0", "@" * 15_000), ("slot_0", "a" + "A" * 15_000 + "_")],
    "good": [("intent_0", "some words of mine"), ("slot_0", "other words")],
}


def test_every_odd_submission_is_somewhere_and_is_paid(bench, sample, tmp_path):
    bench.ok("publish")
    hit_id = bench.hit_id(NAMES)
    bench.server.state.hits[hit_id].assignments = 99
    made = {}
    for n, (name, post) in enumerate(POSTS.items()):
        assignment_id = bench.accept(hit_id, worker(n))
        bench.server.submit(assignment_id, [("assignmentId", assignment_id), *(post or [("slot_0", "x")])])
        if not post:
            bench.server.recycle(assignment_id, worker(n), "<Q/>")
        made[name] = assignment_id
    bench.ok("collect")
    lines = bench.batch / "assignments.jsonl"
    audit = run("compose", schemas=sample, responses=lines, output=tmp_path / "audit", quiet=True, status=None)
    rows, dead = audit.rows("responses.parquet"), audit.dead_letters
    in_rows = {row["response_id"].partition(":")[0] for row in rows}
    assert in_rows | {letter["key"].partition(":")[0] for letter in dead} == set(made.values())
    for name in ("nothing", "plumbing", "empty list", "empty answers"):
        assert made[name] not in in_rows
        (reason,) = {letter["reason"].partition(":")[0] for letter in dead if letter["key"] == made[name]}
        assert reason == "no_answer"
    assert {row["disposition"] for row in rows if row["response_id"].startswith(made["blank"])} == {"rejected"}
    assert not [row for row in rows if worker(12) in row["text"] or worker(1) in row["text"]]
    bench.ok("pay", "--audit", audit.folder)
    assert "not in the audit" not in bench.err
    assert set(bench.statuses().values()) == {"Approved"}


@pytest.fixture
def results(sample):
    return sample / "crowd/names.csv"


@pytest.fixture
def site(bench, reviewed, results, tmp_path):
    def run(*flags, results=results):
        output = tmp_path / "reviewed.csv"
        return bench.run("site-csv", "--audit", reviewed, "--results", results, "--output", output, *flags), output

    return run


def test_rejections_by_hand(site, bench, results):
    first = rows_of(results)[0]["AssignmentId"]
    status, output = site("--rejections", bench.file("rejections.csv", f"assignment_id,feedback\n{first},no\n"))
    assert (status, [row["AssignmentId"] for row in rows_of(output) if row["Reject"] == "no"]) == (0, [first])


def test_broken_rows_cost_themselves_and_are_named(site, results, tmp_path, bench):
    lines = results.read_text().splitlines(keepends=True)
    broken = write(tmp_path / "broken.csv", "".join([*lines[:2], '"a","b"\n', *lines[2:]]))
    status, output = site(results=broken)
    assert status == 1
    assert "broken.csv: row 3: left out: broken_row: the row has 2 cells, but the header has" in bench.err
    assert len(rows_of(output)) == 60


def test_what_cannot_be_used_is_usage(site, results, bench, tmp_path):
    others = {bench.file("a.csv", "a,b\n"): "not a file of batch results"}
    others |= {tmp_path / "missing": "no such file", bench.file("empty.csv", ""): "not a file of batch results"}
    for path, told in others.items():
        status, output = site(results=path)
        assert told in bench.err_of(2, status)
        assert not output.exists()
    assert "is the same as --results" in bench.err_of(2, site("--output", results)[0])
    assert bench.run("site-csv", "--audit", tmp_path, "--results", results, "--output", tmp_path / "o") == 2


def test_open_rows_get_the_decision_others_stay_and_missing_columns_are_added(tmp_path):
    def filled(text, decisions):
        data, counts, _ = fill_in(str(write(tmp_path / "r.csv", text)), decisions)
        return data.decode().replace('"', "").splitlines(), counts

    head = "AssignmentId,AssignmentStatus,Approve,Reject"
    text = f"{head}\n3A,Submitted,,\n3B,Approved,x,\n3C,Rejected,,why\n3D,Submitted,,\n"
    rows = [head, "3A,Submitted,X,", "3B,Approved,x,", "3C,Rejected,,why", "3D,Submitted,,"]
    counts = {"approved": 1, "settled": 2, "unknown": 1}
    assert filled(text, {"3A": "", "3B": "no", "3C": ""}) == (rows, counts)
    assert filled("AssignmentId,AssignmentStatus\n3A,Submitted\n", {"3A": "no"})[0] == [head, "3A,Submitted,,no"]


def test_careless_work_gets_its_reason_where_that_is_asked_for(site, bench):
    status, output = site("--reject")
    assert status == 0
    rejected = [row for row in rows_of(output) if row["Reject"]]
    assert 0 < len(rejected) < 15
    assert all(row["Reject"].startswith("None of the ") and not row["Approve"] for row in rejected)
    assert f"{len(rejected)} to reject" in bench.out
    assert "A1" not in bench.out  # no worker


def test_formulas_by_strangers_are_no_formulas_in_a_spreadsheet(site, results, tmp_path):
    text = results.read_text()
    answer = next(cell for name, cell in rows_of(results)[0].items() if name.startswith("Answer.") and len(cell) > 8)
    status, output = site(results=write(tmp_path / "formula.csv", text.replace(f'"{answer}"', '"=1+1"', 1)))
    cells = [cell for row in rows_of(output) for cell in row.values()]
    assert (status, "=1+1" in cells, "'=1+1" in cells) == (0, False, True)
