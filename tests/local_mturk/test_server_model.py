"""Requests against the service model, and against the bounds that it lacks."""

import pytest
from kit import raised

from parapet.local_mturk.errors import MAX_ASSIGNMENTS, MTurkError
from parapet.local_mturk.operations import _DONE_HERE, checked, operations

BONUS = {"WorkerId": "A1", "BonusAmount": "1.00", "AssignmentId": "3X", "Reason": "well done"}
TYPE = {"Reward": "0.5", "Title": "t", "Description": "d", "AssignmentDurationInSeconds": 60}


def why(operation, params):
    caught = raised(MTurkError, checked, operation, params)
    return caught.code, caught.message


WRONG = [
    ("SendBonus", BONUS | {"BonusAmount": "0.9752"}, "bonusAmount",
     "regular expression pattern: ^[0-9]+(\\.)?[0-9]{0,2}$"),
    ("SendBonus", BONUS | {"BonusAmount": "1\n"}, "bonusAmount", "regular expression"),
    ("SendBonus", BONUS | {"BonusAmount": "-1"}, "bonusAmount", "regular expression"),
    ("SendBonus", BONUS | {"BonusAmount": 1}, "bonusAmount", "be a string"),
    ("SendBonus", BONUS | {"WorkerId": "B1"}, "workerId", "^A[A-Z0-9]+$"),
    ("SendBonus", BONUS | {"WorkerId": "A" * 65}, "workerId", "length less than or equal to 64"),
    ("SendBonus", BONUS | {"UniqueRequestToken": ""}, "uniqueRequestToken", "length greater than or equal to 1"),
    ("SendBonus", BONUS | {"UniqueRequestToken": "t" * 65}, "uniqueRequestToken", "length less than or equal to 64"),
    ("SendBonus", BONUS | {"Reason": None}, "reason", "not be null"),
    ("SendBonus", BONUS | {"Amount": "1"}, "amount", "member of this structure"),
    ("SendBonus", {}, "assignmentId", "not be null"),
    ("ListHITs", {"MaxResults": 101}, "maxResults", "less than or equal to 100"),
    ("ListHITs", {"MaxResults": 0}, "maxResults", "greater than or equal to 1"),
    ("ListHITs", {"MaxResults": True}, "maxResults", "whole number"),
    ("ListHITs", {"MaxResults": 1.5}, "maxResults", "whole number"),
    ("ListHITs", {"NextToken": ""}, "nextToken", "length"),
    ("CreateHITType", TYPE | {"AssignmentDurationInSeconds": 1 << 63}, "assignmentDurationInSeconds", "less than or"),
    ("CreateHITType", TYPE | {"QualificationRequirements": {}}, "qualificationRequirements", "be a list"),
    ("CreateHITType", TYPE | {"QualificationRequirements": ["x"]}, "qualificationRequirements.1.member",
     "be an object"),
    ("CreateHITType", TYPE | {"QualificationRequirements": [{"QualificationTypeId": "x", "Comparator": "Near"}]},
     "qualificationRequirements.1.member.comparator", "enum value set: [LessThan, "),
    (
        "CreateHITType",
        TYPE
        | {
            "QualificationRequirements": [
                {"QualificationTypeId": "x", "Comparator": "In", "LocaleValues": [{"Country": "USA"}]}
            ]
        },
        "qualificationRequirements.1.member.localeValues.1.member.country",
        "length less than or equal to 2",
    ),
    ("UpdateExpirationForHIT", {"HITId": "3X", "ExpireAt": "tomorrow"}, "expireAt", "a time"),
    ("UpdateExpirationForHIT", {"HITId": "3x", "ExpireAt": 1}, "hITId", "^[A-Z0-9]+$"),
    ("ApproveAssignment", {"AssignmentId": "3X", "OverrideRejection": "yes"}, "overrideRejection", "true or false"),
    ("ListAssignmentsForHIT", {"HITId": "3X", "AssignmentStatuses": ["Done"]}, "assignmentStatuses.1.member", "enum"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "params", "member", "constraint"), WRONG)
