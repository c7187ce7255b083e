"""Qualifications for HITs: MTurk's own, and ours, which keep tasks blind and limit the work per worker.

A batch has one qualification type for workers who are excluded from all of it (on the block list, or at the limit), and
one for each task of a service with a sibling task: it is granted to workers who did the task, and hides the sibling's
HITs from them. Types are looked up by name, so creating them again has no effect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import worker_hash
from parapet.transforms.crowd.mturk.batch import Batch, Call, Failure, Told, perform
from parapet.transforms.crowd.mturk.client import PRODUCTION, explaining, pages
from parapet.transforms.crowd.mturk.collect import Line

LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"
MASTERS = {True: "2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", False: "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6"}  # production, sandbox

KEPT_OUT = "kept out"

_WORKER = re.compile(r"A[A-Z0-9]{1,63}")

# Shown to workers who ask why they cannot see a HIT. It must not reveal what the tasks hide.
_DESCRIPTION = {
    True: "Has taken part enough, or was asked not to, in a group of writing tasks.",
    False: "Has worked on a task of this group, which shows what another one asks for.",
}


def sibling_of(task_id: str) -> str:
    """Return the service's other task, which shows what this one asks for; ``""`` if there is none."""
    service, _, task = task_id.rpartition(":")
    others = [other for other in TASKS if other != task]
    return f"{service}:{others[0]}" if task in TASKS else ""


def done_name(task_id: str) -> str:
    """Return the name of the qualification for workers who did a task."""
    return f"did {task_id}"


def make_types(batch: Batch, names: Iterable[str]) -> dict[str, str]:
    """Create the qualification types that do not exist yet; return name to id.

    Raises:
      InputError: MTurk refuses to create one.
    """
    names = list(dict.fromkeys(names))
    missing = [name for name in names if name not in _ids(batch)]
    if any(f"type:{name}" in batch.journal.open for name in missing):
        find_types(batch, missing)
        missing = [name for name in missing if name not in _ids(batch)]

    def make(call: Call) -> dict[str, Any]:
        answer = batch.client.create_qualification_type(**call.arguments)
        return {"id": answer["QualificationType"]["QualificationTypeId"]}

    calls = []
    for name in missing:
        arguments = {
            "Name": _full_name(batch, name),
            "Description": _DESCRIPTION[name == KEPT_OUT],
            "QualificationTypeStatus": "Active",
        }
        calls.append(Call(f"type:{name}", "create_qualification_type", arguments))
    failures = perform(batch, calls, do=make)
    if failures:
        # An earlier attempt may have succeeded although its response was lost.
        existing = find_types(batch, [failure.key.removeprefix("type:") for failure in failures])
        for failure in failures:
            if failure.key.removeprefix("type:") not in existing:
                raise InputError(f"MTurk refused the call: {failure.message} [{failure.code}]", failure.key)
    ids = _ids(batch)
    return {name: ids[name] for name in names}


def _ids(batch: Batch) -> dict[str, str]:
    """Return name to id of the types in the journal."""
    return {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}


def _full_name(batch: Batch, name: str) -> str:
    # Workers see these names, so they must not reveal the service.
    return f"{_prefix(batch)}{batch.token(name)[:16]}"


def _prefix(batch: Batch) -> str:
    return f"Writing tasks {batch.id[:12]} "


