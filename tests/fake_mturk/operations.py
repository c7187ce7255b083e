"""The operations of the API. Requests are checked against botocore's own model of the service."""

import json
import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element

from botocore import xform_name
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException
from page_form import PageForm as Form

from .state import (
    REVIEWED,
    Assignment,
    Hit,
    MTurkError,
    State,
    cost_of_assignment,
    cost_of_bonus,
    invalid_value,
    missing,
)

TARGET = "MTurkRequesterServiceV20170117."
LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"
# What MTurk knows of every worker here, who lives in the United States.
_OF_WORKERS = {PERCENT_APPROVED: 100, NUMBER_APPROVED: 1_000}

_COMPARATORS = ("Exists", "DoesNotExist", "GreaterThanOrEqualTo", "In")  # those that Parapet or a test uses
_PAGE = 10

Params = dict[str, Any]
Answer = dict[str, Any]

# Lengths in characters, numbers by value, lists by length: what the model does not say.
_MOST, _YEAR = 1_000_000_000, 31_536_000
_BOUNDS = {
    **{"AutoApprovalDelayInSeconds": (0, 2_592_000), "AssignmentDurationInSeconds": (30, _YEAR)},
    **{"LifetimeInSeconds": (30, _YEAR), "MaxAssignments": (1, _MOST), "Title": (1, 128), "Name": (1, 200)},
    **{"Keywords": (0, 1_000), "Description": (1, 2_000), "QualificationRequirements": (0, 10)},
    **{"RequesterAnnotation": (0, 255), "RequesterFeedback": (0, 1_024), "Reason": (1, 4_096)},
}


def perform(state: State, operation: str, params: Params) -> Answer:
    """Does a request. Raises MTurkError where the model forbids it or MTurk would refuse; then nothing has changed."""
    check(operation, params)
    for name, (low, high) in _BOUNDS.items():
        if name in params and not low <= _size(params[name]) <= high:
            raise invalid_value(name, params[name], f"It must be from {low:,} to {high:,} long or large.")
    state.pass_time()
    answer: Answer = globals()[xform_name(operation)](state, params)  # its function has boto3's name
    return answer


def _size(value: Any) -> Any:
    return len(value) if hasattr(value, "__len__") else value


@cache
def _model() -> Any:
    return ServiceModel(Loader().load_service_model("mturk", "service-2"), "mturk")


def check(operation: str, params: Any) -> None:
    """Raises MTurkError for a request that the model does not allow; all that is wrong with it in one message."""
    shape = _model().operation_model(operation).input_shape
    report = ParamValidator().validate(params, shape)
    # The form of MTurk's own answers: boto3 issues 1222 and 1223, Dallinger issue 1052.
    if wrong := report.generate_report().splitlines() or [*_wrong(shape, params, "")]:
        raise MTurkError(f"{len(wrong)} validation errors detected: {'; '.join(wrong)}", code="ValidationException")


def _wrong(shape: Any, value: Any, path: str) -> Iterator[str]:
    """What clients do not check: patterns, enumerations, and the largest sizes."""
    if shape.type_name == "structure":
        for name, item in value.items():
            yield from _wrong(shape.members[name], item, f"{path}.{name}" if path else name)
    elif shape.type_name == "list":
        for i, item in enumerate(value, 1):
            yield from _wrong(shape.member, item, f"{path}.{i}.member")
    else:
        limits, allowed = shape.metadata, getattr(shape, "enum", None) or [value]
        fits = re.fullmatch(limits["pattern"], value) if "pattern" in limits else value in allowed
        fits = fits and isinstance(value, bool) == (shape.type_name == "boolean")
        if not fits or ("max" in limits and _size(value) > limits["max"]):
            yield f"Value '{str(value)[:100]}' at '{path}' failed to satisfy constraint: {shape.type_name} {limits}"


def _paged(params: Params, key: str, items: Sequence[Any]) -> Answer:
    """A page of items that stay in their order, as an answer.

    A full page has a token even where nothing follows, so a client must stand an empty last page (an assumption).
    """
    first, size = int(params.get("NextToken", 0)), params.get("MaxResults", _PAGE)
    page = items[first : first + size]
    more = {"NextToken": str(first + size)} if len(page) == size else {}
    return {"NumResults": len(page), key: page, **more}


# The HTMLQuestion of a HIT: what MTurk would refuse of it, and the fields of its form.

_MAX_BYTES = 65_535
_NAMESPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd}"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]")
_SUBMIT = re.compile(r"https://(?:www|workersandbox)\.mturk\.com/mturk/externalSubmit")


def check_question(question: str) -> None:
    """Raises MTurkError for a question that could not become a HIT, or whose form nobody could submit."""
    if why := _fault(question):
        raise invalid_value("Question", question, why)


