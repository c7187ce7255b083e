"""Qualification types, who has them, blocks and notices through boto3; and what requirements mean for workers."""

import pytest

from parapet.local_mturk.qualifications import Profile

US = {"QualificationTypeId": "00000000000000000071", "Comparator": "EqualTo", "LocaleValues": [{"Country": "US"}]}
PERCENT = {"QualificationTypeId": "000000000000000000L0", "Comparator": "GreaterThanOrEqualTo", "IntegerValues": [95]}
NUMBER = {"QualificationTypeId": "00000000000000000040", "Comparator": "GreaterThan", "IntegerValues": [500]}
NEW = {"Name": "asked before", "Description": "Has done part of this", "QualificationTypeStatus": "Active"}


@pytest.fixture
def made(client):
    return client.create_qualification_type(**NEW, Keywords="Parapet")["QualificationType"]["QualificationTypeId"]


def test_a_type_has_a_name_of_its_own(client, made, refused):
    code, message = refused(client.create_qualification_type, **NEW)
    assert code == "QualificationTypeAlreadyExists"
    assert message.startswith("You have already created a QualificationType with this name.")
    found = client.get_qualification_type(QualificationTypeId=made)["QualificationType"]
    assert (found["Name"], found["IsRequestable"]) == ("asked before", True)
    assert client.get_qualification_type(QualificationTypeId=US["QualificationTypeId"])
    assert refused(client.get_qualification_type, QualificationTypeId="3NONE")[0] == "QualificationTypeDoesNotExist"
    assert "parameter Test" in refused(client.create_qualification_type, **NEW | {"Name": "x"}, Test="<x/>")[1]


def test_types_are_found_by_their_words(client, made):
    other = client.create_qualification_type(**NEW | {"Name": "100%_sure"})["QualificationType"]["QualificationTypeId"]

    def found(query=None, **params):
        params |= {"Query": query} if query is not None else {}
        listed = client.list_qualification_types(**{"MustBeRequestable": False, "MustBeOwnedByCaller": True} | params)
        return [each["QualificationTypeId"] for each in listed["QualificationTypes"]]

    assert found() == [made, other]
    assert found("ASKED") == found("parapet") == [made]
    assert (found("done part"), found("%")) == ([made, other], [other])
    assert US["QualificationTypeId"] in found("locale", MustBeOwnedByCaller=False)
    assert found("locale", MustBeOwnedByCaller=False, MustBeRequestable=True) == []


def test_given_and_taken_away(client, made, refused):
    one = {"QualificationTypeId": made, "WorkerId": "A1"}
    assert refused(client.get_qualification_score, **one)[0] == "QualificationDoesNotExist"
    assert refused(client.disassociate_qualification_from_worker, **one)[0] == "QualificationDoesNotExist"
    client.associate_qualification_with_worker(**one)
    client.associate_qualification_with_worker(**one, IntegerValue=7)
    client.associate_qualification_with_worker(QualificationTypeId=made, WorkerId="A2")
    assert client.get_qualification_score(**one)["Qualification"]["IntegerValue"] == 7

    def workers(**params):
        pages = client.get_paginator("list_workers_with_qualification_type").paginate(
            QualificationTypeId=made, **params
        )
        return [each["WorkerId"] for page in pages for each in page["Qualifications"]]

    assert workers(PaginationConfig={"PageSize": 1}) == ["A1", "A2"]
    client.disassociate_qualification_from_worker(**one)
    assert (workers(), workers(Status="Revoked")) == (["A2"], ["A1"])
    client.update_qualification_type(QualificationTypeId=made, QualificationTypeStatus="Inactive")
    assert refused(client.associate_qualification_with_worker, **one)[0] == "InvalidQualificationTypeState"
    client.delete_qualification_type(QualificationTypeId=made)
    assert refused(client.associate_qualification_with_worker, **one)[0] == "QualificationTypeDoesNotExist"


def requirement(**changes):
    return {name: value for name, value in {**US, **changes}.items() if value is not None}


SENSELESS = [
    requirement(LocaleValues=None),
    requirement(LocaleValues=None, IntegerValues=[1]),
    requirement(Comparator="GreaterThan"),
    requirement(Comparator="Exists"),
    requirement(LocaleValues=[{"Country": "US"}, {"Country": "GB"}]),
    requirement(Comparator="In", LocaleValues=[{"Country": "US"}] * 31),
    requirement(Comparator="In", LocaleValues=[]),
    {**PERCENT, "LocaleValues": [{"Country": "US"}]},
    {**PERCENT, "IntegerValues": [95, 96]},
    {**PERCENT, "IntegerValues": []},
    {**PERCENT, "Comparator": "DoesNotExist"},
    {**PERCENT, "Comparator": "NotIn", "IntegerValues": list(range(16))},
]


@pytest.mark.parametrize("senseless", SENSELESS)
def test_requirements_without_sense(shared, hit, refused, senseless):
    code, message = refused(shared[1].create_hit, **hit, QualificationRequirements=[senseless])
    assert code == "ParameterValidationError"
    assert "parameter QualificationRequirement" in message


def test_how_many_requirements_and_of_what(make_hit, refused):
    assert "parameter QualificationRequirements" in refused(make_hit, QualificationRequirements=[US] * 11)[1]
    assert "occurs twice" in refused(make_hit, QualificationRequirements=[US, US])[1]
    unknown = {"QualificationTypeId": "3NONE", "Comparator": "Exists"}
    assert refused(make_hit, QualificationRequirements=[unknown])[0] == "QualificationTypeDoesNotExist"
    make_hit(QualificationRequirements=[US, PERCENT, NUMBER])


