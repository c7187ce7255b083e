"""HIT types and HITs through boto3: made, found, extended, expired, deleted, and what money they hold."""

import datetime
from decimal import Decimal


def balance(client):
    return Decimal(client.get_account_balance()["AvailableBalance"])


def at(mturk, seconds):
    return datetime.datetime.fromtimestamp(mturk.now() + seconds, datetime.UTC)


def test_what_does_not_exist(client, refused, hit):
    assert refused(client.get_hit, HITId="3NONE")[0] == "HITDoesNotExist"
    assert refused(client.delete_hit, HITId="3NONE")[0] == "HITDoesNotExist"
    assert refused(client.list_assignments_for_hit, HITId="3NONE")[0] == "HITDoesNotExist"
    of_type = {name: hit[name] for name in ("LifetimeInSeconds", "Question")}
    assert refused(client.create_hit_with_hit_type, HITTypeId="3NONE", **of_type)[0] == "HITTypeDoesNotExist"


def test_hits_are_listed_newest_first_page_by_page(client, make_hit, refused):
    ids = [make_hit() for _ in range(20)]
    pages = list(client.get_paginator("list_hits").paginate())
    assert [page["NumResults"] for page in pages] == [10, 10, 0]  # as MTurk: full pages end in a token
    assert [each["HITId"] for page in pages for each in page["HITs"]] == ids[::-1]
    assert pages[0]["HITs"][0]["Question"]
    token = pages[0]["NextToken"]
    make_hit()
    assert [each["HITId"] for each in client.list_hits(NextToken=token)["HITs"]] == ids[9::-1]
    assert refused(client.list_reviewable_hits, NextToken=token)[0] == "InvalidParameterValue"
    assert refused(client.list_hits, NextToken="gibberish")[0] == "InvalidParameterValue"


def test_a_refused_request_does_not_use_its_token_up(client, refused, hit):
    assert (
        refused(client.create_hit, **hit | {"MaxAssignments": 9_999}, UniqueRequestToken="t")[0] == "InsufficientFunds"
    )
    client.create_hit(**hit, UniqueRequestToken="t")


def test_no_more_than_there_is(client, refused, hit):
    assert refused(client.create_hit, **hit | {"Reward": "400"})[0] == "InsufficientFunds"
    assert (balance(client), client.list_hits()["HITs"]) == (1_000, [])


def test_expiry_gives_back_what_nobody_took(client, make_hit, browser, mturk):
    hit_id = make_hit()
    browser.work(hit_id, "A1")
    in_hand = browser.accept(hit_id, "A2")
    mturk.advance(86_400 - 300)  # the deadline of A2 passes, the HIT has yet to expire
    assert browser.submit(in_hand)[1]["reason"] == "too_late"
    in_hand = browser.accept(hit_id, "A2")
    mturk.advance(300)
    assert client.get_hit(HITId=hit_id)["HIT"]["HITStatus"] == "Unassignable"
    assert balance(client) == Decimal("998.80")  # one paid by auto-approval, one in hand
    browser.submit(in_hand)
    assert client.get_hit(HITId=hit_id)["HIT"]["HITStatus"] == "Reviewable"
    mturk.advance(3_600)
    assert mturk.snapshot()["balance"] == {"available": Decimal("998.80"), "held": Decimal(0), "paid": Decimal("1.20")}


def test_expired_by_hand_and_put_on_offer_again(client, make_hit, browser, mturk, refused):
    hit_id = make_hit()
    client.update_expiration_for_hit(HITId=hit_id, ExpireAt=datetime.datetime(2015, 1, 1))
    assert (client.get_hit(HITId=hit_id)["HIT"]["HITStatus"], balance(client)) == ("Reviewable", 1_000)
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A1")[1]["reason"] == "expired"
    client.update_expiration_for_hit(HITId=hit_id, ExpireAt=datetime.datetime(2015, 1, 1))
    later = at(mturk, 3_600)
    client.update_expiration_for_hit(HITId=hit_id, ExpireAt=later)
    assert balance(client) == Decimal("998.20")
    browser.work(hit_id)
    # As Dallinger's issue 3109 has it.
    assert refused(client.update_expiration_for_hit, HITId=hit_id, ExpireAt=later)[0] == "DuplicateRequest"