def _fault(question: str) -> str:
    size = len(question.encode())
    if size > _MAX_BYTES:
        return f"It has {size:,} bytes; at most {_MAX_BYTES:,} are allowed."
    if match := _FOUR_BYTES.search(question) or _CONTROL.search(question):
        return f"It has a character that is not allowed (U+{ord(match.group()):04X})."
    try:
        root: Element = ElementTree.fromstring(question, forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError) as error:
        return f"It is not well-formed XML: {error}."
    html, height = root.findtext(f"{_NAMESPACE}HTMLContent"), root.findtext(f"{_NAMESPACE}FrameHeight")
    if root.tag != f"{_NAMESPACE}HTMLQuestion" or not (html or "").strip() or not (height or "").strip().isdecimal():
        return "It is no HTMLQuestion with HTMLContent and a FrameHeight."
    form = Form(html or "")
    if form.method != "post" or not _SUBMIT.fullmatch(form.action):
        return "Its page has no form that posts to https://www.mturk.com/mturk/externalSubmit or the sandbox's."
    return ""


def form_of(question: str) -> Form:
    """The form of a checked question."""
    return Form(ElementTree.fromstring(question, forbid_dtd=True).findtext(f"{_NAMESPACE}HTMLContent") or "")


# HITs


def create_hit(state: State, params: Params) -> Answer:
    """A HIT, whose money is held."""
    for requirement in params.get("QualificationRequirements", []):
        type_id, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
        if type_id not in {*_OF_WORKERS, LOCALE, *state.types}:
            raise missing("QualificationType", type_id)
        values = requirement.get("LocaleValues" if type_id == LOCALE else "IntegerValues")
        if comparator not in _COMPARATORS or bool(values) == comparator.endswith(("Exists", "Exist")):
            raise invalid_value("QualificationRequirement", json.dumps(requirement))
    token = params.get("UniqueRequestToken")
    if hit_id := state.used("hit", token):
        # The code is documented, and that the message has the id; the wording is an assumption.
        raise MTurkError(f"The HIT {hit_id} has been created with this UniqueRequestToken.", "HitAlreadyExists")
    check_question(params.get("Question", ""))
    assignments = params.get("MaxAssignments", 1)
    unit = cost_of_assignment(Decimal(params["Reward"]), assignments)
    state.require(assignments * unit)
    optional = {"AutoApprovalDelayInSeconds": 2_592_000, "Keywords": "", "QualificationRequirements": []}
    hit = Hit(
        id=state.new_id(),
        properties={**optional, **{name: value for name, value in params.items() if name != "UniqueRequestToken"}},
        expiration=state.now() + params["LifetimeInSeconds"],
        annotation=params.get("RequesterAnnotation"),
        assignments=assignments,
        unit=unit,
        question=params["Question"],
    )
    state.hits[hit.id] = hit
    state.settle(hit)
    state.wait(hit.expiration, hit.id)
    state.keep("hit", token, hit.id)
    return {"HIT": hit_answer(hit)}


def hit_answer(hit: Hit) -> Answer:
    """A HIT as the API shows it."""
    return {**hit.properties, "HITId": hit.id, "MaxAssignments": hit.assignments, "Expiration": hit.expiration}


def list_hits_for_qualification_type(state: State, params: Params) -> Answer:
    """The HITs that ask for a qualification."""
    asked = {hit.id: hit.properties["QualificationRequirements"] for hit in state.hits.values()}
    types = {name: {one["QualificationTypeId"] for one in requirements} for name, requirements in asked.items()}
    hits = [hit_answer(state.hits[name]) for name in types if params["QualificationTypeId"] in types[name]]
    return _paged(params, "HITs", hits)


def update_expiration_for_hit(state: State, params: Params) -> Answer:
    """Sets when a HIT expires: a time that has passed expires it now."""
    hit, expiration, now = state.hit(params["HITId"]), int(params["ExpireAt"]), state.now()
    hit.expiration, hit.expired = expiration, expiration <= now
    state.settle(hit)
    state.wait(expiration, hit.id)
    return {}


def get_account_balance(state: State, _params: Params) -> Answer:
    """What is left to spend, a broken cent left out."""
    return {"AvailableBalance": f"{state.available.quantize(Decimal('0.01'), rounding=ROUND_DOWN):f}"}


# Assignments and bonuses


