"""Publish every HIT of a ``hits`` folder exactly once, even if runs are interrupted; and withdraw HITs.

Qualifications keep tasks blind and limit the work per worker. A batch has one qualification type for workers who are
excluded from all of it (on the block list, or at the limit), and one for each task of a service with a sibling task: it
is granted to workers who did the task, and hides the sibling's HITs from them. Types are looked up by name, so creating
them again has no effect.
"""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError, parapet_version
from parapet.schemas.limits import read_text
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import worker_hash
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest, read_shortfall, top_up_assignments
from parapet.transforms.crowd.hits.terms import fee_for, up_to_cent
from parapet.transforms.crowd.mturk.batch import (
    PRODUCTION,
    SANDBOX,
    Batch,
    Call,
    Failures,
    Line,
    Progress,
    explaining,
    pages,
    perform,
)

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
    """Returns the service's other task, which shows what this one asks for; ``""`` if there is none."""
    service, _, task = task_id.rpartition(":")
    return f"{service}:{next(other for other in TASKS if other != task)}" if task in TASKS else ""


def done_name(task_id: str) -> str:
    """Returns the name of the qualification for workers who did a task."""
    return f"did {task_id}"


def type_names(task_ids: Iterable[str], round_id: str) -> list[str]:
    """Returns the names of the qualification types of HITs.

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
    """Returns name to id of the types in the journal."""
    return {name: facts["id"] for name, facts in batch.journal.with_prefix("type").items()}


def find_types(batch: Batch, names: Collection[str]) -> None:
    """Adds the batch's types that exist at MTurk, and not in its journal, to the journal.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    if not (missing := [name for name in names if name not in type_ids(batch)]):
        return
    prefix = _full_name(batch, "").rpartition(" ")[0]
    arguments = {"Query": prefix, "MustBeRequestable": False, "MustBeOwnedByCaller": True}
    with explaining("list_qualification_types"):
        listed = pages(batch.client.list_qualification_types, "QualificationTypes", **arguments)
        ids = {item["Name"]: item["QualificationTypeId"] for item in listed}
    existing = [(name, ids[full]) for name in missing if (full := _full_name(batch, name)) in ids]
    batch.journal.write([("done", f"type:{name}", "", {"id": type_id}) for name, type_id in existing])


