"""What the server answers outside the API: the workers' pages, and the controls for tests and practice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
import orjson

from parapet.local_mturk import marketplace
from parapet.local_mturk.faults import faults_from
from parapet.local_mturk.marketplace import PREVIEW, Accepted, Refusal
from parapet.local_mturk.question import SUBMIT_PATH, as_served, html_of
from parapet.local_mturk.requirements import Profile
from parapet.local_mturk.service import Service
from parapet.schemas.errors import InputError
from parapet.transforms.report import render

HTML, JSON = "text/html; charset=utf-8", "application/json"

_MOST_FIELDS = 10_000
_FORM = "application/x-www-form-urlencoded"


class Request(msgspec.Struct):
    """A request: what the address asks for, and what was posted."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str = ""
    body: bytes = b""
    wants_json: bool = False

    def posted(self) -> list[tuple[str, str]]:
        """The fields of a form, blank ones included, in the order of the page."""
        if self.content_type.partition(";")[0].strip().lower() != _FORM:
            raise Refusal("no_answers", f"Forms are sent as {_FORM}.")
        try:
            return parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise Refusal("no_answers") from None


class Reply(msgspec.Struct):
    """An answer. A ``location`` makes it a redirection."""

    status: int = 200
    content_type: str = HTML
    body: bytes = b""
    location: str = ""


def reply(mturk: Service, request: Request) -> Reply:
    """The answer to anything that is not an API call."""
    handler = _ROUTES.get((request.method, request.path))
    if handler is None:
        return _message(404, "There is no such page", "The list of HITs is at /.")
    try:
        return handler(mturk, request)
    except Refusal as refusal:
        if request.wants_json:
            return _json({"reason": refusal.reason, "detail": str(refusal)}, 400)
        return _message(400, "This is not possible", str(refusal))
    except (InputError, msgspec.ValidationError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        return _json({"error": str(error)}, 400)


def _index(mturk: Service, request: Request) -> Reply:
    worker_id = request.query.get("worker_id", "").strip()
    marketplace.check_worker(worker_id, needed=False)
    groups: dict[str, dict[str, Any]] = {}
    for hit in marketplace.on_offer(mturk.store, worker_id):
        group = groups.setdefault(hit["group_id"], {**hit, "hits": 0, "left": 0, "open": 0})
        group["hits"] += 1
        group["left"] += hit["left"]
        group["open"] += hit["can_accept"]
    held = marketplace.in_hand(mturk.store, worker_id) if worker_id else []
    mine = [(each, _place(mturk, Accepted(each["assignment_id"], each["hit_id"], worker_id))) for each in held]
    page = render("mturk_server.html.jinja", groups=list(groups.values()), worker_id=worker_id, mine=mine)
    return Reply(body=page.encode())


def _listing(mturk: Service, request: Request) -> Reply:
    return _json(marketplace.on_offer(mturk.store, request.query.get("worker_id", "")))


def _preview(mturk: Service, request: Request) -> Reply:
    hit_id, worker_id = request.query.get("hit_id", ""), request.query.get("worker_id", "")
    marketplace.question_for(mturk.store, hit_id, worker_id)
    known = {"workerId": worker_id} if worker_id else {}
    return Reply(303, location=f"/page?{urlencode({'assignmentId': PREVIEW, 'hitId': hit_id, **known})}")


def _page(mturk: Service, request: Request) -> Reply:
    question = marketplace.question_for(mturk.store, request.query.get("hitId", ""), request.query.get("workerId", ""))
    return Reply(body=as_served(html_of(question)).encode())


def _accept(mturk: Service, request: Request) -> Reply:
    given = dict(request.query)
    if request.method == "POST" and request.body:
        given |= dict(request.posted())
    worker_id = given.get("worker_id", "").strip()
    if group := given.get("group_id"):
        accepted = marketplace.accept_in_group(mturk.store, group, worker_id)
    else:
        seconds = given.get("seconds", "0")
        if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 10):
            raise ValueError("seconds is a whole number")
        accepted = marketplace.accept(mturk.store, given.get("hit_id", ""), worker_id, int(seconds))
    place = _place(mturk, accepted)
    if request.wants_json:
        return _json({**msgspec.structs.asdict(accepted), "page": place})
    return Reply(303, location=place)


def _place(mturk: Service, accepted: Accepted) -> str:
    query = {
        "assignmentId": accepted.assignment_id,
        "hitId": accepted.hit_id,
        "workerId": accepted.worker_id,
        "turkSubmitTo": mturk.url,
    }
    return f"/page?{urlencode(query, quote_via=quote)}"


def _submit(mturk: Service, request: Request) -> Reply:
    fields = request.posted()
    assignment_id = dict(fields).get("assignmentId") or request.query.get("assignmentId", "")
    marketplace.submit(mturk.store, assignment_id, fields)
    if request.wants_json:
        return _json({"submitted": assignment_id})
    return _message(200, "Thank you", "Your answers have arrived. They will be reviewed by the requester.")


def _return(mturk: Service, request: Request) -> Reply:
    given = {**request.query, **(dict(request.posted()) if request.body else {})}
    assignment_id = given.get("assignmentId") or given.get("assignment_id") or ""
    marketplace.give_back(mturk.store, assignment_id)
    if request.wants_json:
        return _json({"returned": assignment_id})
    return _message(200, "Returned", "Somebody else can do this HIT now.")


def _calls(mturk: Service, _request: Request) -> Reply:
    return _json({operation: dict(outcomes) for operation, outcomes in mturk.calls.items()})


def _snapshot(mturk: Service, _request: Request) -> Reply:
    return _json(mturk.snapshot())


def _advance(mturk: Service, request: Request) -> Reply:
    seconds = _object(request)["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds > 1 << 31:
        raise ValueError("seconds is a whole number")
    mturk.advance(seconds)
    return _json({"now": mturk.now()})


def _faults(mturk: Service, request: Request) -> Reply:
    mturk.faults = faults_from(_object(request))
    return _json(msgspec.to_builtins(mturk.faults))


def _worker(mturk: Service, request: Request) -> Reply:
    given = _object(request)
    worker_id = given.pop("worker_id")
    mturk.set_worker(worker_id, msgspec.convert(given, Profile))
    return _json(given)


def _object(request: Request) -> dict[str, Any]:
    found = orjson.loads(request.body)
    if not isinstance(found, dict):
        raise TypeError("expected a JSON object")
    return found


def _message(status: int, title: str, text: str) -> Reply:
    return Reply(status, body=render("mturk_server_message.html.jinja", title=title, text=text).encode())


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, JSON, orjson.dumps(value, default=str))


_ROUTES: dict[tuple[str, str], Callable[[Service, Request], Reply]] = {
    ("GET", "/"): _index,
    ("GET", "/hits.json"): _listing,
    ("GET", "/preview"): _preview,
    ("GET", "/page"): _page,
    ("GET", "/accept"): _accept,
    ("POST", "/accept"): _accept,
    ("POST", SUBMIT_PATH): _submit,
    ("POST", "/return"): _return,
    ("GET", "/control/calls"): _calls,
    ("GET", "/control/snapshot"): _snapshot,
    ("POST", "/control/advance"): _advance,
    ("POST", "/control/faults"): _faults,
    ("POST", "/control/worker"): _worker,
}
