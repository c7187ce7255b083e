"""One dialogue with other values: found, chosen, written everywhere, and checked."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, is_marker
from parapet.schemas.errors import InputError
from parapet.transforms.entities.checking import check_replaced
from parapet.transforms.entities.choosing import Chooser, leaks
from parapet.transforms.entities.groups import Found, Group, Kinds, Slot, found_in, reason_of
from parapet.transforms.entities.kinds import CHOICE, OTHER, REPLACED, SlotKind
from parapet.transforms.entities.mentions import Mention, keep_unclear
from parapet.transforms.entities.sources import Sources
from parapet.transforms.entities.training import Training
from parapet.transforms.entities.utterances import edits_of, text_for
from parapet.transforms.perturb.edits import Edit, move_spans

# Where values stand: what is said, spans, and the parts of frames.
PLACES = ("utterances", "spans", "state", "actions", "service_call", "results")


class Replacer(msgspec.Struct, frozen=True):
    """What replaces values: the same for all dialogues.

    Attributes:
      kinds: what each slot has.
      sources: where values come from.
      training: what training has.
    """

    kinds: dict[Slot, SlotKind]
    sources: Sources
    training: Training


class Replaced(msgspec.Struct):
    """A dialogue with other values.

    Attributes:
      dialogue: as it goes into a file.
      rows: a row for every value of every slot, as ``parapet.schemas.replacements`` has it.
      changed: (position, edits) of each turn whose utterance is another.
      open: whether any value could have been replaced, as far as its slot goes.
      leaks: new values that training has; the run asserts that there are none.
    """

    dialogue: dict[str, Any]
    rows: list[dict[str, Any]]
    changed: list[tuple[int, list[Edit]]]
    open: bool
    leaks: int


def replaced(raw: dict[str, Any], dialogue: Dialogue, replacer: Replacer) -> Replaced:
    """Replaces the values of one dialogue.

    Args:
      raw: the dialogue as its file has it; it is left as it is.
      dialogue: the same, typed.
      replacer: how.

    Raises:
      InputError: it cannot be made consistent; nothing of it is to be used.
    """
    found = found_in(dialogue, replacer.kinds)
    mentions, table = keep_unclear(dialogue, found)
    Chooser(dialogue.dialogue_id, found, replacer.kinds, replacer.sources, replacer.training).choose()
    made = _copied(raw)
    counts: Counter[tuple[str, Slot, str]] = Counter()
    changed = []
    for position, (turn, of_turn) in enumerate(zip(made["turns"], mentions, strict=True)):
        edits = edits_of(turn["utterance"], of_turn)
        if write_utterance(turn, edits, position):
            changed.append((position, edits))
        _count_mentions(of_turn, counts)
        _write_frames(turn, found, replacer.kinds, counts)
    check_replaced(dialogue, made, found, mentions, table)
    leaking = sum(
        leaks(replacer.training, group.kind, text)
        for group in found.groups
        if group.kind != CHOICE
        for text in {group.replacement, *group.shown.values()} - {""}
    )
    rows = list(_rows(dialogue.dialogue_id, found, counts, replacer.kinds))
    return Replaced(made, rows, changed, any(group.kind != CHOICE for group in found.groups), leaking)


def _copied(raw: dict[str, Any]) -> dict[str, Any]:
    try:
        made: dict[str, Any] = pickle.loads(pickle.dumps(raw, pickle.HIGHEST_PROTOCOL))  # noqa: S301 (our own; faster than deepcopy)
    except RecursionError:
        raise InputError("not_sgd: nested too deeply") from None
    return made


def write_utterance(turn: dict[str, Any], edits: Sequence[Edit], position: int = 0) -> bool:
    """Writes edits into a turn, in place; gives whether its utterance is another.

    Raises:
      InputError: an edit reaches across the border of a span.
    """
    if not edits:
        return False
    torn = move_spans(turn, edits)
    if torn:
        reason = f"torn_span: the span of {torn[0]!r} ends inside what is replaced"
        raise InputError(reason, "", f"turns[{position}]")
    return True


def _count_mentions(mentions: Sequence[Mention], counts: Counter[tuple[str, Slot, str]]) -> None:
    for mention in mentions:
        if text_for(mention) is None or mention.group is None:
            continue
        for slot in mention.slots or mention.group.slots[:1]:
            counts[mention.group.key, slot, "utterances"] += 1
            counts[mention.group.key, slot, "spans"] += bool(mention.slots)


def _write_frames(turn: dict[str, Any], found: Found, kinds: Kinds, counts: Counter[tuple[str, Slot, str]]) -> None:
    """Replaces the values of a turn's frames in place."""
    of = found.by_surface()

    def new(slot: Slot, value: str, where: str) -> str:
        kind = kinds.get(slot)
        group = of.get(value) if kind is not None and kind.kind in REPLACED else None
        if group is None or not group.replacement:
            return value
        counts[group.key, slot, where] += 1
        return group.shown[value]

    for frame in turn["frames"]:
        service = frame["service"]
        for action in frame.get("actions") or ():
            if action["slot"] and not is_marker(action["act"], action["slot"]):
                for key in ("values", "canonical_values"):
                    if key in action:
                        action[key] = [new((service, action["slot"]), value, "actions") for value in action[key]]
        values = (frame.get("state") or {}).get("slot_values") or {}
        for slot, listed in values.items():
            # Variants of one value may become the same.
            values[slot] = list(dict.fromkeys(new((service, slot), value, "state") for value in listed))
        parameters = (frame.get("service_call") or {}).get("parameters") or {}
        for slot, value in parameters.items():
            parameters[slot] = new((service, slot), value, "service_call")
        for result in frame.get("service_results") or ():
            for slot, value in result.items():
                result[slot] = new((service, slot), value, "results")
        for span in frame.get("slots") or ():
            if isinstance(span.get("value"), str):
                span["value"] = new((service, span["slot"]), span["value"], "spans")
            elif span.get("value"):
                listed = [new((service, span["slot"]), value, "spans") for value in span["value"]]
                span["value"] = list(dict.fromkeys(listed))


def _rows(
    dialogue_id: str, found: Found, counts: Counter[tuple[str, Slot, str]], kinds: Kinds
) -> Iterator[dict[str, Any]]:
    rows = [
        _row(dialogue_id, slot, group, {place: counts[group.key, slot, place] for place in PLACES})
        for group in found.groups
        for slot in group.slots
    ]
    nowhere = dict.fromkeys(PLACES, 0)
    for service, slot, value in found.closed:
        kind = kinds.get((service, slot), SlotKind(OTHER)).kind
        kept = Group(value.casefold(), kind, value, [value], [(service, slot)], reason_of(kind))
        rows.append(_row(dialogue_id, (service, slot), kept, nowhere))
    return iter(sorted(rows, key=lambda row: (row["service"], row["slot"], row["canonical"])))


def _row(dialogue_id: str, slot: Slot, group: Group, places: dict[str, int]) -> dict[str, Any]:
    # What was said is told; where nothing was, the canonical form.
    spoken = [text for text in group.surfaces if text != group.canonical] or [group.canonical]
    return {
        "dialogue_id": dialogue_id,
        "service": slot[0],
        "slot": slot[1],
        "kind": "categorical" if group.kind == CHOICE else group.kind,
        "status": "replaced" if group.replacement else "kept",
        "reason": group.reason,
        "value": spoken,
        "replacement": list(dict.fromkeys(group.shown[text] for text in spoken)) if group.replacement else [],
        "canonical": group.canonical,
        "canonical_replacement": group.replacement,
        "unseen": bool(group.replacement) and group.kind != CHOICE,
        **places,
    }
