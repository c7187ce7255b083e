"""Assignments and bonuses through boto3."""

from decimal import Decimal

import pytest


@pytest.fixture
def hit_id(make_hit):
    return make_hit(MaxAssignments=9)


def balance(mturk):
    return {name: str(amount.normalize()) for name, amount in mturk.snapshot()["balance"].items()}


def test_work_in_hand_is_not_there_for_the_requester(client, hit_id, browser, refused):
    assignment_id = browser.accept(hit_id)
    assert refused(client.get_assignment, AssignmentId=assignment_id)[0] == "InvalidAssignmentState"
    code, message = refused(client.approve_assignment, AssignmentId=assignment_id)
    assert code == "InvalidAssignmentState"
    assert message.startswith("This operation can be called with a status of: null (")
    bonus = {"AssignmentId": assignment_id, "WorkerId": "A1", "BonusAmount": "1", "Reason": "r"}
    assert refused(client.send_bonus, **bonus)[0] == "AssignmentDoesNotExist"
    assert refused(client.get_assignment, AssignmentId="3NONE")[0] == "AssignmentDoesNotExist"


def test_nobody_is_paid_twice(client, hit_id, browser, refused, mturk):
    assignment_id = browser.work(hit_id)
    client.approve_assignment(AssignmentId=assignment_id)
    before = balance(mturk)
    for changes in ({}, {"OverrideRejection": True}):
        code, message = refused(client.approve_assignment, AssignmentId=assignment_id, **changes)
        assert code == "InvalidAssignmentState"
        assert message.startswith("This operation can be called with a status of: Submitted (")
    rejection = {"AssignmentId": assignment_id, "RequesterFeedback": "no"}
    assert refused(client.reject_assignment, **rejection)[0] == "InvalidAssignmentState"
    assert balance(mturk) == before


def test_a_rejection_and_its_end(client, hit_id, browser, refused, mturk):
    assignment_id = browser.work(hit_id)
    rejection = {"AssignmentId": assignment_id, "RequesterFeedback": "copied"}
    assert refused(client.reject_assignment, **rejection | {"RequesterFeedback": ""})[0] == "ParameterValidationError"
    client.reject_assignment(**rejection)
    assert refused(client.reject_assignment, **rejection)[0] == "InvalidAssignmentState"
    found = client.get_assignment(AssignmentId=assignment_id)["Assignment"]
    assert (found["AssignmentStatus"], found["RequesterFeedback"]) == ("Rejected", "copied")
    assert balance(mturk) == {"available": "995.2", "held": "4.8", "paid": "0"}
    # Nobody else gets it.
    assert client.get_hit(HITId=hit_id)["HIT"]["NumberOfAssignmentsAvailable"] == 8
    assert refused(client.approve_assignment, AssignmentId=assignment_id)[0] == "InvalidAssignmentState"
    client.approve_assignment(AssignmentId=assignment_id, OverrideRejection=True)
    found = client.get_assignment(AssignmentId=assignment_id)["Assignment"]
    assert found["AssignmentStatus"] == "Approved"
    assert "RejectionTime" not in found
    assert balance(mturk) == {"available": "994.6", "held": "4.8", "paid": "0.6"}


def test_a_rejection_cannot_be_taken_back_for_ever(client, hit_id, browser, refused, mturk):
    assignment_id = browser.work(hit_id)
    client.reject_assignment(AssignmentId=assignment_id, RequesterFeedback="no")
    mturk.advance(30 * 86_400 + 1)
    late = {"AssignmentId": assignment_id, "OverrideRejection": True}
    assert refused(client.approve_assignment, **late)[0] == "InvalidAssignmentState"


def test_lists_are_paged_and_parted_by_status(client, make_hit, browser):
    hit_id = make_hit(MaxAssignments=25)
    ids = [browser.work(hit_id, f"AW{i}") for i in range(25)]
    for assignment_id in ids[:4]:
        client.approve_assignment(AssignmentId=assignment_id)
    client.reject_assignment(AssignmentId=ids[4], RequesterFeedback="no")

    def listed(**params):
        pages = client.get_paginator("list_assignments_for_hit").paginate(HITId=hit_id, **params)
        return [each["AssignmentId"] for page in pages for each in page["Assignments"]]

    assert client.list_assignments_for_hit(HITId=hit_id)["NumResults"] == 10
    assert listed() == listed(PaginationConfig={"PageSize": 100}) == listed(PaginationConfig={"PageSize": 5}) == ids
    assert listed(AssignmentStatuses=["Approved"]) == ids[:4]
    assert listed(AssignmentStatuses=["Rejected", "Submitted"]) == ids[4:]


