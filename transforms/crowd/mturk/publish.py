"""Publish every HIT of a ``hits`` folder exactly once, even if runs are interrupted.

Also asks for more workers on published HITs if elements need more good answers, and withdraws all HITs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, parapet_version
from parapet.transforms.crowd.hits.page import PageRecord
from parapet.transforms.crowd.hits.plan import MOST, top_up_assignments
from parapet.transforms.crowd.hits.terms import fee_for, up_to_cent
from parapet.transforms.crowd.mturk.batch import Batch, Call, Failure, OutHit, Told, perform
from parapet.transforms.crowd.mturk.client import (
    PRODUCTION,
    SANDBOX,
    code_of,
    explaining,
    in_parallel,
    pages,
)
from parapet.transforms.crowd.mturk.collect import GONE
from parapet.transforms.crowd.mturk.qualifications import KEPT_OUT, done_name, find_types, requirements, sibling_of

_EXISTS = "HitAlreadyExists"
_DUPLICATE = frozenset({"DuplicateRequest", "InvalidMaximumAssignmentsIncrease"})
_HIT_ID = re.compile(r"\b[A-Z0-9]{30}\b")

# A HIT that expires sooner than this is extended by its lifetime.
_SOON = timedelta(days=1)

# Expires a HIT immediately, even if this machine's clock is wrong: MTurk accepts times in the past.
_LONG_AGO = datetime(2015, 1, 1, tzinfo=UTC)


class Hit(msgspec.Struct, frozen=True):
    """A HIT to publish: its record in the manifest, and its cost.

    Attributes:
      fee: MTurk's fee in dollars per assignment, not rounded.
    """

    record: PageRecord
    folder: str
    fee: Decimal

    @property
    def name(self) -> str:
        """Return the task, part and page hash, which identify the HIT across runs."""
        return f"{self.record.task_id}:{self.record.part}:{self.record.sha256[:16]}"

    def key(self, round_: int) -> str:
        """Return the key in the journal for a top-up, or for the first round, 0."""
        return f"hit:{self.name}" + (f":{round_}" if round_ else "")

    @property
    def cost(self) -> Decimal:
        """Return the cost of all assignments in dollars, including fees."""
        assignments = self.record.assignments
        return Decimal(self.record.reward) * assignments + up_to_cent(self.fee * assignments)

    def question(self) -> str:
        """Read the HTMLQuestion. Raises InputError if it differs from the one in the manifest."""
        path = Path(self.folder) / self.record.question
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path) from None
        if hashlib.sha256(data).hexdigest() != self.record.sha256:
            raise InputError("has been changed since 'parapet hits' wrote it: run that command again", path)
        return data.decode("utf-8")


def read_hits(folder: str, endpoint: str, top_up: bool = False) -> list[Hit]:
    """Read the HITs of a folder, in its order.

    Args:
      folder: the output folder of ``parapet hits``.
      endpoint: the address for publishing; the pages must post their forms to the same place.
      top_up: whether the folder must be a top-up.

    Raises:
      InputError: the folder does not exist, was made by another version or for another endpoint, or was changed.
    """
    options = _options(Path(folder) / "run.json")
    if top_up and options.get("only") is None:
        raise InputError("this folder asks for all answers again: make one with 'parapet hits --shortfall'", folder)
    for place, sandbox, advice in ((PRODUCTION, True, "without --sandbox"), (SANDBOX, False, "with --sandbox")):
        if endpoint == place and bool(options.get("sandbox")) is sandbox:
            where = "the sandbox" if sandbox else "production"
            raise InputError(
                f"the forms on these pages are sent to {where}: run 'parapet hits' again, {advice}", folder
            )
    path = Path(folder) / "manifest.jsonl"
    try:
        records = [msgspec.json.decode(line, type=PageRecord) for line in path.read_bytes().splitlines()]
        hits = [Hit(record, folder, fee_for(Decimal(record.reward), record.assignments)) for record in records]
    except (OSError, ArithmeticError, msgspec.MsgspecError) as error:
        raise InputError(f"cannot be read: {error}; run 'parapet hits' again", path) from None
    if not records:
        raise InputError("contains no HIT", path)
    return hits


def _options(path: Path) -> dict[str, Any]:
    try:
        run = json.loads(path.read_bytes())
        version, pipeline, options = str(run["version"]), run["pipeline"], dict(run.get("options", {}))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError("not a complete output of 'parapet hits': it has no run.json", path.parent) from None
    if pipeline != "hits":
        raise InputError(f"was made by 'parapet {pipeline}', not by 'parapet hits'", path.parent)
    if version != parapet_version():
        raise InputError(
            f"was made by Parapet {version}, but this is version {parapet_version()}: run 'parapet hits' "
            "again (it costs nothing)",
            path.parent,
        )
    return options


def round_of(batch: Batch, hits: Sequence[Hit]) -> int:
    """Return the number of a folder's top-up, which the journal keeps, so that it is the same on every run."""
    digest = hashlib.sha256(" ".join(hit.name for hit in hits).encode()).hexdigest()[:16]
    known = batch.journal.with_prefix("round")
    if digest not in known:
        batch.journal.write([("noted", f"round:{digest}", "", {"round": len(known) + 1})])
    return int(batch.journal.done[f"round:{digest}"]["round"])