def assignment_answer(one: Assignment) -> Answer:
    """An assignment as the API shows it."""
    ids = {"AssignmentId": one.id, "WorkerId": one.worker_id, "HITId": one.hit_id, "AssignmentStatus": one.status}
    times = {"AcceptTime": one.accepted, "SubmitTime": one.submitted, "AutoApprovalTime": one.auto_approval}
    ends = {"ApprovalTime": one.approved, "RejectionTime": one.rejected, "Deadline": one.deadline}
    answer = {**ids, **times, **ends, "Answer": one.answer, "RequesterFeedback": one.feedback}
    return {name: value for name, value in answer.items() if value is not None}


def list_assignments_for_hit(state: State, params: Params) -> Answer:
    """The assignments of a HIT that were submitted, in the order in which they were accepted."""
    wanted, work = params.get("AssignmentStatuses") or REVIEWED, state.hit(params["HITId"]).work
    return _paged(params, "Assignments", [assignment_answer(one) for one in work if one.status in wanted])


def approve_assignment(state: State, params: Params) -> Answer:
    """Pays for work that is submitted; for rejected work only when told to."""
    one = _for_review(state, params, "Submitted", *["Rejected"] * bool(params.get("OverrideRejection")))
    if one.status == "Rejected":
        state.require(state.hit(one.hit_id).unit)
    one.feedback = params.get("RequesterFeedback", one.feedback)
    state.move(one, "Approved")
    return {}


def reject_assignment(state: State, params: Params) -> Answer:
    """Refuses to pay. Nobody else gets the assignment; its money is free again."""
    one = _for_review(state, params, "Submitted")
    one.rejected, one.feedback = state.now(), params["RequesterFeedback"]
    state.move(one, "Rejected")
    return {}


def _for_review(state: State, params: Params, *statuses: str) -> Assignment:
    one = state.assignments.get(params["AssignmentId"]) or state.reviewed(params["AssignmentId"])
    if one.status not in statuses:  # of work in hand as ParlAI issue 2957 and psiTurk issue 424 met it
        wanted = "Submitted" if one.status in REVIEWED else "null"
        raise MTurkError(f"This operation can be called with a status of: {wanted}", "InvalidAssignmentState")
    return one


def send_bonus(state: State, params: Params) -> Answer:
    """Pays a worker on top, at once."""
    token, amount = params.get("UniqueRequestToken"), Decimal(params["BonusAmount"])
    if state.used("bonus", token) is not None:
        # The wording is that of Dallinger issue 3109; the code is an assumption.
        raise MTurkError(f'The idempotency token "{token}" has already been processed.', "DuplicateRequest")
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
    """The bonuses of an assignment."""
    assignment_id = state.reviewed(params["AssignmentId"]).id
    return _paged(params, "BonusPayments", [one for one in state.bonuses if one["AssignmentId"] == assignment_id])


# Qualifications


def create_qualification_type(state: State, params: Params) -> Answer:
    """A type of the requester's own, under a name that no other has."""
    if any(one["Name"] == params["Name"] for one in state.types.values()):
        message = "You have already created a QualificationType with this name."
        raise MTurkError(message, "QualificationTypeAlreadyExists")
    fixed = {"CreationTime": state.now(), "IsRequestable": True, "AutoGranted": False}
    created = {"QualificationTypeId": state.new_id(), **fixed, **params}
    state.types[created["QualificationTypeId"]] = created
    return {"QualificationType": created}


def list_qualification_types(state: State, params: Params) -> Answer:
    """The requester's own types whose name or description has the query in it."""
    query = params.get("Query", "").lower()
    types = [one for one in state.types.values() if query in f"{one['Name']} {one['Description']}".lower()]
    return _paged(params, "QualificationTypes", types)


def associate_qualification_with_worker(state: State, params: Params) -> Answer:
    """Gives a worker a qualification, or its one another value. Any worker id of the right form is somebody's."""
    if params["QualificationTypeId"] not in state.types:
        raise missing("QualificationType", params["QualificationTypeId"])
    state.granted[params["QualificationTypeId"], params["WorkerId"]] = params.get("IntegerValue", 1)
    return {}


def is_qualified(state: State, hit: Hit, worker_id: str) -> bool:
    """Whether a worker meets all requirements of a HIT."""
    return all(_meets(state, one, worker_id) for one in hit.properties["QualificationRequirements"])


def _meets(state: State, requirement: dict[str, Any], worker_id: str) -> bool:
    type_id, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
    if type_id == LOCALE:
        at_home = {"Country": "US"} in requirement.get("LocaleValues", [])
        return at_home == (comparator in ("EqualTo", "In")) or comparator == "Exists"
    value = _OF_WORKERS[type_id] if type_id in _OF_WORKERS else state.granted.get((type_id, worker_id))
    if comparator in ("Exists", "DoesNotExist"):
        return (value is not None) == (comparator == "Exists")
    # A worker without the qualification meets no comparison (an assumption).
    return value is not None and value >= requirement["IntegerValues"][0]