def test_a_bonus_is_paid_once_a_token(client, hit_id, browser, refused, mturk):
    assignment_id = browser.work(hit_id)
    bonus = {"AssignmentId": assignment_id, "WorkerId": "A1", "BonusAmount": "2.00", "Reason": "well done"}
    client.send_bonus(**bonus, UniqueRequestToken="t")
    code, message = refused(client.send_bonus, **bonus, UniqueRequestToken="t")
    assert code == "DuplicateRequest"
    assert 'The idempotency token "t" has already been processed.' in message
    assert balance(mturk) == {"available": "992.2", "held": "5.4", "paid": "2.4"}
    mturk.advance(24 * 3_600)
    client.send_bonus(**bonus, UniqueRequestToken="t")
    client.send_bonus(**bonus | {"BonusAmount": "0.01"})
    for which in ({"HITId": hit_id}, {"AssignmentId": assignment_id}):
        listed = client.list_bonus_payments(**which)
        assert [each["BonusAmount"] for each in listed["BonusPayments"]] == ["2.00", "2.00", "0.01"]
        assert {each["WorkerId"] for each in listed["BonusPayments"]} == {"A1"}
    # At least a cent of fees.
    assert Decimal(balance(mturk)["paid"]) == Decimal("0.60") + 2 * Decimal("2.40") + Decimal("0.02")


def test_bonuses_that_cannot_be(client, hit_id, browser, refused, mturk):
    bonus = {"AssignmentId": browser.work(hit_id), "WorkerId": "A1", "BonusAmount": "1", "Reason": "r"}
    assert "parameter WorkerId" in refused(client.send_bonus, **bonus | {"WorkerId": "A2"})[1]
    assert "parameter BonusAmount" in refused(client.send_bonus, **bonus | {"BonusAmount": "0.00"})[1]
    assert "parameter BonusAmount" in refused(client.send_bonus, **bonus | {"BonusAmount": "10000.01"})[1]
    assert "parameter Reason" in refused(client.send_bonus, **bonus | {"Reason": ""})[1]
    assert refused(client.send_bonus, **bonus | {"BonusAmount": "999"})[0] == "InsufficientFunds"
    assert refused(client.list_bonus_payments)[0] == "ParameterValidationError"
    assert mturk.snapshot()["bonuses"] == []


def test_an_id_that_is_given_to_another_worker(client, hit_id, browser, mturk, refused):
    assignment_id = browser.work(hit_id, "A1")
    mturk.recycle(assignment_id, "A2", answer="<other/>")
    found = client.get_assignment(AssignmentId=assignment_id)["Assignment"]
    assert (found["WorkerId"], found["Answer"]) == ("A2", "<other/>")
    bonus = {"AssignmentId": assignment_id, "BonusAmount": "1", "Reason": "r"}
    assert "parameter WorkerId" in refused(client.send_bonus, WorkerId="A1", **bonus)[1]
    client.send_bonus(WorkerId="A2", **bonus)


def test_approved_on_the_web_site(client, hit_id, browser, mturk, refused):
    assignment_id = browser.work(hit_id)
    mturk.approve_elsewhere(assignment_id)
    assert refused(client.approve_assignment, AssignmentId=assignment_id)[0] == "InvalidAssignmentState"


def test_money_is_never_made_or_lost(client, make_hit, browser, mturk):
    for i, (reward, assignments) in enumerate([("0.13", 2), ("0.01", 11), ("3", 1), ("0.07", 9)]):
        first = browser.work(make_hit(Reward=reward, MaxAssignments=assignments), "A1")
        if i % 2:
            client.approve_assignment(AssignmentId=first)
            client.send_bonus(AssignmentId=first, WorkerId="A1", BonusAmount="0.17", Reason="r")
        else:
            client.reject_assignment(AssignmentId=first, RequesterFeedback="no")
        mturk.advance(700)
        assert sum(mturk.snapshot()["balance"].values()) == 1_000
    mturk.advance(10 * 86_400)
    after = mturk.snapshot()["balance"]
    assert (sum(after.values()), after["held"]) == (1_000, 0)