def test_what_the_model_forbids_is_refused_by_name(operation, params, member, constraint):
    code, message = why(operation, params)
    assert code == "ValidationException"
    assert f"at '{member}' failed to satisfy constraint: Member must " in message
    assert constraint in message


def test_all_that_is_wrong_is_told_at_once():
    assert why("SendBonus", BONUS | {"WorkerId": "x", "BonusAmount": "x"})[1].startswith("2 validation errors detected")


@pytest.mark.parametrize("params", [None, [], "x", 1])
def test_what_is_no_object_is_no_request(params):
    assert why("GetAccountBalance", params)[0] == "SerializationException"


def test_the_model_has_what_is_done_here():
    assert set(_DONE_HERE) <= operations()


@pytest.mark.parametrize("operation", ["UpdateHITTypeOfHIT", "ListQualificationRequests"])
def test_what_is_not_done_here_says_so(client, refused, operation):
    calls = {
        "UpdateHITTypeOfHIT": (client.update_hit_type_of_hit, {"HITId": "3X", "HITTypeId": "3X"}),
        "ListQualificationRequests": (client.list_qualification_requests, {}),
    }
    call, params = calls[operation]
    code, message = refused(call, **params)
    assert code == "UnknownOperationException"
    assert operation in message


def test_what_mturk_does_not_have(mturk, client, refused):
    client.meta.events.register("before-sign.mturk.ListHITs", _another_operation)
    assert refused(client.list_hits)[0] == "UnknownOperationException"
    assert mturk.count("unknown", "UnknownOperationException") == 1


def _another_operation(request, **_):
    request.headers.replace_header("X-Amz-Target", "MTurkRequesterServiceV20170117.ListCats")


OUT_OF_BOUNDS = [
    ({"Title": ""}, "Title"),
    ({"Title": "t" * 129}, "Title"),
    ({"Description": "d" * 2_001}, "Description"),
    ({"Keywords": "k" * 1_001}, "Keywords"),
    ({"RequesterAnnotation": "a" * 256}, "RequesterAnnotation"),
    ({"AutoApprovalDelayInSeconds": 2_592_001}, "AutoApprovalDelayInSeconds"),
    ({"AutoApprovalDelayInSeconds": -1}, "AutoApprovalDelayInSeconds"),
    ({"AssignmentDurationInSeconds": 29}, "AssignmentDurationInSeconds"),
    ({"LifetimeInSeconds": 29}, "LifetimeInSeconds"),
    ({"LifetimeInSeconds": 31_536_001}, "LifetimeInSeconds"),
    ({"MaxAssignments": 0}, "MaxAssignments"),
    ({"MaxAssignments": MAX_ASSIGNMENTS + 1}, "MaxAssignments"),
    ({"HITLayoutId": "3X"}, "HITLayoutId"),
    ({"Question": ""}, "Question"),
]


@pytest.mark.parametrize(("changes", "member"), OUT_OF_BOUNDS)
def test_bounds_that_the_model_lacks(shared, refused, hit, changes, member):
    code, message = refused(shared[1].create_hit, **{**hit, **changes})
    assert code == "ParameterValidationError"
    assert f"is not valid for the parameter {member}." in message


def test_a_hit_needs_a_question(client, refused, hit):
    del hit["Question"]
    assert "parameter Question" in refused(client.create_hit, **hit)[1]


def test_the_bounds_themselves_are_fine(make_hit):
    make_hit(
        Title="t" * 128,
        Description="d" * 2_000,
        Keywords="k" * 1_000,
        RequesterAnnotation="a" * 255,
        AutoApprovalDelayInSeconds=0,
        AssignmentDurationInSeconds=30,
        LifetimeInSeconds=31_536_000,
    )


def test_null_is_the_same_as_nothing():
    assert checked("ListHITs", {"MaxResults": None}) == {}
