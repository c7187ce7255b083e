"""Qualifications for HITs: MTurk's own, and ours, which keep tasks blind and limit the work per worker.

A batch has one qualification type for workers who are excluded from all of it (on the block list, or at the limit), and
one for each task of a service with a sibling task: it is granted to workers who did the task, and hides the sibling's
HITs from them. Types are looked up by name, so creating them again has no effect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_text
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import worker_hash
from parapet.transforms.crowd.mturk.batch import Batch, Call, Failures, Line, Progress, perform
from parapet.transforms.crowd.mturk.client import explaining, pages

LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"

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
    return f"{service}:{next(other for other in TASKS if other != task)}" if task in TASKS else ""


def done_name(task_id: str) -> str:
    """Return the name of the qualification for workers who did a task."""
    return f"did {task_id}"


def type_names(task_ids: Iterable[str], round_id: str) -> list[str]:
    """Return the names of the qualification types of HITs.

    Args:
      task_ids: the tasks of the HITs.
      round_id: the id of the top-up, which excludes workers who did the task itself; or empty.
    """
    names = [KEPT_OUT]
    for task_id in task_ids:
        sibling = sibling_of(task_id)
        names += [done_name(sibling)] if sibling else []
        names += [done_name(task_id)] if sibling or round_id else []
    return list(dict.fromkeys(names))


def type_ids(batch: Batch) -> dict[str, str]:
    """Return name to id of the types in the journal."""
    return {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}


def find_types(batch: Batch, names: Collection[str]) -> None:
    """Add the batch's types that exist at MTurk, and not in its journal, to the journal.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    missing = [name for name in names if name not in type_ids(batch)]
    if not missing:
        return
    prefix = _full_name(batch, "").rpartition(" ")[0]
    arguments = {"Query": prefix, "MustBeRequestable": False, "MustBeOwnedByCaller": True}
    with explaining("list_qualification_types"):
        listed = pages(batch.client.list_qualification_types, "QualificationTypes", **arguments)
        ids = {item["Name"]: item["QualificationTypeId"] for item in listed}
    existing = [(name, ids[full]) for name in missing if (full := _full_name(batch, name)) in ids]
    batch.journal.write([("done", f"type:{name}", "", {"id": type_id}) for name, type_id in existing])


def make_types(batch: Batch, names: Collection[str]) -> None:
    """Create the qualification types that the journal does not have; see :func:`find_types`.

    Raises:
      InputError: MTurk refuses to create one.
    """

    def create(call: Call) -> dict[str, Any]:
        answer = batch.client.create_qualification_type(**call.arguments)
        return {"id": answer["QualificationType"]["QualificationTypeId"]}

    known, calls = type_ids(batch), []
    for name in names:
        if name not in known:
            description = {"Description": _DESCRIPTION[name == KEPT_OUT], "QualificationTypeStatus": "Active"}
            arguments = {"Name": _full_name(batch, name), **description}
            calls.append(Call(f"type:{name}", "create_qualification_type", arguments))
    failures = perform(batch, calls, send=create)
    if failures:
        find_types(batch, names)
    for key, reason in failures.items():
        if key not in batch.journal.done:
            raise InputError(reason, key)


def _full_name(batch: Batch, name: str) -> str:
    # Workers see these names, so they must not reveal the service.
    return f"Writing tasks {batch.id[:12]} {batch.token(name)[:16]}"


def requirements(batch: Batch, task_id: str, is_top_up: bool) -> list[dict[str, Any]]:
    """Return boto3's QualificationRequirements for a task's HITs.

    Args:
      batch: the batch with its settings.
      task_id: the id of the HIT's task.
      is_top_up: whether to exclude workers who did the task itself, too.
    """
    settings, types = batch.settings, type_ids(batch)
    kept_out = [KEPT_OUT, done_name(sibling_of(task_id)), *([done_name(task_id)] if is_top_up else [])]
    excluded = [*settings.excluded, *(types[name] for name in kept_out if name in types)]
    at_least = {PERCENT_APPROVED: settings.min_approval, NUMBER_APPROVED: settings.min_approved}
    required: list[tuple[str, str, dict[str, Any]]] = []
    if settings.countries:
        required.append((LOCALE, "In", {"LocaleValues": [_locale(country) for country in settings.countries]}))
    required += [(name, "GreaterThanOrEqualTo", {"IntegerValues": [n]}) for name, n in at_least.items() if n]
    required += [(name, "Exists", {}) for name in settings.required]
    required += [(name, "DoesNotExist", {}) for name in excluded]
    # Hides the HIT from workers who cannot accept it, so that they do not read the page of a sibling task.
    hidden = {"ActionsGuarded": "DiscoverPreviewAndAccept"}
    return [{"QualificationTypeId": name, "Comparator": how, **values, **hidden} for name, how, values in required]


def _locale(country: str) -> dict[str, str]:
    land, _, part = country.partition("-")
    return {"Country": land, "Subdivision": part} if part else {"Country": land}


def grant(
    batch: Batch,
    lines: Sequence[Line],
    blocked: Iterable[str],
    upcoming: Iterable[tuple[str, str]] = (),
    progress: Progress | None = None,
) -> Failures:
    """Grant the qualifications that follow from collected assignments and the block list, each once.

    Args:
      batch: the open batch, whose types exist.
      lines: all collected assignments.
      blocked: ids of workers who must not see further HITs of the batch.
      upcoming: (task id, round) of HITs about to be published.
      progress: called with the number of granted ones.

    Returns:
      The refusals.
    """
    # Only for tasks with open places: for a completed batch this would cost thousands of calls.
    submitted = Counter(line["HITId"] for line in lines)
    hits = batch.hits().values()
    places = {*upcoming, *((hit.task_id, hit.round) for hit in hits if hit.assignments > submitted[hit.hit_id])}
    closed = {task_id for task_id, round_id in places if round_id} | {sibling_of(task_id) for task_id, _ in places}
    did = [(line["RequesterAnnotation"], line["WorkerId"]) for line in lines]
    reasons = [("sibling", done_name(task_id), worker) for task_id, worker in did if task_id in closed]
    by_worker = sorted(Counter(worker for _, worker in did).items())
    reasons += [("cap", KEPT_OUT, worker) for worker, n in by_worker if 0 < batch.settings.max_per_worker <= n]
    reasons += [("blocked", KEPT_OUT, worker) for worker in blocked]
    types = type_ids(batch)
    calls: dict[str, Call] = {}
    for why, name, worker in reasons:
        key = f"grant:{name}:{worker_hash(batch.key, worker)}"
        if name in types and key not in calls and key not in batch.journal.done:
            arguments = {"QualificationTypeId": types[name], "WorkerId": worker, "SendNotification": False}
            calls[key] = Call(key, "associate_qualification_with_worker", arguments, {"why": why})
    # Granting is idempotent, so an interrupted call is simply repeated.
    return perform(batch, list(calls.values()), progress)


def read_block_list(path: str) -> list[str]:
    """Read worker ids, one per line; ``#`` begins a comment.

    Raises:
      InputError: the file cannot be read, or a line is not a worker id; the message does not repeat it.
    """
    lines = [line.partition("#")[0].strip() for line in read_text(path).splitlines()]
    for number, worker in enumerate(lines, 1):
        if worker and not _WORKER.fullmatch(worker):
            reason = "not a worker id, which is an A followed by capital letters and digits"
            raise InputError(reason, path, f"row {number}")
    return list(filter(None, lines))
