"""The fake MTurk where a mistake in it would hide one of ours: what it refuses, money, tokens, the clock, faults."""

from decimal import Decimal

import boto3
import pytest
from botocore.exceptions import ClientError
from fake_mturk import FakeMTurk, MTurkError, Refusal
from fake_mturk.operations import perform
from fake_mturk.server import answer_xml
from fake_mturk.state import State
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.transforms.crowd.answer_files import parse_answer_xml
from parapet.transforms.crowd.hits.page import question_xml

FORM = (
    '<!DOCTYPE html><html lang="en"><head><title>t</title></head><body>'
    '<form method="post" action="https://www.mturk.com/mturk/externalSubmit">'
    '<input name="slot_0"><input type="radio" name="same" value="yes"></form></body></html>'
)
HIT = {"Title": "A title", "Description": "About it", "Reward": "0.50", "AssignmentDurationInSeconds": 600,
       "AutoApprovalDelayInSeconds": 3_600, "LifetimeInSeconds": 86_400, "MaxAssignments": 3,
       "Question": question_xml(FORM).decode(), "RequesterAnnotation": "Parcels_1:names"}  # fmt: skip
NO_TYPE = [{"QualificationTypeId": "3NONE", "Comparator": "Exists"}]


@pytest.fixture
def mturk(tmp_path):
    with FakeMTurk(tmp_path / "state", balance=Decimal(1_000)) as server:
        yield server


@pytest.fixture
def client(mturk):
    keys = {"aws_access_key_id": "practice", "aws_secret_access_key": "practice"}
    return boto3.client("mturk", region_name="us-east-1", endpoint_url=mturk.url, **keys)


def refused(call, **params):
    """TurkErrorCode without its prefix, or the error code."""
    response = raised(ClientError, call, **params).response
    return response.get("TurkErrorCode", "").removeprefix("AWS.MechanicalTurk.") or response["Error"]["Code"]


def work(mturk, hit_id, worker="A1"):
    assignment_id = mturk.accept(hit_id, worker)
    mturk.submit(assignment_id, [("slot_0", "words"), ("same", "yes")])
    return assignment_id


def money(mturk):
    return [str(amount.normalize()) for amount in mturk.snapshot()["balance"].values()]


@cases(
    "changes told",
    ({"Extra": 1}, 'Unknown parameter in input: "Extra"'),
    ({"Reward": "1,00"}, "at 'Reward'"),
    ({"AssignmentDurationInSeconds": True}, "at 'AssignmentDurationInSeconds'"),
    ({"RequesterAnnotation": "x" * 256}, "not valid for the parameter RequesterAnnotation"),
    ({"Title": "x" * 129}, "not valid for the parameter Title"),
    ({"MaxAssignments": 0}, "not valid for the parameter MaxAssignments"),
    ({"MaxAssignments": 2_000}, "does not have enough funds"),
    ({"QualificationRequirements": NO_TYPE}, "QualificationType 3NONE does not exist"),
    ({"Question": "<a/>"}, "no HTMLQuestion"),
    ({"Question": HIT["Question"].replace("title", "\U0001f600")}, "U+1F600"),
    ({"Question": HIT["Question"].replace("externalSubmit", "elsewhere")}, "no form that posts"),
    ({"Question": HIT["Question"].replace("<title>", f"<title>{'x' * 65_536}")}, "at most 65,535"),
)
def test_what_mturk_refuses(changes, told):
    state = State(0, Decimal(1_000))
    assert told in str(raised(MTurkError, perform, state, "CreateHIT", {**HIT, **changes}))
    assert state.balance() == {"available": 1_000, "held": 0, "paid": 0}


def test_a_token_makes_one_hit_and_pays_one_bonus_within_a_day(client, mturk):
    hit_id = client.create_hit(**HIT, UniqueRequestToken="once")["HIT"]["HITId"]
    assert refused(client.create_hit, **HIT, UniqueRequestToken="once") == "HitAlreadyExists"
    done = work(mturk, hit_id)
    bonus = {"WorkerId": "A1", "AssignmentId": done, "BonusAmount": "0.30", "Reason": "r", "UniqueRequestToken": "b"}
    assert refused(client.send_bonus, **bonus | {"WorkerId": "A2"}) == "ParameterValidationError"
    client.send_bonus(**bonus)
    assert (refused(client.send_bonus, **bonus), money(mturk)[2]) == ("DuplicateRequest", "0.36")
    mturk.advance(25 * 3_600)
    client.send_bonus(**bonus)
    assert len(client.list_bonus_payments(AssignmentId=done)["BonusPayments"]) == 2


def test_money_is_held_paid_and_given_back(client, mturk):
    hit_id = client.create_hit(**HIT)["HIT"]["HITId"]
    assert money(mturk) == ["998.2", "1.8", "0"]
    first, second = work(mturk, hit_id), work(mturk, hit_id, "A2")
    client.approve_assignment(AssignmentId=first)
    assert refused(client.approve_assignment, AssignmentId=first) == "InvalidAssignmentState"
    client.reject_assignment(AssignmentId=second, RequesterFeedback="no")
    assert money(mturk) == ["998.8", "0.6", "0.6"]
    client.approve_assignment(AssignmentId=second, OverrideRejection=True)
    client.update_expiration_for_hit(HITId=hit_id, ExpireAt=0)
    assert (money(mturk), sum(mturk.snapshot()["balance"].values())) == (["998.8", "0", "1.2"], 1_000)


def test_time_expires_abandons_and_approves(client, mturk):
    hit_id = client.create_hit(**HIT)["HIT"]["HITId"]
    submitted, in_hand = work(mturk, hit_id), mturk.accept(hit_id, "A2")
    assert refused(client.list_bonus_payments, AssignmentId=in_hand) == "AssignmentDoesNotExist"
    mturk.advance(3_601)
    states = {name: one["AssignmentStatus"] for name, one in mturk.snapshot()["assignments"].items()}
    assert states == {submitted: "Approved", in_hand: "Abandoned"}
    assert raised(Refusal, mturk.submit, in_hand, [("slot_0", "late")]).reason == "too_late"
    mturk.advance(86_400)
    assert (raised(Refusal, mturk.accept, hit_id, "A3").reason, money(mturk)) == ("expired", ["999.4", "0", "0.6"])


@given(st.dictionaries(st.text("ab_<&\"'", min_size=1), st.text("ab <&>\"'\r\n\t\x00é😀\ufffe"), max_size=4))
def test_any_answer_can_be_read_again(answers):
    expected = {name: text.replace("\x00", "\ufffd").replace("\ufffe", "\ufffd") for name, text in answers.items()}
    assert parse_answer_xml(answer_xml(answers)) == expected
