"""The server: API calls with their faults and hooks over HTTP on 127.0.0.1, and what tests may look at and change."""

import hashlib
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from local_http import Answer, LocalService, Request

from . import operations
from .state import REVIEWED, Assignment, MTurkError, Refusal, State

WORKER_ID = re.compile(r"A[A-Z0-9]{1,63}")

_ANSWERS = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/")


class Faults(dict[str, float]):
    """Shares of the API's requests that go wrong, together at most 1, by what goes wrong.

    Args:
      throttle: answered with ``ThrottlingException: Rate exceeded``, not handled.
      error: answered with HTTP 500 ``ServiceFault``, not handled.
      drop_before: the connection closes, not handled.
      drop_after: handled with success, then the connection closes without an answer.
    """

    def draw(self, seed: int, index: int) -> str:
        """The name of a request's fault, "" for none."""
        place = int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:7]) / (1 << 56)
        return next((name for name, limit in zip(self, accumulate(self.values()), strict=True) if place < limit), "")


@dataclass
class Call:
    """An API request as hooks see it.

    Attributes:
      outcome: "" before it is handled; then ``ok``, a TurkErrorCode without its prefix, an error code, or a fault.
      answer: what is about to be sent.
    """

    index: int
    operation: str
    params: Any
    outcome: str = ""
    status: int = 0
    answer: bytes = b""


class Drop(Exception):
    """Raised by a hook: the connection closes without an answer."""


Hook = Callable[[Call], None]


