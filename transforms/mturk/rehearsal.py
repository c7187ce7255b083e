"""A dry run: the real code and the real client, whose every request is printed and answered here instead of sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.mturk.client import connect
from parapet.transforms.mturk.collected import Line

_LONG = 300  # characters of an argument that are shown


def rehearsing_client(endpoint: str, lines: Iterable[Line], key: bytes, show: Callable[[str], None]) -> Any:
    """A boto3 client that sends nothing.

    Requests go as far as botocore's signed HTTP request. Listings of assignments are answered from what was collected.

    Args:
      endpoint: where the calls would go.
      lines: what was collected.
      key: worker ids are shown as keyed hashes.
      show: is given each request as a line of JSON.
    """
    client = connect(endpoint, aws_access_key_id="rehearsal", aws_secret_access_key="rehearsal")  # noqa: S106
    by_hit: dict[str, list[Line]] = {}
    for line in lines:
        by_hit.setdefault(line["HITId"], []).append(line)
    made = iter(range(1, 1 << 62))

    def answer(request: Any, **_: Any) -> Any:
        operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
        body = json.loads(request.body)
        shown = {name: _shown(name, value, key) for name, value in body.items()}
        show(json.dumps({"call": operation, **shown}, ensure_ascii=False))
        return _response(request.url, _canned(operation, body, by_hit, made))

    client.meta.events.register("before-send.mturk", answer)
    return client


def _shown(name: str, value: Any, key: bytes) -> Any:
    if name == "WorkerId":
        return f"worker {worker_hash(key, value)}"
    if isinstance(value, str) and len(value) > _LONG:
        return f"{len(value.encode()):,} bytes"
    return value


def _canned(operation: str, body: dict[str, Any], by_hit: dict[str, list[Line]], made: Any) -> dict[str, Any]:
    """What MTurk would answer, as far as the commands look at it."""
    if operation == "CreateQualificationType":
        return {"QualificationType": {"QualificationTypeId": f"TYPE{next(made)}"}}
    if operation == "CreateHITType":
        return {"HITTypeId": f"HITTYPE{next(made)}"}
    if operation == "CreateHITWithHITType":
        ends = datetime.now(UTC) + timedelta(seconds=body["LifetimeInSeconds"])
        return {"HIT": {"HITId": f"HIT{next(made)}", "Expiration": ends.timestamp()}}
    if operation == "GetHIT":
        return {"HIT": {"HITId": body["HITId"], "HITTypeId": "HITTYPE", "MaxAssignments": 0, "Expiration": 0}}
    if operation == "ListAssignmentsForHIT":
        return {"Assignments": [_assignment(line) for line in by_hit.get(body["HITId"], [])]}
    lists = {
        "ListHITs": "HITs",
        "ListQualificationTypes": "QualificationTypes",
        "ListBonusPayments": "BonusPayments",
    }
    return {lists[operation]: []} if operation in lists else {}


def _assignment(line: Line) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value).timestamp() if name.endswith("Time") else value
        for name, value in line.items()
        if name != "RequesterAnnotation"
    }


def _response(url: str, content: dict[str, Any]) -> Any:
    from botocore.awsrequest import AWSResponse

    data = json.dumps(content).encode()

    class Raw(BytesIO):
        def stream(self) -> Iterable[bytes]:
            yield data

    return AWSResponse(url, 200, {"Content-Type": "application/x-amz-json-1.1"}, Raw(data))