def test_a_qualification_keeps_workers_away(client, made, make_hit, browser):
    """The way in which a later batch leaves out the workers of the first."""
    hit_id = make_hit(QualificationRequirements=[{"QualificationTypeId": made, "Comparator": "DoesNotExist"}])
    client.associate_qualification_with_worker(QualificationTypeId=made, WorkerId="A1", IntegerValue=1)
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A1")[1]["reason"] == "not_qualified"
    browser.work(hit_id, "A2")
    client.disassociate_qualification_from_worker(QualificationTypeId=made, WorkerId="A1")
    browser.work(hit_id, "A1")
    for_few = {"QualificationTypeId": made, "Comparator": "NotEqualTo", "IntegerValues": [3]}
    other = make_hit(QualificationRequirements=[for_few])
    assert browser.json("POST", f"/accept?hit_id={other}&worker_id=A2")[1]["reason"] == "not_qualified"
    listed = client.list_hits_for_qualification_type(QualificationTypeId=made)["HITs"]
    assert [each["HITId"] for each in listed] == [other, hit_id]


def test_guarded_hits(client, made, make_hit, browser):
    asked = {"QualificationTypeId": made, "Comparator": "Exists"}
    open_to_see = make_hit(QualificationRequirements=[asked], Title="a")
    preview = make_hit(QualificationRequirements=[asked | {"ActionsGuarded": "PreviewAndAccept"}], Title="b")
    hidden = make_hit(QualificationRequirements=[asked | {"ActionsGuarded": "DiscoverPreviewAndAccept"}], Title="c")
    old = make_hit(QualificationRequirements=[asked | {"RequiredToPreview": True}], Title="d")
    asked = (f"/preview?hit_id={each}&worker_id=A1" for each in (open_to_see, preview, hidden))
    statuses = [browser.ask("GET", path)[0] for path in asked]
    assert statuses == [303, 400, 400]
    assert browser.ask("GET", f"/preview?hit_id={old}&worker_id=A1")[0] == 400
    listed = browser.json("GET", "/hits.json?worker_id=A1")[1]
    assert [each["hit_id"] for each in listed] == [open_to_see, preview, old]
    assert all(each["reasons"] == [f"not_qualified: {made} Exists"] for each in listed)
    client.associate_qualification_with_worker(QualificationTypeId=made, WorkerId="A1")
    listed = browser.json("GET", "/hits.json?worker_id=A1")[1]
    assert [each["can_accept"] for each in listed] == [True] * 4


def test_blocked_workers(client, make_hit, browser):
    hit_id = make_hit()
    for _ in range(2):
        client.create_worker_block(WorkerId="A1", Reason="spam")
    assert client.list_worker_blocks()["WorkerBlocks"] == [{"WorkerId": "A1", "Reason": "spam"}]
    assert browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A1")[1]["reason"] == "blocked"
    assert browser.json("GET", "/hits.json?worker_id=A1")[1][0]["reasons"] == ["blocked"]
    client.delete_worker_block(WorkerId="A1")
    browser.work(hit_id, "A1")


def test_notices_reach_those_who_worked(client, make_hit, browser, mturk, refused):
    client.approve_assignment(AssignmentId=browser.work(make_hit(), "A1"))
    notice = {"Subject": "More work", "MessageText": "There is more."}
    failures = client.notify_workers(**notice, WorkerIds=["A1", "A2"])["NotifyWorkersFailureStatuses"]
    assert [(each["WorkerId"], each["NotifyWorkersFailureCode"]) for each in failures] == [("A2", "HardFailure")]
    assert [each["worker_id"] for each in mturk.snapshot()["notices"]] == ["A1"]
    assert "WorkerIds" in refused(client.notify_workers, **notice, WorkerIds=["A1"] * 101)[1]


MASTERS = {"QualificationTypeId": "2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", "Comparator": "Exists"}


WHO = [
    (US, Profile(), True),
    (US, Profile(country="DE"), False),
    (requirement(Comparator="NotEqualTo"), Profile(country="DE"), True),
    (requirement(Comparator="In", LocaleValues=[{"Country": "GB"}, {"Country": "US"}]), Profile(), True),
    (requirement(Comparator="NotIn", LocaleValues=[{"Country": "GB"}, {"Country": "US"}]), Profile(), False),
    (requirement(LocaleValues=[{"Country": "US", "Subdivision": "CA"}]), Profile(), False),
    (requirement(LocaleValues=[{"Country": "US", "Subdivision": "CA"}]), Profile(subdivision="CA"), True),
    (PERCENT, Profile(percent_approved=95), True),
    (PERCENT, Profile(percent_approved=94), False),
    (NUMBER, Profile(number_approved=500), False),
    ({**NUMBER, "Comparator": "LessThanOrEqualTo"}, Profile(number_approved=500), True),
    ({**NUMBER, "Comparator": "LessThan"}, Profile(number_approved=500), False),
    ({**NUMBER, "Comparator": "NotEqualTo"}, Profile(number_approved=500), False),
    ({**NUMBER, "Comparator": "In"}, Profile(number_approved=500), True),
    ({**NUMBER, "Comparator": "NotIn"}, Profile(number_approved=500), False),
    (MASTERS, Profile(), False),
    (MASTERS, Profile(masters=True), True),
    ({**MASTERS, "Comparator": "DoesNotExist"}, Profile(), True),
]


@pytest.mark.parametrize(("asked", "profile", "may"), WHO)
def test_who_may_work(shared, hit, asked, profile, may):
    mturk, client, browser = shared
    hit_id = client.create_hit(**hit, QualificationRequirements=[asked])["HIT"]["HITId"]
    mturk.set_worker("A1", profile)
    status, answer = browser.json("POST", f"/accept?hit_id={hit_id}&worker_id=A1")
    assert (status == 200) is may
    if not may:
        assert answer["reason"] == "not_qualified"
        assert asked["Comparator"] in answer["detail"]