def unpublished(batch: Batch, hits: Sequence[Hit], round_: int = 0) -> list[Hit]:
    """Return the HITs that are not published yet.

    Raises:
      InputError: a task is already published with another page or part; its workers would be asked twice.
    """
    for hit in hits:
        done = batch.journal.done.get(hit.key(round_))
        if done and (done["reward"], done["assignments"]) != (hit.record.reward, hit.record.assignments):
            raise InputError(
                f"this task is published already for ${done['reward']} and {done['assignments']} workers, "
                f"but this folder says ${hit.record.reward} and {hit.record.assignments}: start another "
                "batch for it",
                hit.record.task_id,
            )
    waiting = [hit for hit in hits if hit.key(round_) not in batch.journal.done]
    out = {(hit.task_id, hit.part) for hit in batch.hits().values() if hit.round == round_}
    ours = {hit.key(round_) for hit in waiting}
    begun = batch.journal.open.items()
    out |= {(facts["task_id"], facts["part"]) for key, facts in begun if key.startswith("hit:") and key not in ours}
    for hit in waiting:
        if round_ == 0 and (hit.record.task_id, hit.record.part) in out:
            raise InputError(
                "this task is published already with another page: use 'parapet mturk topup' to ask for "
                "missing answers, or start another batch",
                hit.record.task_id,
            )
    return waiting


def cost_of(hits: Iterable[Hit]) -> Decimal:
    """Return the cost of all assignments in dollars, including fees."""
    return sum((hit.cost for hit in hits), Decimal(0))


def publish(
    batch: Batch, hits: Sequence[Hit], types: Mapping[str, str], round_: int = 0, told: Told | None = None
) -> list[Failure]:
    """Publish HITs, and return what MTurk refused.

    Args:
      batch: the open batch.
      hits: the result of :func:`unpublished`.
      types: name to id of the batch's qualifications, see :func:`type_names`.
      round_: 0 for the first round, else the number of the top-up.
      told: called with the number done.

    Raises:
      InputError: further calls would fail, too; fix the problem and run it again.
    """
    client = batch.client
    hit_types = _hit_types(batch, hits, types, round_)
    by_key = {hit.key(round_): hit for hit in hits}

    def create(call: Call) -> dict[str, Any]:
        # Questions are read one at a time, to keep thousands of pages out of memory.
        arguments = {**call.arguments, "Question": by_key[call.key].question()}
        try:
            hit = client.create_hit_with_hit_type(**arguments)["HIT"]
        except Exception as error:
            # The connection broke after an earlier attempt succeeded; for 24 h MTurk recognises the token.
            if code_of(error) != _EXISTS or (existing := _existing(client, error, call)) is None:
                raise
            hit = existing
        return _facts(hit)

    calls = [_call(batch, hit, hit_type, round_) for hit, hit_type in zip(hits, hit_types, strict=True)]
    return perform(batch, calls, told, do=create)


