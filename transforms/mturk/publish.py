"""Publishing: every HIT of a ``hits`` folder exactly once, whatever is cut off in between."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.mturk.answers import UnusableAnswer, pages
from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, Failure, Told, in_parallel, perform
from parapet.transforms.mturk.client import code_of, explaining
from parapet.transforms.mturk.hits_folder import Hit
from parapet.transforms.mturk.qualifications import (
    KEPT_OUT,
    done_name,
    find_types,
    requirements,
    sibling_of,
)

EXISTS = "HitAlreadyExists"


class Published(msgspec.Struct, frozen=True):
    """What a run of ``publish`` did.

    Attributes:
      made: HITs that exist since this run.
      before: HITs that an earlier run had made.
      failures: what MTurk refused.
    """

    made: int
    before: int
    failures: list[Failure]


def round_of(batch: Batch, hits: Sequence[Hit]) -> int:
    """The number of the top-up that a folder makes: the same on every run. Kept in the journal from the first on."""
    digest = hashlib.sha256(" ".join(hit.key for hit in hits).encode()).hexdigest()[:16]
    known = batch.journal.with_prefix("round")
    if digest not in known:
        batch.journal.write([("noted", f"round:{digest}", "", {"round": len(known) + 1})])
    return int(batch.journal.done[f"round:{digest}"]["round"])


def unpublished(batch: Batch, hits: Sequence[Hit], round_: int = 0) -> list[Hit]:
    """Those that are not out yet.

    Raises:
      InputError: a task is out already with another page (or part of one): its workers would be asked twice.
    """
    key_of = _key_of(round_)
    for hit in hits:
        done = batch.journal.done.get(key_of(hit))
        if done and (done["reward"], done["assignments"]) != (hit.record.reward, hit.record.assignments):
            raise InputError(
                f"this task is out already for ${done['reward']} and {done['assignments']} workers, and this folder "
                f"says ${hit.record.reward} and {hit.record.assignments}: begin another batch for that",
                hit.record.task_id,
            )
    waiting = [hit for hit in hits if key_of(hit) not in batch.journal.done]
    out = {(hit.task_id, hit.part) for hit in batch.hits().values() if hit.round == round_}
    ours = {key_of(hit) for hit in waiting}
    begun = batch.journal.open.items()
    out |= {(facts["task_id"], facts["part"]) for key, facts in begun if key.startswith("hit:") and key not in ours}
    for hit in waiting:
        if round_ == 0 and (hit.record.task_id, hit.record.part) in out:
            raise InputError(
                "this task is out already with another page: to ask for what is missing use 'parapet mturk topup', "
                "for another try begin another batch",
                hit.record.task_id,
            )
    return waiting


def cost_of(hits: Iterable[Hit]) -> Decimal:
    """Dollars for all assignments, fees included."""
    return sum((hit.cost for hit in hits), Decimal(0))


def publish(
    client: Any,
    batch: Batch,
    hits: Sequence[Hit],
    types: Mapping[str, str],
    round_: int = 0,
    parallel: int = 1,
    told: Told | None = None,
) -> Published:
    """Publishes what is not out yet.

    Args:
      client: boto3's.
      batch: the open batch.
      hits: of :func:`parapet.transforms.mturk.hits_folder.read_hits`.
      types: name to id of the batch's qualifications, see :func:`type_names`.
      round_: 0 for the first, then the number of the top-up.
      parallel: calls under way at a time.
      told: called with the number done.

    Raises:
      InputError: no further call can go well; run it again when that is mended.
    """
    key_of = _key_of(round_)
    waiting = [hit for hit in hits if key_of(hit) not in batch.journal.done]
    before = len(hits) - len(waiting)
    hit_types = _hit_types(client, batch, waiting, types, round_, parallel)

    task_of = {hit_id: hit.task_id for hit_id, hit in batch.hits().items()}

    def create(call: Call) -> dict[str, Any]:
        arguments = {**call.arguments, "Question": questions[call.key].question()}
        try:
            hit = client.create_hit_with_hit_type(**arguments)["HIT"]
        except Exception as error:
            # The connection broke after an earlier attempt had gone through; within 24 h the token tells.
            if code_of(error) != EXISTS or (found := _existing(client, error, call)) is None:
                raise
            hit = found
        if task_of.setdefault(hit["HITId"], call.key) != call.key:
            raise UnusableAnswer(f"MTurk gave {hit['HITId']} for another HIT as well", "CreateHITWithHITType")
        return _facts_of(hit)

    questions = {key_of(hit): hit for hit in waiting}
    calls = [_call(batch, key_of(hit), hit, hit_types[key_of(hit)], round_) for hit in waiting]
    failures = perform(batch.journal, calls, create, parallel, told)
    return Published(len(hits) - before - len(failures), before, failures)


def _key_of(round_: int) -> Callable[[Hit], str]:
    return lambda hit: f"hit:{hit.key}" + (f":{round_}" if round_ else "")


def type_names(hits: Iterable[Hit], round_: int) -> list[str]:
    """The qualification types that HITs need, for :func:`parapet.transforms.mturk.qualifications.make_types`."""
    names = [KEPT_OUT]
    for hit in hits:
        if sibling := sibling_of(hit.record.task_id):
            names += [done_name(sibling), done_name(hit.record.task_id)]
        elif round_:
            names.append(done_name(hit.record.task_id))
    return names


def _hit_types(
    client: Any, batch: Batch, hits: Sequence[Hit], types: Mapping[str, str], round_: int, parallel: int
) -> dict[str, str]:
    """Key of each HIT to its HIT type. Making one that is there gives the same id again, and costs nothing."""
    wanted: dict[bytes, dict[str, Any]] = {}
    digest_of: dict[str, bytes] = {}
    for hit in hits:
        record = hit.record
        properties = {
            "AutoApprovalDelayInSeconds": record.auto_approval_delay_seconds,
            "AssignmentDurationInSeconds": record.assignment_duration_seconds,
            "Reward": record.reward,
            "Title": record.title,
            "Keywords": record.keywords,
            "Description": record.description,
            "QualificationRequirements": requirements(batch, record.task_id, types, top_up=round_ > 0),
        }
        digest = msgspec.json.encode(properties)
        wanted[digest] = properties
        digest_of[_key_of(round_)(hit)] = digest
    made = in_parallel(lambda each: client.create_hit_type(**each)["HITTypeId"], list(wanted.values()), parallel)
    ids = dict(zip(wanted, made, strict=True))
    return {key: ids[digest] for key, digest in digest_of.items()}


def _call(batch: Batch, key: str, hit: Hit, hit_type: str, round_: int) -> Call:
    record = hit.record
    # The question is read when its turn comes: thousands of pages are not held in memory.
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


def _facts_of(hit: dict[str, Any]) -> dict[str, Any]:
    return {"hit_id": hit["HITId"], "expiration": hit["Expiration"].isoformat()}


def _existing(client: Any, error: Exception, call: Call) -> dict[str, Any] | None:
    """The HIT that a used token made, if it is the very one."""
    from botocore.exceptions import ClientError

    message = str(getattr(error, "response", {}).get("Error", {}).get("Message", ""))
    for word in message.replace('"', " ").replace(",", " ").replace(".", " ").replace(":", " ").split():
        if len(word) == 30 and word.isalnum() and word.isupper():
            try:
                hit: dict[str, Any] = client.get_hit(HITId=word)["HIT"]
            except ClientError:
                continue
            if _is_it(hit, call.arguments["RequesterAnnotation"], call.facts["question_sha256"]):
                return hit
    return None


def _is_it(hit: dict[str, Any], annotation: str, sha256: str) -> bool:
    return hit.get("RequesterAnnotation") == annotation and _sha256(hit) == sha256


def adopt(client: Any, batch: Batch, hits: Iterable[Hit], round_: int = 0) -> int:
    """Looks at MTurk for HITs of this batch that its journal does not have; gives how many it found.

    A cut-off run may have made them, or the journal is an old copy. To be called before :func:`publish`: a request
    token lives for 24 hours only. All HITs of a batch ask for a qualification of its own, so that those of others are
    not listed; which one a HIT is, its annotation and its very page tell. A HIT that has more assignments than the
    journal knows of was topped up.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    type_id = _own_type(client, batch)
    if not type_id:
        return 0
    known, key_of = batch.hits(), _key_of(round_)
    waiting = {(hit.record.task_id, hit.record.sha256): hit for hit in hits if key_of(hit) not in batch.journal.done}
    found = 0
    with explaining("list_hits_for_qualification_type"):
        for there in pages(client.list_hits_for_qualification_type, "HITs", QualificationTypeId=type_id):
            hit_id, page = there["HITId"], (there.get("RequesterAnnotation", ""), _sha256(there))
            hit = None if hit_id in known else waiting.pop(page, None)
            wanted = known[hit_id].wanted if hit_id in known else hit.record.assignments if hit else None
            if hit is not None:
                key = key_of(hit)
                facts = _call(batch, key, hit, there["HITTypeId"], round_).facts
                batch.journal.write([("done", key, "list_hits", {**facts, **_facts_of(there)})])
                found += 1
            if wanted is not None and there["MaxAssignments"] > wanted:
                more = {"hit_id": hit_id, "to": there["MaxAssignments"]}
                batch.journal.write([("done", f"add:found:{hit_id}", "list_hits", more)])
    if found:
        logging.info("%d HITs that a cut-off run had made were found again", found)
    return found


def _own_type(client: Any, batch: Batch) -> str:
    """The id of the qualification that all HITs of the batch ask for; ``""`` where none was made."""
    facts = batch.journal.done.get(f"type:{KEPT_OUT}") or {}
    return str(facts.get("id") or find_types(client, batch, [KEPT_OUT]).get(KEPT_OUT, ""))


def _sha256(hit: Mapping[str, Any]) -> str:
    return hashlib.sha256((hit.get("Question") or "").encode("utf-8", "replace")).hexdigest()