def make_types(batch: Batch, names: Collection[str]) -> None:
    """Creates the qualification types that the journal does not have; see :func:`find_types`.

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
    if failures := perform(batch, calls, send=create):
        find_types(batch, names)
    for key, reason in failures.items():
        if key not in batch.journal.done:
            raise InputError(reason, key)


def _full_name(batch: Batch, name: str) -> str:
    # Workers see these names, so they must not reveal the service.
    return f"Writing tasks {batch.id[:12]} {batch.token(name)[:16]}"


def requirements(batch: Batch, task_id: str, is_top_up: bool) -> list[dict[str, Any]]:
    """Returns boto3's QualificationRequirements for a task's HITs.

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
    """Grants the qualifications that follow from collected assignments and the block list, each once.

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
    """Reads worker ids, one per line; ``#`` begins a comment.

    Raises:
      InputError: the file cannot be read, or a line is not a worker id; the message does not repeat it.
    """
    lines = [line.partition("#")[0].strip() for line in read_text(path).splitlines()]
    for number, worker in enumerate(lines, 1):
        if worker and not _WORKER.fullmatch(worker):
            reason = "not a worker id, which is an A followed by capital letters and digits"
            raise InputError(reason, path, f"row {number}")
    return list(filter(None, lines))


# Expires a HIT immediately, even if this machine's clock is wrong: MTurk accepts times in the past.
_LONG_AGO = datetime(2015, 1, 1, tzinfo=UTC)


class Hit(msgspec.Struct, frozen=True):
    """A HIT to publish: its record in the manifest, and its cost.

    Attributes:
      folder: the output folder of ``parapet hits``.
      fee: MTurk's fee in dollars per assignment, not rounded.
      round: the id of the top-up that it belongs to, or empty.
    """

    record: PageRecord
    folder: str
    fee: Decimal
    round: str = ""

    @property
    def key(self) -> str:
        """Returns the key in the journal: the task, the part, the digest of page and terms, and the top-up."""
        digest = hashlib.sha256(msgspec.json.encode(self.record)).hexdigest()[:16]
        return f"hit:{self.record.task_id}:{self.record.part}:{digest}" + (f":{self.round}" if self.round else "")

    @property
    def cost(self) -> Decimal:
        """Returns the cost of all assignments in dollars, including fees."""
        assignments = self.record.assignments
        return self.record.reward * assignments + up_to_cent(self.fee * assignments)

    def question(self) -> str:
        """Reads the HTMLQuestion. Raises InputError if it differs from the one in the manifest."""
        path = Path(self.folder) / self.record.question
        data = limits.read_whole(path)
        if hashlib.sha256(data).hexdigest() != self.record.sha256:
            raise InputError("has been changed since 'parapet hits' wrote it: run that command again", path)
        return data.decode("utf-8")


def read_hits(folder: str, endpoint: str) -> list[Hit]:
    """Reads the HITs of a folder, in its order.

    Args:
      folder: the output folder of ``parapet hits``.
      endpoint: the address for publishing; the pages must post their forms to the same place.

    Raises:
      InputError: the folder does not exist, was made by another version or for another endpoint, or was changed.
    """
    _read_options(folder, endpoint)
    return _hits(folder, list(read_manifest(folder)))


def read_top_up(folder: str, endpoint: str, shortfall: str | None) -> list[Hit]:
    """Reads the HITs that ask other workers for what is missing.

    Args:
      folder: see :func:`read_hits`; ``endpoint``, too.
      shortfall: the file that lists what is missing, unless the pages ask for nothing else.

    Raises:
      InputError: as :func:`read_hits`, or the folder asks for everything, or for nothing that is missing.
    """
    options = _read_options(folder, endpoint)
    records = list(read_manifest(folder))
    # The same for the same pages and shortfall, so that a top-up that is run again asks for nothing more.
    digest = hashlib.sha256()
    if shortfall:
        lacks = read_shortfall(shortfall)
        # Each page is for as many workers as its field that lacks most answers takes.
        most = [max((lacks.get((each.task_id, field), 0) for field in each.fields), default=0) for each in records]
        workers = [(each, top_up_assignments(n)) for each, n in zip(records, most, strict=True) if n]
        records = [msgspec.structs.replace(each, assignments=n) for each, n in workers]
        for path in (Path(shortfall), Path(shortfall).with_name(layout.MANIFEST)):
            digest.update(path.read_bytes() if path.exists() else b"")
    elif options.get("only") is None:
        reason = "this folder asks for all answers again: make one with 'parapet hits --shortfall', or add --shortfall"
        raise InputError(reason, folder)
    hits = _hits(folder, records)
    digest.update(" ".join(hit.key for hit in hits).encode())
    return [msgspec.structs.replace(hit, round=digest.hexdigest()[:16]) for hit in hits]


def _read_options(folder: str, endpoint: str) -> dict[str, Any]:
    output = layout.find_output(folder)
    manifest = output.manifest if output else None
    if manifest is None or not isinstance(options := manifest.get("options"), dict):
        raise InputError(f"not a complete output of 'parapet hits': it has no {layout.MANIFEST}", folder)
    if manifest["pipeline"] != "hits":
        raise InputError(f"was made by 'parapet {manifest['pipeline']}', not by 'parapet hits'", folder)
    if manifest.get("version") != parapet_version():
        versions = f"was made by Parapet {manifest.get('version')}, but this is version {parapet_version()}"
        raise InputError(f"{versions}: run 'parapet hits' again (it costs nothing)", folder)
    sandbox = options.get("sandbox", False)
    if endpoint in (PRODUCTION, SANDBOX) and sandbox is not (endpoint == SANDBOX):
        place, flag = ("the sandbox", "without") if sandbox else ("production", "with")
        reason = f"the forms on these pages are sent to {place}: run 'parapet hits' again, {flag} --sandbox"
        raise InputError(reason, folder)
    return options


def _hits(folder: str, records: Sequence[PageRecord]) -> list[Hit]:
    if not records:
        raise InputError("contains no HIT to publish", folder)
    if not all(record.reward.is_finite() for record in records):
        raise InputError("has a reward that is not an amount: run 'parapet hits' again", folder)
    return [Hit(record, folder, fee_for(record.reward, record.assignments)) for record in records]


def unpublished(batch: Batch, hits: Sequence[Hit]) -> list[Hit]:
    """Returns the HITs that are not published yet.

    Raises:
      InputError: a task is already published with another page or other terms; its workers would be asked twice.
    """
    waiting = [hit for hit in hits if hit.key not in batch.journal.done]
    keys = {hit.key for hit in hits}
    others = [
        (facts["task_id"], facts["part"])
        for key, facts in [*batch.journal.done.items(), *batch.journal.open.items()]
        if key.startswith("hit:") and key not in keys and not facts["round"]
    ]
    for hit in waiting:
        if not hit.round and (hit.record.task_id, hit.record.part) in others:
            raise InputError(
                "this task is published already with another page, reward or number of workers: use 'parapet mturk "
                "topup' to ask for missing answers, or start another batch",
                hit.record.task_id,
            )
    return waiting


def publish(batch: Batch, hits: Sequence[Hit], progress: Progress | None = None) -> Failures:
    """Publishes HITs, whose qualification types exist, and returns what MTurk refused.

    Args:
      batch: the open batch.
      hits: the result of :func:`unpublished`.
      progress: called with the number of HITs.

    Raises:
      InputError: further calls would fail, too; fix the problem and run it again.
    """
    by_key = {hit.key: hit for hit in hits}

    def create(call: Call) -> dict[str, Any]:
        # Questions are read one at a time, to keep thousands of pages out of memory.
        return _facts(batch.client.create_hit(**call.arguments, Question=by_key[call.key].question())["HIT"])

    if failures := perform(batch, [_call(batch, hit) for hit in hits], progress, create):
        adopt(batch, hits)
    return {key: reason for key, reason in failures.items() if key not in batch.journal.done}


def _call(batch: Batch, hit: Hit) -> Call:
    record = hit.record
    arguments = {
        "AutoApprovalDelayInSeconds": record.auto_approval_delay_seconds,
        "AssignmentDurationInSeconds": record.assignment_duration_seconds,
        "Reward": f"{record.reward:f}",
        "Title": record.title,
        "Keywords": record.keywords,
        "Description": record.description,
        "QualificationRequirements": requirements(batch, record.task_id, is_top_up=bool(hit.round)),
        "MaxAssignments": record.assignments,
        "LifetimeInSeconds": record.lifetime_seconds,
        "RequesterAnnotation": record.requester_annotation,
        "UniqueRequestToken": batch.token(hit.key),
    }
    facts = {
        "task_id": record.task_id,
        "part": record.part,
        "round": hit.round,
        "reward": f"{record.reward:f}",
        "fee": f"{hit.fee:f}",
        "assignments": record.assignments,
    }
    return Call(hit.key, "create_hit", arguments, facts)


def _facts(hit: Mapping[str, Any]) -> dict[str, Any]:
    return {"hit_id": hit["HITId"], "expiration": hit["Expiration"].isoformat()}


def adopt(batch: Batch, hits: Iterable[Hit]) -> None:
    """Finds HITs of this batch at MTurk that are missing from its journal.

    An interrupted run may have created them, or the journal is an old copy. Must be called before :func:`publish`,
    since request tokens are only valid for 24 hours. All HITs of a batch require a qualification of its own, by which
    they are listed; annotation and page identify each of them.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    find_types(batch, [KEPT_OUT])
    if not (type_id := type_ids(batch).get(KEPT_OUT)):
        return
    known = batch.hits()
    waiting = {(hit.record.task_id, hit.record.sha256): hit for hit in hits if hit.key not in batch.journal.done}
    adopted = 0
    with explaining("list_hits_for_qualification_type"):
        for listed in pages(batch.client.list_hits_for_qualification_type, "HITs", QualificationTypeId=type_id):
            question = (listed.get("Question") or "").encode("utf-8", "replace")
            page = listed.get("RequesterAnnotation", ""), hashlib.sha256(question).hexdigest()
            if listed["HITId"] not in known and page in waiting:
                call = _call(batch, waiting.pop(page))
                batch.journal.write([("done", call.key, call.operation, {**call.facts, **_facts(listed)})])
                adopted += 1
    if adopted:
        logging.info("%d HITs that an interrupted run had created were found again", adopted)


def open_places(batch: Batch, lines: Iterable[Line], now: datetime) -> dict[str, int]:
    """Returns the ids of HITs that are on offer and have open places, with the number of places.

    Args:
      batch: the batch.
      lines: the collected assignments.
      now: with a time zone.
    """
    submitted = Counter(line["HITId"] for line in lines)
    return {
        hit_id: hit.assignments - submitted[hit_id]
        for hit_id, hit in batch.hits().items()
        if not hit.gone and hit.expiration > now and hit.assignments > submitted[hit_id]
    }


def stop(batch: Batch, hit_ids: Iterable[str], now: datetime, progress: Progress | None = None) -> Failures:
    """Withdraws HITs, and returns what MTurk refused. Workers who have accepted one can still submit it.

    Raises:
      InputError: further calls would fail, too.
    """
    # Idempotent, so interrupted calls need no lookup.
    operation, facts = "update_expiration_for_hit", {"expiration": now.isoformat()}
    calls = [Call(f"stop:{each}", operation, {"HITId": each, "ExpireAt": _LONG_AGO}, facts) for each in hit_ids]
    return perform(batch, calls, progress)