def type_names(hits: Iterable[Hit], round_: int) -> list[str]:
    """Return the qualification types of HITs, for :func:`parapet.transforms.crowd.mturk.qualifications.make_types`."""
    names = [KEPT_OUT]
    for hit in hits:
        if sibling := sibling_of(hit.record.task_id):
            names += [done_name(sibling), done_name(hit.record.task_id)]
        elif round_:
            names.append(done_name(hit.record.task_id))
    return names


def _hit_types(batch: Batch, hits: Sequence[Hit], types: Mapping[str, str], round_: int) -> list[str]:
    """Return the HIT type of each HIT. Creating an existing type returns the same id and costs nothing."""
    properties: dict[bytes, dict[str, Any]] = {}
    digests = []
    for record in (hit.record for hit in hits):
        wanted = {
            "AutoApprovalDelayInSeconds": record.auto_approval_delay_seconds,
            "AssignmentDurationInSeconds": record.assignment_duration_seconds,
            "Reward": record.reward,
            "Title": record.title,
            "Keywords": record.keywords,
            "Description": record.description,
            "QualificationRequirements": requirements(batch, record.task_id, types, top_up=round_ > 0),
        }
        digests.append(msgspec.json.encode(wanted))
        properties[digests[-1]] = wanted
    create = batch.client.create_hit_type
    ids = in_parallel(lambda each: str(create(**each)["HITTypeId"]), list(properties.values()), batch.parallel)
    by_digest = dict(zip(properties, ids, strict=True))
    return [by_digest[digest] for digest in digests]


def _call(batch: Batch, hit: Hit, hit_type: str, round_: int) -> Call:
    record, key = hit.record, hit.key(round_)
    arguments = {
        "HITTypeId": hit_type,
        "MaxAssignments": record.assignments,
        "LifetimeInSeconds": record.lifetime_seconds,
        "RequesterAnnotation": record.requester_annotation,
        "UniqueRequestToken": batch.token(key),
    }
    facts = {
        "task_id": record.task_id,
        "part": record.part,
        "round": round_,
        "fields": record.fields,
        "question_sha256": record.sha256,
        "hit_type_id": hit_type,
        "reward": record.reward,
        "fee": f"{hit.fee:f}",
        "assignments": record.assignments,
        "lifetime_seconds": record.lifetime_seconds,
    }
    return Call(key, "create_hit_with_hit_type", arguments, facts)


def _facts(hit: dict[str, Any]) -> dict[str, Any]:
    return {"hit_id": hit["HITId"], "expiration": hit["Expiration"].isoformat()}


def _existing(client: Any, error: Exception, call: Call) -> dict[str, Any] | None:
    """Return the HIT that was created with a used token, if it is the same HIT."""
    from botocore.exceptions import ClientError

    message = str(getattr(error, "response", {}).get("Error", {}).get("Message", ""))
    for hit_id in _HIT_ID.findall(message):
        try:
            hit: dict[str, Any] = client.get_hit(HITId=hit_id)["HIT"]
        except ClientError:
            continue
        if _page(hit) == (call.arguments["RequesterAnnotation"], call.facts["question_sha256"]):
            return hit
    return None


def _page(hit: Mapping[str, Any]) -> tuple[str, str]:
    """Return a HIT's annotation and the digest of its page, which identify it."""
    question = (hit.get("Question") or "").encode("utf-8", "replace")
    return hit.get("RequesterAnnotation", ""), hashlib.sha256(question).hexdigest()


