"""The operations of the API. Requests are checked against botocore's own model of the service."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from typing import Any

from botocore import xform_name

from .question import check_question
from .state import (
    EXTRA_FEE_FROM,
    REVIEWED,
    Assignment,
    Hit,
    MTurkError,
    State,
    cost_of_assignment,
    cost_of_bonus,
    invalid_value,
    missing,
    no_assignment,
)

TARGET = "MTurkRequesterServiceV20170117."
LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"
MASTERS = ("2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6")  # production, sandbox
# What MTurk knows of every worker here, who lives in the United States; None: none has the qualification.
_OF_WORKERS = {PERCENT_APPROVED: 100, NUMBER_APPROVED: 1_000, MASTERS[0]: None, MASTERS[1]: None}

_MOST_ASSIGNMENTS, _MOST_BONUS = 1_000_000_000, Decimal(10_000)
_OVERRIDE_SECONDS = 30 * 24 * 3_600
_PAGE = 10

Params = dict[str, Any]
Answer = dict[str, Any]

# Lengths in characters, numbers by value, lists by length: what the model does not say.
_YEAR = 31_536_000
_BOUNDS: dict[str, dict[str, tuple[int, int]]] = {
    "CreateHITType": {
        "AutoApprovalDelayInSeconds": (0, 2_592_000),
        "AssignmentDurationInSeconds": (30, _YEAR),
        "Title": (1, 128),
        "Keywords": (0, 1_000),
        "Description": (1, 2_000),
        "QualificationRequirements": (0, 10),
    },
    "CreateHITWithHITType": {
        "LifetimeInSeconds": (30, _YEAR),
        "MaxAssignments": (1, _MOST_ASSIGNMENTS),
        "RequesterAnnotation": (0, 255),
        "Question": (1, 1 << 20),  # counted in bytes where it is parsed
    },
    "CreateAdditionalAssignmentsForHIT": {"NumberOfAdditionalAssignments": (1, _MOST_ASSIGNMENTS)},
    "ApproveAssignment": {"RequesterFeedback": (0, 1_024)},
    "RejectAssignment": {"RequesterFeedback": (1, 1_024)},
    "SendBonus": {"Reason": (1, 4_096)},
    "CreateQualificationType": {"Name": (1, 200), "Description": (1, 2_000), "Keywords": (0, 1_000)},
}


def perform(state: State, operation: str, params: Any) -> Answer:
    """Does a request. Raises MTurkError where the model forbids it or MTurk would refuse; then nothing has changed."""
    if operation not in _model().operation_names:
        raise MTurkError(f"Unknown operation {operation[:100]}.", code="UnknownOperationException")
    check(operation, params)
    done = globals().get(xform_name(operation))  # its function has boto3's name
    if done is None:
        raise MTurkError(f"The fake MTurk does not have {operation}.", code="UnknownOperationException")
    given = {name: value for name, value in params.items() if value is not None}
    for name, (low, high) in _BOUNDS.get(operation, {}).items():
        value = given.get(name, low)
        size = value if isinstance(value, int) else len(value)
        if not low <= size <= high:
            raise invalid_value(name, value, f"It must be from {low:,} to {high:,} long or large.")
    state.pass_time()
    answer: Answer = done(state, given)
    return answer


@cache
def _model() -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("mturk", "service-2"), "mturk")


_TYPES: dict[str, tuple[Any, str]] = {
    "structure": (dict, "be an object"),
    "list": (list, "be a list"),
    "string": (str, "be a string"),
    "integer": (int, "be a whole number"),
    "long": (int, "be a whole number"),
    "boolean": (bool, "be true or false"),
    "timestamp": (int | float, "be a time in seconds since 1970"),  # as the JSON protocol has it
}


def check(operation: str, params: Any) -> None:
    """Raises MTurkError for a request that the model does not allow; all that is wrong with it in one message."""
    if not isinstance(params, dict):
        raise MTurkError("The request is not a JSON object.", code="SerializationException")
    wrong = list(_wrong(_model().operation_model(operation).input_shape, params, ""))
    if wrong:
        # The form of MTurk's own answers: boto3 issues 1222 and 1223, Dallinger issue 1052.
        errors = "error" if len(wrong) == 1 else "errors"
        raise MTurkError(f"{len(wrong)} validation {errors} detected: {'; '.join(wrong)}", code="ValidationException")


def _wrong(shape: Any, value: Any, path: str) -> Iterator[str]:
    kind, limits = shape.type_name, shape.metadata

    def fails(what: str, at: str = path, of: Any = value) -> str:
        return f"Value '{str(of)[:100]}' at '{at}' failed to satisfy constraint: Member must {what}"

    def below(name: str) -> str:
        name = name[:1].lower() + name[1:]  # the service names members so: hITId, bonusAmount
        return f"{path}.{name}" if path else name

    expected, what = _TYPES[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
        yield fails(what)
    elif kind == "structure":
        for name in sorted(shape.required_members):
            if value.get(name) is None:
                yield f"Value null at '{below(name)}' failed to satisfy constraint: Member must not be null"
        for name, item in value.items():
            if name not in shape.members:  # assumption: MTurk may pass over these
                yield fails("be a member of this structure", below(str(name)), item)
            elif item is not None:
                yield from _wrong(shape.members[name], item, below(name))
    elif kind == "list":
        for i, item in enumerate(value, 1):
            yield from _wrong(shape.member, item, f"{path}.{i}.member")
    elif kind == "string":
        if limits.get("pattern") and not re.fullmatch(limits["pattern"], value):
            yield fails(f"satisfy regular expression pattern: {limits['pattern']}")
        if shape.enum and value not in shape.enum:
            yield fails(f"satisfy enum value set: [{', '.join(shape.enum)}]")
    if isinstance(value, str | list | int) and not isinstance(value, bool):
        size = value if isinstance(value, int) else len(value)
        if not limits.get("min", -(1 << 63)) <= size <= limits.get("max", 1 << 63):
            yield fails(f"be from {limits.get('min')} to {limits.get('max')} long or large")


def _paged(
    params: Params, operation: str, found: Sequence[Any], place: Callable[[Any], int]
) -> tuple[list[Any], Answer]:
    """A page of what is found, which is in order of ``place``, and ``NumResults`` and ``NextToken`` for the answer.

    A full page has a token even where nothing follows, so a client must stand an empty last page (an assumption).
    """
    if token := params.get("NextToken"):
        name, _, after = base64.urlsafe_b64decode(token.encode()).decode(errors="replace").partition(":")
        if name != operation:  # assumption: the code
            raise MTurkError("The NextToken is not valid for this request.", "InvalidParameterValue")
        found = [one for one in found if place(one) > int(after)]
    size = params.get("MaxResults", _PAGE)
    page = list(found[:size])
    answer: Answer = {"NumResults": len(page)}
    if page and len(page) == size:
        answer["NextToken"] = base64.urlsafe_b64encode(f"{operation}:{place(page[-1])}".encode()).decode()
    return page, answer


# HITs


def create_hit_type(state: State, params: Params) -> Answer:
    """Equal properties make the same type, however often they are sent."""
    requirements = params.get("QualificationRequirements", [])
    for requirement in requirements:
        type_id, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
        if type_id not in {*_OF_WORKERS, LOCALE, *state.types}:
            raise missing("QualificationType", type_id, "QualificationType")
        values = requirement.get("LocaleValues" if type_id == LOCALE else "IntegerValues") or []
        if bool(values) == (comparator in ("Exists", "DoesNotExist")) or (comparator != "In" and len(values) > 1):
            raise invalid_value("QualificationRequirement", json.dumps(requirement))
    properties = {
        "AutoApprovalDelayInSeconds": params.get("AutoApprovalDelayInSeconds", 2_592_000),
        "AssignmentDurationInSeconds": params["AssignmentDurationInSeconds"],
        "Reward": f"{Decimal(params['Reward']):.2f}",
        "Title": params["Title"],
        "Keywords": params.get("Keywords", ""),
        "Description": params["Description"],
        "QualificationRequirements": requirements,
    }
    text = json.dumps([state.seed, properties], sort_keys=True)
    type_id = "3" + hashlib.sha256(text.encode()).hexdigest()[:29].upper()
    state.hit_types[type_id] = properties
    return {"HITTypeId": type_id}


def create_hit_with_hit_type(state: State, params: Params) -> Answer:
    """A HIT of a type that exists."""
    token = params.get("UniqueRequestToken")
    if hit_id := state.used("hit", token):
        # The code is documented, and that the message has the id; the wording is an assumption.
        raise MTurkError(f"The HIT {hit_id} has been created with this UniqueRequestToken.", "HitAlreadyExists")
    if params["HITTypeId"] not in state.hit_types:
        raise missing("Hit type", params["HITTypeId"], "HITType")
    check_question(params.get("Question", ""))
    assignments, now = params.get("MaxAssignments", 1), state.now()
    unit = cost_of_assignment(Decimal(state.hit_types[params["HITTypeId"]]["Reward"]), assignments)
    state.require(assignments * unit)
    hit = Hit(
        n=len(state.hits) + 1,
        id=state.new_id(),
        type_id=params["HITTypeId"],
        created=now,
        expiration=now + params["LifetimeInSeconds"],
        annotation=params.get("RequesterAnnotation"),
        assignments=assignments,
        unit=unit,
        question=params["Question"],
    )
    state.hits[hit.id] = hit
    state.settle(hit)
    state.wait(hit.expiration, hit.id)
    state.keep("hit", token, hit.id)
    return {"HIT": hit_answer(state, hit)}


def hit_answer(state: State, hit: Hit) -> Answer:
    """A HIT as the API shows it."""
    if not hit.expired and hit.remaining:
        status = "Assignable"
    else:
        status = "Unassignable" if hit.count("Accepted") else "Reviewable"
    answer: Answer = {
        "HITId": hit.id,
        "HITTypeId": hit.type_id,
        "HITGroupId": f"3{hit.type_id[:0:-1]}",
        "CreationTime": hit.created,
        **state.properties(hit),
        "Question": hit.question,
        "HITStatus": status,
        "MaxAssignments": hit.assignments,
        "Expiration": hit.expiration,
        "HITReviewStatus": "NotReviewed",
        "NumberOfAssignmentsPending": hit.count("Accepted"),
        "NumberOfAssignmentsAvailable": hit.remaining,  # assumption: still counted after the HIT has expired
        "NumberOfAssignmentsCompleted": hit.count("Approved", "Rejected"),
    }
    return answer if hit.annotation is None else {**answer, "RequesterAnnotation": hit.annotation}


def get_hit(state: State, params: Params) -> Answer:
    """One HIT."""
    return {"HIT": hit_answer(state, state.hit(params["HITId"]))}


def list_hits(state: State, params: Params, operation: str = "ListHITs") -> Answer:
    """The HITs, the newest first; or those that ask for a qualification."""
    found = list(reversed(state.hits.values()))
    if type_id := params.get("QualificationTypeId"):
        asked = {hit.id: state.properties(hit)["QualificationRequirements"] for hit in found}
        found = [hit for hit in found if type_id in [each["QualificationTypeId"] for each in asked[hit.id]]]
    page, answer = _paged(params, operation, found, lambda hit: -hit.n)
    return {**answer, "HITs": [hit_answer(state, hit) for hit in page]}


def list_hits_for_qualification_type(state: State, params: Params) -> Answer:
    """The HITs that ask for a qualification."""
    return list_hits(state, params, "ListHITsForQualificationType")


def update_expiration_for_hit(state: State, params: Params) -> Answer:
    """Sets when a HIT expires; a time that has passed expires it now, a later one puts it on offer again."""
    hit, expiration, now = state.hit(params["HITId"]), int(params["ExpireAt"]), state.now()
    if expiration > now:
        token = f"{hit.id}{expiration}"
        if state.used("expiration", token) is not None:  # as Dallinger issue 3109 met it
            raise _token_used(token)
        state.require(hit.remaining * hit.unit if hit.expired else Decimal(0))
        state.keep("expiration", token)
        state.wait(expiration, hit.id)
    hit.expiration, hit.expired = expiration, expiration <= now
    state.settle(hit)
    return {}


def create_additional_assignments_for_hit(state: State, params: Params) -> Answer:
    """Asks more workers. An expired HIT stays expired."""
    token, hit = params.get("UniqueRequestToken"), state.hit(params["HITId"])
    more = params["NumberOfAdditionalAssignments"]
    if state.used("additional", token) is not None:
        raise _token_used(str(token))
    if hit.assignments < EXTRA_FEE_FROM <= hit.assignments + more:
        # The code is documented, the wording is an assumption.
        message = f"A HIT created with fewer than {EXTRA_FEE_FROM} assignments cannot be extended to so many."
        raise MTurkError(message, "InvalidMaximumAssignmentsIncrease")
    state.require(Decimal(0) if hit.expired else more * hit.unit)
    hit.assignments += more
    state.settle(hit)
    state.keep("additional", token)
    return {}


def _token_used(token: str) -> MTurkError:
    """The wording is that of Dallinger issue 3109; the code is an assumption."""
    return MTurkError(f'The idempotency token "{token}" has already been processed.', "DuplicateRequest")


def get_account_balance(state: State, _params: Params) -> Answer:
    """What is left to spend, a broken cent left out."""
    return {"AvailableBalance": f"{state.available.quantize(Decimal('0.01'), rounding=ROUND_DOWN):f}"}


# Assignments and bonuses


def assignment_answer(one: Assignment) -> Answer:
    """An assignment as the API shows it."""
    answer = {
        "AssignmentId": one.id,
        "WorkerId": one.worker_id,
        "HITId": one.hit_id,
        "AssignmentStatus": one.status,
        "AutoApprovalTime": one.auto_approval,
        "AcceptTime": one.accepted,
        "SubmitTime": one.submitted,
        "ApprovalTime": one.approved,
        "RejectionTime": one.rejected,
        "Deadline": one.deadline,
        "Answer": one.answer,
        "RequesterFeedback": one.feedback,
    }
    return {name: value for name, value in answer.items() if value is not None}


def list_assignments_for_hit(state: State, params: Params) -> Answer:
    """The assignments of a HIT that were submitted, in the order in which they were accepted."""
    wanted = params.get("AssignmentStatuses") or REVIEWED
    found = [one for one in state.hit(params["HITId"]).work if one.status in wanted]
    page, answer = _paged(params, "ListAssignmentsForHIT", found, lambda one: int(one.n))
    return {**answer, "Assignments": [assignment_answer(one) for one in page]}


def get_assignment(state: State, params: Params) -> Answer:
    """One assignment with its HIT."""
    one = state.reviewed(params["AssignmentId"])
    return {"Assignment": assignment_answer(one), "HIT": hit_answer(state, state.hit(one.hit_id))}


def approve_assignment(state: State, params: Params) -> Answer:
    """Pays for work that is submitted; for rejected work only when told to, within 30 days."""
    one = _for_review(
        state, params["AssignmentId"], "Submitted", *(["Rejected"] * bool(params.get("OverrideRejection")))
    )
    if one.status == "Rejected":
        if state.now() - (one.submitted or 0) > _OVERRIDE_SECONDS:
            raise _wrong_state("Submitted")
        state.require(state.hit(one.hit_id).unit)
    one.feedback = params.get("RequesterFeedback", one.feedback)
    state.move(one, "Approved")
    return {}


def reject_assignment(state: State, params: Params) -> Answer:
    """Refuses to pay. Nobody else gets the assignment; its money is free again."""
    one = _for_review(state, params["AssignmentId"], "Submitted")
    one.rejected, one.feedback = state.now(), params["RequesterFeedback"]
    state.move(one, "Rejected")
    return {}


def _for_review(state: State, assignment_id: str, *statuses: str) -> Assignment:
    one = state.assignments.get(assignment_id)
    if one is None:
        raise no_assignment(assignment_id)
    if one.status not in statuses:  # of work in hand as ParlAI issue 2957 and psiTurk issue 424 met it
        raise _wrong_state("Submitted" if one.status in REVIEWED else "null")
    return one


def _wrong_state(wanted: str) -> MTurkError:
    return MTurkError(f"This operation can be called with a status of: {wanted}", "InvalidAssignmentState")


def send_bonus(state: State, params: Params) -> Answer:
    """Pays a worker on top, at once."""
    token, amount = params.get("UniqueRequestToken"), Decimal(params["BonusAmount"])
    if state.used("bonus", token) is not None:
        raise _token_used(str(token))
    if not 0 < amount <= _MOST_BONUS:
        raise invalid_value("BonusAmount", params["BonusAmount"])
    one, cost = state.reviewed(params["AssignmentId"]), cost_of_bonus(amount)
    if one.worker_id != params["WorkerId"]:
        # That it is refused is known (psiTurk issue 190); the code and the wording are assumptions.
        raise invalid_value("WorkerId", params["WorkerId"], "The assignment is another worker's.")
    state.require(cost)
    state.available -= cost
    state.paid += cost
    bonus = {"WorkerId": one.worker_id, "BonusAmount": f"{amount:.2f}", "AssignmentId": one.id}
    state.bonuses.append({**bonus, "Reason": params["Reason"], "GrantTime": state.now()})
    state.keep("bonus", token)
    return {}


def list_bonus_payments(state: State, params: Params) -> Answer:
    """The bonuses of a HIT or of an assignment."""
    hit_id, assignment_id = params.get("HITId"), params.get("AssignmentId")
    if (hit_id is None) == (assignment_id is None):
        raise invalid_value("HITId", hit_id, "Give either a HITId or an AssignmentId.")
    ids = {state.reviewed(assignment_id).id} if assignment_id else {one.id for one in state.hit(str(hit_id)).work}
    found = [(n, bonus) for n, bonus in enumerate(state.bonuses) if bonus["AssignmentId"] in ids]
    page, answer = _paged(params, "ListBonusPayments", found, lambda pair: int(pair[0]))
    return {**answer, "BonusPayments": [bonus for _, bonus in page]}


# Qualifications


def create_qualification_type(state: State, params: Params) -> Answer:
    """A type of the requester's own, under a name that no other has."""
    if any(one["Name"] == params["Name"] for one in state.types.values()):
        raise MTurkError(
            "You have already created a QualificationType with this name. A QualificationType's name must be unique "
            "among all of the QualificationTypes created by the same user.",
            "QualificationTypeAlreadyExists",
        )
    kept = ("Name", "Description", "Keywords", "QualificationTypeStatus")
    made = {
        "QualificationTypeId": state.new_id(),
        "CreationTime": state.now(),
        "IsRequestable": True,
        "AutoGranted": False,
        **{name: params[name] for name in kept if name in params},
    }
    state.types[made["QualificationTypeId"]] = made
    return {"QualificationType": made}


