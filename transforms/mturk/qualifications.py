"""Who may work on a HIT: MTurk's own qualifications, and ours, which keep tasks blind and workers within their cap.

A batch has one qualification type for workers who are kept out of all of it (on the block list, or at the cap), and one
for each task of a service that has a sibling: it is granted to those who did the task, and the sibling's HITs are not
shown to them. Types are found by their names, so that making them twice makes them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.mturk.answers import pages
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, perform
from parapet.transforms.mturk.client import PRODUCTION, explaining

LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"
MASTERS = {True: "2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", False: "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6"}  # production, sandbox

KEPT_OUT = "kept out"

# What a worker sees who asks why a HIT is closed to them. It must not tell what the tasks hide.
_DESCRIPTION = {
    True: "Has taken part enough, or was asked not to, in a group of writing tasks.",
    False: "Has worked on a task of this group, which shows what another one asks for.",
}


def sibling_of(task_id: str) -> str:
    """The task of the same service that shows what this one asks for; ``""`` where there is none."""
    service, _, task = task_id.rpartition(":")
    others = [other for other in TASKS if other != task]
    return f"{service}:{others[0]}" if task in TASKS else ""


def done_name(task_id: str) -> str:
    """The batch's name for the qualification of those who did a task."""
    return f"did {task_id}"


def make_types(client: Any, batch: Batch, names: Iterable[str], parallel: int) -> dict[str, str]:
    """Makes the qualification types that are not there yet; gives name to id.

    Raises:
      InputError: MTurk refuses one.
    """
    wanted = list(dict.fromkeys(names))
    known = {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}
    missing = [name for name in wanted if name not in known]
    if any(f"type:{name}" in batch.journal.open for name in missing):
        known.update(find_types(client, batch, missing))
        missing = [name for name in missing if name not in known]

    def make(call: Call) -> dict[str, Any]:
        made = client.create_qualification_type(**call.arguments)["QualificationType"]
        return {"id": made["QualificationTypeId"]}

    calls = [
        Call(
            f"type:{name}",
            "create_qualification_type",
            {
                "Name": _full_name(batch, name),
                "Description": _DESCRIPTION[name == KEPT_OUT],
                "QualificationTypeStatus": "Active",
            },
        )
        for name in missing
    ]
    failures = perform(batch.journal, calls, make, parallel)
    if failures:
        # An earlier attempt may have made it before its answer was lost.
        found = find_types(client, batch, [failure.key.removeprefix("type:") for failure in failures])
        known.update(found)
        for failure in failures:
            if failure.key.removeprefix("type:") not in found:
                raise InputError(f"MTurk refuses: {failure.message} [{failure.code}]", failure.key)
    made = {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}
    return {name: made[name] for name in wanted}


def _full_name(batch: Batch, name: str) -> str:
    # Workers see the names of the qualifications of a HIT: these must not tell which service it is about.
    return f"{_prefix(batch)}{batch.token(name)[:16]}"


def _prefix(batch: Batch) -> str:
    return f"Writing tasks {batch.id[:12]} "


def find_types(client: Any, batch: Batch, names: Iterable[str]) -> dict[str, str]:
    """Name to id of those types of the batch that are there; from now on the journal has them.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    listed = pages(
        client.list_qualification_types,
        "QualificationTypes",
        Query=_prefix(batch).strip(),
        MustBeRequestable=False,
        MustBeOwnedByCaller=True,
    )
    with explaining("list_qualification_types"):
        ids = {item["Name"]: item["QualificationTypeId"] for item in listed}
    found = {name: ids[full] for name in names if (full := _full_name(batch, name)) in ids}
    batch.journal.write([("done", f"type:{name}", "list_qualification_types", {"id": i}) for name, i in found.items()])
    return found


def requirements(batch: Batch, task_id: str, types: Mapping[str, str], top_up: bool) -> list[dict[str, Any]]:
    """boto3's QualificationRequirements for a task's HITs.

    Args:
      batch: with its settings.
      task_id: of the HIT.
      types: name to id, of :func:`make_types`.
      top_up: whether those who did the task itself are to be kept out as well.
    """
    settings = batch.settings
    found: list[dict[str, Any]] = []
    if settings.countries:
        found.append(_required(LOCALE, "In", LocaleValues=[_locale(country) for country in settings.countries]))
    if settings.min_approval:
        found.append(_required(PERCENT_APPROVED, "GreaterThanOrEqualTo", IntegerValues=[settings.min_approval]))
    if settings.min_approved:
        found.append(_required(NUMBER_APPROVED, "GreaterThanOrEqualTo", IntegerValues=[settings.min_approved]))
    if settings.masters:
        found.append(_required(MASTERS[batch.endpoint == PRODUCTION], "Exists"))
    found += [_required(each, "Exists") for each in settings.required]
    found += [_required(each, "DoesNotExist") for each in settings.excluded]
    for name in [KEPT_OUT, done_name(sibling_of(task_id)), *([done_name(task_id)] if top_up else [])]:
        if name in types:
            found.append(_required(types[name], "DoesNotExist"))
    return found


def _required(type_id: str, comparator: str, **values: Any) -> dict[str, Any]:
    # The worker does not see a HIT that they could not accept: nobody reads the page of a sibling task.
    return {
        "QualificationTypeId": type_id,
        "Comparator": comparator,
        **values,
        "ActionsGuarded": "DiscoverPreviewAndAccept",
    }


def _locale(country: str) -> dict[str, str]:
    land, _, part = country.partition("-")
    return {"Country": land, "Subdivision": part} if part else {"Country": land}