class FakeMTurk(LocalService):
    """MTurk on this machine, for one requester; a context manager.

    Args:
      path: where all is written at the end; what a server before it has written is gone on with.
      port: on 127.0.0.1; 0 takes a free one.
      faults: what goes wrong, and how often.
      seed: of ids and faults.
      balance: dollars in the account.

    Attributes:
      url: the endpoint for boto3.
      state: what there is; hold ``lock`` while a command runs.
      refused_keys: access key ids that it does not know.
    """

    def __init__(
        self, path: Path, port: int = 0, faults: Faults | None = None, seed: int = 0, balance: Decimal = Decimal(10_000)
    ) -> None:
        super().__init__(port=port)
        self.path, self.faults, self.seed, self.refused_keys = Path(path), faults or Faults(), seed, set[str]()
        self.state: State = pickle.loads(self.path.read_bytes()) if self.path.exists() else State(seed, balance)
        self.request_hooks: list[Hook] = []
        self.response_hooks: list[Hook] = []

    def stop(self) -> None:
        """Closes all connections and writes the state. Once more does nothing."""
        if not self.stopping.is_set():
            super().stop()
            with self.lock:
                self.path.write_bytes(pickle.dumps(self.state))

    # What tests hook into and look at.

    def on_request(self, hook: Hook) -> None:
        """Calls the hook before each request is handled. It may raise Drop or MTurkError, or do anything."""
        self.request_hooks.append(hook)

    def on_response(self, hook: Hook) -> None:
        """Calls the hook after each request was handled and before its answer is sent. It may raise Drop."""
        self.response_hooks.append(hook)

    def advance(self, seconds: int) -> None:
        """Sets the clock forward; what falls due happens."""
        with self.lock:
            self.state.offset += seconds
            self.state.pass_time()

    @property
    def calls(self) -> dict[str, Counter[str]]:
        """How often each operation was called, by outcome."""
        calls: dict[str, Counter[str]] = {}
        for (operation, outcome), n in sorted(self.state.calls.items()):
            calls.setdefault(operation, Counter())[outcome] = n
        return calls

    def count(self, operation: str) -> int:
        """How often an operation was called, with any outcome."""
        return self.calls.get(operation, Counter()).total()

    def snapshot(self) -> dict[str, Any]:
        """Everything there is, as the API would show it: ``hits`` and ``assignments`` by id, ``bonuses``,
        ``qualification_types``, ``qualifications``, and ``balance`` (available, held, paid).
        """
        with self.lock:
            state = self.state
            state.pass_time()
            return {
                "hits": {name: operations.hit_answer(hit) for name, hit in state.hits.items()},
                "assignments": {name: operations.assignment_answer(one) for name, one in state.assignments.items()},
                "bonuses": list(state.bonuses),
                "qualification_types": dict(state.types),
                "qualifications": [
                    {"QualificationTypeId": of, "WorkerId": worker, "IntegerValue": value}
                    for (of, worker), value in state.granted.items()
                ],
                "balance": state.balance(),
            }

    # What happens behind a command's back.

    def delete_hit(self, hit_id: str) -> None:
        """Takes a HIT with all its assignments away, as if it had never been; held money is free again."""
        with self.lock:
            hit = self.state.hits.pop(hit_id)
            self.state.available += hit.held
            for one in hit.work:
                del self.state.assignments[one.id]

    def approve_elsewhere(self, assignment_id: str) -> None:
        """Approves an assignment as if the requester had done so on the web site."""
        with self.lock:
            operations.approve_assignment(self.state, {"AssignmentId": assignment_id, "OverrideRejection": True})

    def recycle(self, assignment_id: str, new_worker: str, answer: str | None = None) -> None:
        """Lets an assignment id be that of another worker, as after a return: MTurk gives them out again.

        Args:
          assignment_id: keeps its status.
          new_worker: whose it is from now on.
          answer: their QuestionFormAnswers; None leaves the answer as it is.
        """
        with self.lock:
            one = self.state.assignments[assignment_id]
            one.worker_id, one.answer = new_worker, one.answer if answer is None else answer

    # What workers do.

    def accept(self, hit_id: str, worker_id: str, seconds: int = 0) -> str:
        """Gives a worker an assignment of a HIT; gives its id. Raises Refusal.

        Args:
          hit_id: the HIT.
          worker_id: the worker.
          seconds: so long ago: played workers would all seem to have worked for no time.
        """
        with self.lock:
            state = self.state
            state.pass_time()
            hit, now = state.hits.get(hit_id), state.now()
            if hit is None or not WORKER_ID.fullmatch(worker_id):
                raise Refusal("no_such_hit" if hit is None else "worker_id")
            mine = [one for one in hit.work if one.worker_id == worker_id and one.status in ("Accepted", *REVIEWED)]
            if mine and mine[0].status == "Accepted":
                return mine[0].id
            if mine or hit.expired or not hit.remaining:
                raise Refusal("already_done" if mine else "expired" if hit.expired else "no_assignment_left")
            if not operations.is_qualified(state, hit, worker_id):
                raise Refusal("not_qualified")
            duration = int(hit.properties["AssignmentDurationInSeconds"])
            begun = now - max(0, min(seconds, duration - 1))
            one = Assignment(state.new_id(), hit_id, worker_id, begun, begun + duration)
            state.assignments[one.id] = one
            hit.work.append(one)
            state.settle(hit)
            state.wait(one.deadline, one.id)
            return one.id

    def submit(self, assignment_id: str, fields: Iterable[tuple[str, str]]) -> None:
        """Takes a form in. Raises Refusal."""
        answers: dict[str, str] = {}
        for name, text in fields:  # several boxes of one name come as one answer, with bars between
            if name and name != "assignmentId":
                answers[name] = f"{answers[name]}|{text}" if name in answers else text
        if not answers:
            raise Refusal("no_answers")
        with self.lock:
            one = self._in_hand(assignment_id)
            delay = self.state.hits[one.hit_id].properties["AutoApprovalDelayInSeconds"]
            one.submitted, one.answer = self.state.now(), answer_xml(answers)
            one.auto_approval = one.submitted + delay
            self.state.move(one, "Submitted")
            self.state.wait(one.auto_approval, one.id)

    def give_back(self, assignment_id: str) -> None:
        """Returns an assignment; another worker can have it. Raises Refusal."""
        with self.lock:
            self.state.move(self._in_hand(assignment_id), "Returned")

    def _in_hand(self, assignment_id: str) -> Assignment:
        self.state.pass_time()
        one = self.state.assignments.get(assignment_id)
        if one is None or one.status != "Accepted":
            raise Refusal("too_late" if one else "no_such_assignment")
        return one

    # The API.

    def answer(self, request: Request) -> Answer | None:
        with self.lock:
            index = self.state.calls.total() + 1
        operation = request.headers["X-Amz-Target"].removeprefix(operations.TARGET)
        call = Call(index, operation, request.json)
        fault = self.faults.draw(self.seed, index)
        try:
            for hook in self.request_hooks:
                hook(call)
            self._fail(fault, request.headers["Authorization"])
            with self.lock:
                answer = operations.perform(self.state, call.operation, call.params)
            call.status, call.outcome, call.answer = 200, "ok", json.dumps(answer).encode()
        except Drop:
            call.outcome = "dropped_before"
        except MTurkError as error:
            call.status, call.outcome = error.status, error.turk_code or error.code
            call.answer = json.dumps(error.body(self.state.milliseconds())).encode()
        try:
            for hook in self.response_hooks:
                hook(call)
            if call.outcome == "ok" and fault == "drop_after":
                raise Drop
            return None if call.outcome == "dropped_before" else Answer(call.answer, call.status)
        except Drop:
            if call.outcome == "ok":
                call.outcome = "dropped_after"
            return None
        finally:
            with self.lock:
                self.state.calls[call.operation, call.outcome] += 1

    def _fail(self, fault: str, credential: str) -> None:
        if fault == "drop_before":
            raise Drop
        if fault == "throttle":
            raise MTurkError("Rate exceeded", code="ThrottlingException")
        if fault == "error":
            raise MTurkError("Service fault. Please try again.", code="ServiceFault", status=500)
        match = _CREDENTIAL.match(credential)
        if match is None or match[1] in self.refused_keys:
            message = "The security token included in the request is invalid."
            raise MTurkError(message, code="UnrecognizedClientException")


def answer_xml(answers: dict[str, str]) -> str:
    """The QuestionFormAnswers document of a form.

    Line ends stay as they were posted: a bare carriage return would be lost to any XML parser. Characters that XML
    cannot have become U+FFFD.
    """
    form = "<Answer><QuestionIdentifier>{}</QuestionIdentifier><FreeText>{}</FreeText></Answer>"
    pairs = ([escape(_FORBIDDEN.sub("\ufffd", part), {"\r": "&#13;"}) for part in pair] for pair in answers.items())
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<QuestionFormAnswers xmlns="{_ANSWERS}">'
    return f"{head}{''.join(form.format(*pair) for pair in pairs)}</QuestionFormAnswers>"