def find_types(batch: Batch, names: Iterable[str]) -> dict[str, str]:
    """Look up the batch's existing types at MTurk, add them to the journal, and return name to id.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    listed = pages(
        batch.client.list_qualification_types,
        "QualificationTypes",
        Query=_prefix(batch).strip(),
        MustBeRequestable=False,
        MustBeOwnedByCaller=True,
    )
    with explaining("list_qualification_types"):
        ids = {item["Name"]: item["QualificationTypeId"] for item in listed}
    existing = {name: ids[full] for name in names if (full := _full_name(batch, name)) in ids}
    batch.journal.write(
        [("done", f"type:{name}", "list_qualification_types", {"id": i}) for name, i in existing.items()]
    )
    return existing


def requirements(batch: Batch, task_id: str, types: Mapping[str, str], top_up: bool) -> list[dict[str, Any]]:
    """Return boto3's QualificationRequirements for a task's HITs.

    Args:
      batch: the batch with its settings.
      task_id: the id of the HIT's task.
      types: name to id, from :func:`make_types`.
      top_up: whether to exclude workers who did the task itself, too.
    """
    settings = batch.settings
    kept_out = [KEPT_OUT, done_name(sibling_of(task_id)), *([done_name(task_id)] if top_up else [])]
    countries = [_locale(country) for country in settings.countries]
    least = {PERCENT_APPROVED: settings.min_approval, NUMBER_APPROVED: settings.min_approved}
    required = [*([MASTERS[batch.endpoint == PRODUCTION]] if settings.masters else []), *settings.required]
    return [
        *([_required(LOCALE, "In", LocaleValues=countries)] if countries else []),
        *(_required(name, "GreaterThanOrEqualTo", IntegerValues=[value]) for name, value in least.items() if value),
        *(_required(name, "Exists") for name in required),
        *(_required(name, "DoesNotExist") for name in settings.excluded),
        *(_required(types[name], "DoesNotExist") for name in kept_out if name in types),
    ]


def _required(type_id: str, comparator: str, **values: Any) -> dict[str, Any]:
    # Hides the HIT from workers who cannot accept it, so that they do not read the page of a sibling task.
    return {
        "QualificationTypeId": type_id,
        "Comparator": comparator,
        **values,
        "ActionsGuarded": "DiscoverPreviewAndAccept",
    }


def _locale(country: str) -> dict[str, str]:
    land, _, part = country.partition("-")
    return {"Country": land, "Subdivision": part} if part else {"Country": land}


def grant(
    batch: Batch,
    lines: Sequence[Line],
    blocked: Iterable[str],
    upcoming: Iterable[tuple[str, int]] = (),
    told: Told | None = None,
) -> tuple[Counter[str], list[Failure]]:
    """Grant the qualifications that follow from collected assignments and the block list, each once.

    Args:
      batch: the open batch, whose types exist.
      lines: all collected assignments.
      blocked: ids of workers who must not see further HITs of the batch.
      upcoming: (task id, round) of HITs about to get places, in addition to those that have some.
      told: called with the number done.

    Returns:
      The number of grants by reason, including refused ones, and the refusals.
    """
    types = _ids(batch)
    calls: dict[str, Call] = {}
    reasons = [*_by_rule(batch, lines, list(upcoming)), *(("blocked", KEPT_OUT, worker) for worker in blocked)]
    for why, name, worker in reasons:
        key = f"grant:{name}:{worker_hash(batch.key, worker)}"
        if name in types and key not in calls and key not in batch.journal.done:
            arguments = {"QualificationTypeId": types[name], "WorkerId": worker, "SendNotification": False}
            calls[key] = Call(key, "associate_qualification_with_worker", arguments, {"why": why})
    counts = Counter(call.facts["why"] for call in calls.values())
    # Granting is idempotent, so an interrupted call is simply repeated.
    return counts, perform(batch, list(calls.values()), told)


def _by_rule(batch: Batch, lines: Sequence[Line], upcoming: list[tuple[str, int]]) -> Iterator[tuple[str, str, str]]:
    # Only for tasks with open places: for a completed batch this would cost thousands of calls.
    submitted = Counter(line["HITId"] for line in lines)
    places = {(hit.task_id, hit.round) for hit in batch.hits().values() if hit.wanted > submitted[hit.hit_id]}
    places.update(upcoming)
    closed = {task_id for task_id, round_ in places if round_} | {sibling_of(task_id) for task_id, _ in places}
    for line in lines:
        if line["RequesterAnnotation"] in closed:
            yield "sibling", done_name(line["RequesterAnnotation"]), line["WorkerId"]
    for worker, n in sorted(Counter(line["WorkerId"] for line in lines).items()):
        if 0 < batch.settings.max_per_worker <= n:
            yield "cap", KEPT_OUT, worker


def read_block_list(path: str) -> list[str]:
    """Read worker ids, one per line; ``#`` begins a comment.

    Raises:
      InputError: the file cannot be read, or a line is not a worker id; the message does not repeat it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    workers = []
    for number, line in enumerate(text.splitlines(), 1):
        worker = line.partition("#")[0].strip()
        if worker and not _WORKER.fullmatch(worker):
            raise InputError(
                "not a worker id, which is an A followed by capital letters and digits", path, f"row {number}"
            )
        if worker:
            workers.append(worker)
    return workers