def adopt(batch: Batch, hits: Iterable[Hit], round_: int = 0) -> None:
    """Find HITs of this batch at MTurk that are missing from its journal.

    An interrupted run may have created them, or the journal is an old copy. Must be called before :func:`publish`,
    since request tokens are only valid for 24 hours. All HITs of a batch require a qualification of its own, by which
    they are listed; annotation and page identify each of them. A HIT with more assignments than in the journal was
    topped up.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    own_type = batch.journal.done.get(f"type:{KEPT_OUT}") or {}
    type_id = own_type.get("id") or find_types(batch, [KEPT_OUT]).get(KEPT_OUT)
    if not type_id:
        return
    known, again = batch.hits(), 0
    waiting = {
        (hit.record.task_id, hit.record.sha256): hit for hit in hits if hit.key(round_) not in batch.journal.done
    }
    with explaining("list_hits_for_qualification_type"):
        for hit_here in pages(batch.client.list_hits_for_qualification_type, "HITs", QualificationTypeId=type_id):
            hit_id = hit_here["HITId"]
            hit = None if hit_id in known else waiting.pop(_page(hit_here), None)
            wanted = known[hit_id].wanted if hit_id in known else hit.record.assignments if hit else None
            if hit is not None:
                call = _call(batch, hit, hit_here["HITTypeId"], round_)
                batch.journal.write([("done", call.key, "list_hits", {**call.facts, **_facts(hit_here)})])
                again += 1
            if wanted is not None and hit_here["MaxAssignments"] > wanted:
                more = {"hit_id": hit_id, "to": hit_here["MaxAssignments"]}
                batch.journal.write([("done", f"add:found:{hit_id}", "list_hits", more)])
    if again:
        logging.info("%d HITs that an interrupted run had created were found again", again)


class Addition(msgspec.Struct, frozen=True):
    """More workers for one HIT.

    Attributes:
      workers: the number of additional workers.
      reopen: whether its lifetime must be extended.
    """

    hit: OutHit
    workers: int
    reopen: bool

    @property
    def cost(self) -> Decimal:
        """Return the cost in dollars, including fees."""
        return self.hit.reward * self.workers + up_to_cent(self.hit.fee * self.workers)


def shortfall_digest(path: str) -> str:
    """Return the digest of a shortfall file, which is used for one top-up only."""
    # With the manifest beside it: the same elements may be short again after other answers have come in.
    beside = Path(path).with_name("run.json")
    data = Path(path).read_bytes() + (beside.read_bytes() if beside.exists() else b"")
    return hashlib.sha256(data).hexdigest()[:16]


def plan_top_up(
    batch: Batch, digest: str, lacks: Mapping[tuple[str, str], int], submitted: Mapping[str, int], now: datetime
) -> tuple[list[Addition], list[str], list[str]]:
    """Plan how many more workers each HIT needs.

    Args:
      batch: the open batch.
      digest: of the shortfall file. ``lacks`` has its content.
      submitted: HIT id to assignments collected.
      now: with a time zone.

    Returns:
      The additions; the task ids whose HITs would exceed nine assignments, so that they need new HITs; and the task ids
        without a HIT in the batch.
    """
    asking: dict[tuple[str, str], list[OutHit]] = {}
    for hit in batch.hits().values():
        for field in () if hit.gone else hit.fields:
            asking.setdefault((hit.task_id, field), []).append(hit)
    need: Counter[OutHit] = Counter()
    for element, missing in lacks.items():
        if element in asking:
            roomiest = min(asking[element], key=lambda hit: hit.wanted)
            need[roomiest] = max(need[roomiest], top_up_assignments(missing))
    additions, full = [], set()
    for hit, workers in need.items():
        if f"add:{digest}:{hit.hit_id}" in batch.journal.done:
            continue
        still_out = max(0, hit.wanted - submitted.get(hit.hit_id, 0))  # places that are still open
        room = MOST - hit.wanted if hit.assignments <= MOST else workers
        more = max(0, min(workers - still_out, room))
        if more < workers - still_out:
            full.add(hit.task_id)
        reopen = hit.expiration < now + _SOON and more + still_out > 0
        if more or reopen:
            additions.append(Addition(hit, more, reopen))
    asked_tasks = {task_id for task_id, _ in lacks.keys() & asking.keys()}
    return additions, sorted(full), sorted({task_id for task_id, _ in lacks} - asked_tasks)


def top_up(
    batch: Batch, additions: Sequence[Addition], digest: str, now: datetime, told: Told | None = None
) -> list[Failure]:
    """Ask for more workers, extend expired HITs, and return what MTurk refused.

    Raises:
      InputError: further calls would fail, too; fix the problem and run it again.
    """
    client = batch.client

    def is_prolonged(call: Call, _: str) -> bool:
        # MTurk refuses to set the same expiration twice.
        hit = client.get_hit(HITId=call.arguments["HITId"])["HIT"]
        return bool(abs(hit["Expiration"] - call.arguments["ExpireAt"]) <= timedelta(seconds=2))

    def is_added(call: Call, code: str) -> bool:
        return code in _DUPLICATE and _size(client, call.arguments["HITId"]) >= call.facts["to"]

    prolongings, adding = [], []
    for addition in additions:
        hit_id = addition.hit.hit_id
        key = f"prolong:{digest}:{hit_id}"
        if addition.reopen and key not in batch.journal.done:
            end = now + timedelta(seconds=addition.hit.lifetime_seconds)
            prolongings.append(_expire(key, hit_id, end, end))
        key = f"add:{digest}:{hit_id}"
        if addition.workers:
            arguments = {
                "HITId": hit_id,
                "NumberOfAdditionalAssignments": addition.workers,
                "UniqueRequestToken": batch.token(key),
            }
            facts = {"hit_id": hit_id, "to": addition.hit.wanted + addition.workers, "workers": addition.workers}
            adding.append(Call(key, "create_additional_assignments_for_hit", arguments, facts))
    return perform(batch, prolongings, is_done=is_prolonged) + perform(batch, adding, told, is_added)


def _expire(key: str, hit_id: str, at: datetime, ends: datetime) -> Call:
    """Return a call that makes a HIT expire at ``at``, recorded in the journal as ``ends``."""
    facts = {"hit_id": hit_id, "expiration": ends.isoformat()}
    return Call(key, "update_expiration_for_hit", {"HITId": hit_id, "ExpireAt": at}, facts)


def look_up(batch: Batch) -> None:
    """Look up the outcome of interrupted calls for more workers. Must be called before planning.

    Request tokens are only valid for a day, and the plan may have changed.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    hits = batch.hits()
    for key, facts in list(batch.journal.open.items()):
        if not key.startswith("add:") or hits[facts["hit_id"]].gone:
            continue
        with explaining("get_hit"):
            try:
                size = _size(batch.client, facts["hit_id"])
            except Exception as error:
                if code_of(error) != GONE:
                    raise
                continue
        if size >= facts["to"]:
            batch.journal.write([("done", key, "get_hit", {"to": size})])


def _size(client: Any, hit_id: str) -> int:
    return int(client.get_hit(HITId=hit_id)["HIT"]["MaxAssignments"])


def open_hits(batch: Batch, submitted: Mapping[str, int], now: datetime) -> list[str]:
    """Return the ids of HITs that are available and have open places.

    Args:
      batch: the batch.
      submitted: HIT id to assignments collected.
      now: with a time zone.
    """
    return [
        hit_id
        for hit_id, hit in batch.hits().items()
        if not hit.gone and hit.expiration > now and hit.wanted > submitted.get(hit_id, 0)
    ]


def stop(batch: Batch, hit_ids: list[str], now: datetime, told: Told | None = None) -> list[Failure]:
    """Withdraw HITs, and return what MTurk refused. Workers who have accepted one can still submit it.

    Raises:
      InputError: further calls would fail, too.
    """
    # Idempotent, so interrupted calls need no lookup.
    calls = [_expire(f"prolong:stop:{hit_id}", hit_id, _LONG_AGO, now) for hit_id in hit_ids]
    return perform(batch, calls, told)