def test_ten_assignments_are_a_border(client, make_hit, refused):
    small, large = make_hit(MaxAssignments=8), make_hit(MaxAssignments=10)
    call = client.create_additional_assignments_for_hit
    assert refused(call, HITId=small, NumberOfAdditionalAssignments=2)[0] == "InvalidMaximumAssignmentsIncrease"
    call(HITId=small, NumberOfAdditionalAssignments=1)
    assert refused(call, HITId=small, NumberOfAdditionalAssignments=1)[0] == "InvalidMaximumAssignmentsIncrease"
    call(HITId=large, NumberOfAdditionalAssignments=100)
    assert refused(call, HITId=large, NumberOfAdditionalAssignments=0)[0] == "ParameterValidationError"
    assert refused(call, HITId=large, NumberOfAdditionalAssignments=9_999)[0] == "InsufficientFunds"


def test_extending_an_expired_hit_does_not_open_it(client, make_hit, mturk):
    hit_id = make_hit()
    mturk.advance(86_400)
    client.create_additional_assignments_for_hit(HITId=hit_id, NumberOfAdditionalAssignments=2)
    assert (client.get_hit(HITId=hit_id)["HIT"]["HITStatus"], balance(client)) == ("Reviewable", 1_000)


def test_only_reviewed_hits_are_deleted(client, make_hit, browser, refused):
    hit_id = make_hit(MaxAssignments=1)
    assert refused(client.delete_hit, HITId=hit_id)[0] == "InvalidHITState"
    assignment_id = browser.accept(hit_id)
    assert client.get_hit(HITId=hit_id)["HIT"]["HITStatus"] == "Unassignable"
    assert refused(client.delete_hit, HITId=hit_id)[0] == "InvalidHITState"
    browser.submit(assignment_id)
    code, message = refused(client.delete_hit, HITId=hit_id)
    assert code == "InvalidHITState"
    assert message.startswith("This HIT is currently in the state 'Reviewable'.")
    client.approve_assignment(AssignmentId=assignment_id)
    client.delete_hit(HITId=hit_id)
    assert (client.get_hit(HITId=hit_id)["HIT"]["HITStatus"], client.list_hits()["HITs"]) == ("Disposed", [])
    later = datetime.datetime(2999, 1, 1)
    assert refused(client.update_expiration_for_hit, HITId=hit_id, ExpireAt=later)[0] == "InvalidHITState"
    assert refused(client.delete_hit, HITId=hit_id)[0] == "InvalidHITState"
    more = {"HITId": hit_id, "NumberOfAdditionalAssignments": 1}
    assert refused(client.create_additional_assignments_for_hit, **more)[0] == "InvalidHITState"


def test_reviewable_hits(client, make_hit, browser, refused):
    done, begun, other = make_hit(MaxAssignments=1), make_hit(), make_hit(MaxAssignments=1, Title="Another")
    for hit_id in (done, begun, other):
        browser.work(hit_id)

    def listed(**params):
        return [each["HITId"] for each in client.list_reviewable_hits(**params)["HITs"]]

    assert (listed(), listed(HITTypeId=client.get_hit(HITId=done)["HIT"]["HITTypeId"])) == ([other, done], [done])
    client.update_hit_review_status(HITId=done)
    assert refused(client.update_hit_review_status, HITId=done)[0] == "InvalidHITState"
    assert (listed(), listed(Status="Reviewing")) == ([other], [done])
    client.update_hit_review_status(HITId=done, Revert=True)
    assert listed() == [other, done]


def test_hits_behind_our_back(mturk, client, make_hit, browser, refused):
    hit_id = make_hit()
    assignment_id = browser.work(hit_id)
    mturk.delete_hit(hit_id)
    assert refused(client.get_hit, HITId=hit_id)[0] == "HITDoesNotExist"
    assert refused(client.approve_assignment, AssignmentId=assignment_id)[0] == "AssignmentDoesNotExist"
    assert mturk.snapshot()["balance"]["available"] == 1_000


def test_equal_types_are_one(client):
    asked = {"Reward": "0.5", "Title": "t", "Description": "d", "AssignmentDurationInSeconds": 60}
    locale = {"QualificationTypeId": "00000000000000000071", "Comparator": "In", "LocaleValues": [{"Country": "US"}]}
    first = client.create_hit_type(**asked)["HITTypeId"]
    assert first == client.create_hit_type(**asked | {"Reward": "0.50", "Keywords": ""})["HITTypeId"]
    others = [asked | {"Reward": "0.51"}, asked | {"Title": "T"}, asked | {"QualificationRequirements": [locale]}]
    ids = {client.create_hit_type(**other)["HITTypeId"] for other in others}
    assert len(ids | {first}) == 4
