"""Bonuses: each assignment's once, whoever sent it, to the cent."""

from collections import Counter

import pytest
from kit import cases
from mturk_bench import NAMES, OTHER, worker

SEND = "SendBonus"


@pytest.fixture
def done(bench):
    """``made``: two assignments of NAMES and one of OTHER, collected."""
    bench.made = bench.collected((NAMES, [1, 2]), (OTHER, [1]))
    return bench


def bonuses(bench, *rows, name="bonuses.csv"):
    text = "".join(f"{assignment_id},{amount},{reason}\n" for assignment_id, amount, reason in rows)
    return bench.file(name, "assignment_id,amount,reason\n" + text)


def sent(bench):
    return Counter((each["AssignmentId"], each["BonusAmount"]) for each in bench.snapshot()["bonuses"])


def test_bonuses_are_sent_once_with_a_token_each(done):
    tokens = []
    done.server.on_request(lambda call: call.operation == SEND and tokens.append(call.params["UniqueRequestToken"]))
    rows = zip(done.made, ("0.50", "$1", "0.1"), ("Thank you", "Well done", "a"), strict=True)
    path = bonuses(done, *rows)
    assert "3 bonuses to send ($1.92)" in done.ok("pay", "--bonuses", path)  # 1.60 and 20 %
    assert "3 bonuses sent" in done.out
    assert sent(done) == {(done.made[0], "0.50"): 1, (done.made[1], "1.00"): 1, (done.made[2], "0.10"): 1}
    assert len(set(tokens)) == 3
    assert all(len(token) <= 64 for token in tokens)
    to = {each["AssignmentId"]: (each["WorkerId"], each["Reason"]) for each in done.snapshot()["bonuses"]}
    assert to[done.made[1]] == (worker(2), "Well done")
    assert "0 bonuses to send ($0.00)" in done.ok("pay", "--bonuses", path)
    assert done.server.count(SEND) == 3


def test_another_bonus_sent_elsewhere_is_left_to_a_person(done):
    for n in (0, 1):
        done.client.send_bonus(WorkerId=worker(n + 1), AssignmentId=done.made[n], BonusAmount="0.40", Reason="by hand")
    path = bonuses(done, (done.made[0], "0.50", "Thank you"), (done.made[1], "0.50", "Thank you"))
    assert done.do("pay", "--bonuses", path) == 1
    assert "2 failures: the assignment has a bonus of $0.40 already" in done.err
    assert done.server.count(SEND) == 2


def test_another_amount_than_the_batch_has_sent_is_refused(done):
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "Thank you"))) == 0
    path = bonuses(done, (done.made[1], "0.60", "a"), (done.made[0], "0.60", "more"), name="more.csv")
    assert f"the assignment has a bonus of $0.50 already: bonus:{done.made[0]}" in done.err_of(
        1, done.do("pay", "--bonuses", path)
    )
    assert sent(done) == {(done.made[0], "0.50"): 1, (done.made[1], "0.60"): 1}


@cases(
    "row told",
    ("3NOBODY,0.50,a", "row 3: assignment 3NOBODY was not collected in this batch"),
    ("{0},0.50,a", "row 3: assignment {0} appears twice"),
    ("{1},0.50,", "row 3: a reason for the worker is required"),
    ("{1},0.50," + "x" * 1_025, "row 3: a reason for the worker is required"),
    ("{1},0,a", "row 3: '0' is not an amount"),
    ("{1},-1,a", "row 3: '-1' is not an amount"),
    ("{1},0.505,a", "row 3: '0.505' is not an amount"),
    ("{1},much,a", "row 3: 'much' is not an amount"),
    ("{1},,a", "row 3: '' is not an amount"),
    ("{1},NaN,a", "row 3: 'NaN' is not an amount"),
    ("{1},Infinity,a", "row 3: 'Infinity' is not an amount"),
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


def test_a_bonus_for_work_that_is_another_s_now_is_not_sent(done):
    done.server.recycle(done.made[0], worker(9))
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a"), (done.made[1], "0.50", "b"))) == 1
    assert "MTurk refused: " in done.err
    assert sent(done) == {(done.made[1], "0.50"): 1}


def test_a_bonus_for_a_hit_that_is_gone_is_not_sent_and_stops_no_other(done):
    done.server.delete_hit(done.hit_id(NAMES))
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a"), (done.made[2], "0.50", "b"))) == 1
    assert f"Assignment {done.made[0]} does not exist" in done.err
    assert sent(done) == {(done.made[2], "0.50"): 1}


def test_an_answer_lost_once_is_absorbed(done):
    done.lose(SEND, once=True)
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a"))) == 0
    assert done.server.calls[SEND] == {"dropped_after": 1, "DuplicateRequest": 1}
    assert sent(done) == {(done.made[0], "0.50"): 1}


def test_without_the_money_no_bonus_is_sent(done):
    done.server.state.available -= done.server.state.available
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a"))) == 1
    assert "the balance of the account is $0.00, but $0.60" in done.err
    assert done.server.count(SEND) == 0


def test_a_dry_run_names_workers_by_hashes_only(done):
    assert done.do("pay", "--bonuses", bonuses(done, (done.made[0], "0.50", "a")), "--dry_run") == 0
    assert done.server.count(SEND) == 0
    assert '{"call": "send_bonus", "key": "bonus:' in done.out
    assert "WORKERID" not in done.out + done.err