def list_qualification_types(state: State, params: Params) -> Answer:
    """The requester's own types whose name or description has the query in it."""
    query = params.get("Query", "").lower()
    found = [
        pair
        for pair in enumerate(state.types.values())
        if query in f"{pair[1]['Name']} {pair[1]['Description']}".lower()
    ]
    page, answer = _paged(params, "ListQualificationTypes", found, lambda pair: int(pair[0]))
    return {**answer, "QualificationTypes": [one for _, one in page]}


def associate_qualification_with_worker(state: State, params: Params) -> Answer:
    """Gives a worker a qualification, or its one another value. Any worker id of the right form is somebody's."""
    if params["QualificationTypeId"] not in state.types:
        raise missing("QualificationType", params["QualificationTypeId"], "QualificationType")
    state.granted[params["QualificationTypeId"], params["WorkerId"]] = params.get("IntegerValue", 1)
    return {}


def is_qualified(state: State, hit: Hit, worker_id: str) -> bool:
    """Whether a worker meets all requirements of a HIT."""
    return all(_meets(state, one, worker_id) for one in state.properties(hit)["QualificationRequirements"])


def _meets(state: State, requirement: dict[str, Any], worker_id: str) -> bool:
    type_id, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
    if type_id == LOCALE:
        at_home = {"Country": "US"} in requirement.get("LocaleValues", [])
        return at_home == (comparator in ("EqualTo", "In")) or comparator == "Exists"
    value = _OF_WORKERS[type_id] if type_id in _OF_WORKERS else state.granted.get((type_id, worker_id))
    if comparator in ("Exists", "DoesNotExist"):
        return (value is not None) == (comparator == "Exists")
    wanted = requirement["IntegerValues"]
    # A worker without the qualification meets no comparison, not even NotEqualTo (an assumption).
    return (
        value is not None
        and {
            "LessThan": value < wanted[0],
            "LessThanOrEqualTo": value <= wanted[0],
            "GreaterThan": value > wanted[0],
            "GreaterThanOrEqualTo": value >= wanted[0],
            "EqualTo": value == wanted[0],
            "NotEqualTo": value != wanted[0],
            "In": value in wanted,
            "NotIn": value not in wanted,
        }[comparator]
    )
