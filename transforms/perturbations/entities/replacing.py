"""Replace the values of one dialogue: choose new ones, write them to utterances and frames, and check the result."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, is_marker
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.edits import Edit, move_spans
from parapet.transforms.perturbations.entities import forms
from parapet.transforms.perturbations.entities.choosing import Chooser, Sources, leaks
from parapet.transforms.perturbations.entities.kinds import KINDS, OTHER, SlotKind
from parapet.transforms.perturbations.entities.mentions import (
    DialogueValues,
    Group,
    Kinds,
    Mention,
    Slot,
    Table,
    find_values,
    keep_unclear,
    reason_of,
)
from parapet.transforms.perturbations.entities.names import in_case_of
from parapet.transforms.perturbations.entities.words import Training, folded, located_words

# before a value, with blanks and opening marks between
_ARTICLE = re.compile(r"(?<![^\W_])(an?|the)\s+([\"'“‘(]?)\Z", re.IGNORECASE)
# the last words of names that have no article
_BARE = ("apartments", "beach", "commons", "court", "heights", "junction", "park", "plaza", "square", "village")
_POSSESSIVE = re.compile(r"\w+(?:'s|s') ")
# behind a town that was replaced
_REGION = re.compile(
    r",? (?:(?-i:(?<=, )[A-Z]{2})|england|uk|united kingdom|france|canada|ontario|australia|india|mexico|kenya|germany)"
    r"(?![\w'’])",
    re.IGNORECASE,
)
_VOWEL = re.compile(r"[aeiouáéíóúàèìòùâêîôûäëïöü]|8|11(?!\d)|18(?!\d)|hour|hono|honest|heir", re.IGNORECASE)
_CONSONANT = re.compile(r"(?:uni(?!m|n)|us[aeu]|util|utop|ukrai|urug|eu|ewe|one\b|once\b|ouija)", re.IGNORECASE)


def article_of(text: str) -> str:
    """Return the article before a text: ``a`` or ``an``."""
    start = text.lstrip("\"'“‘($#")
    if _CONSONANT.match(start):
        return "a"
    return "an" if _VOWEL.match(start) else "a"


def edits_of(utterance: str, mentions: Sequence[Mention]) -> list[Edit]:
    """Return the edits that replace the mentions of groups with a replacement, in order.

    Args:
      utterance: the utterance.
      mentions: the values in it, in order; kept groups produce no edits.

    Raises:
      InputError: values overlap.
    """
    edits: list[Edit] = []
    free = 0  # the text before this position belongs to another mention
    for mention, behind in itertools.zip_longest(mentions, mentions[1:]):
        new = text_for(mention)
        if new is None:
            free = max(free, mention.end)
            continue
        if mention.start < free:
            raise InputError(f"overlapping: {mention.text!r} occurs inside another value")
        if new != mention.text:
            edits += _around(utterance, mention, new, free)
            edits.append(Edit(mention.start, mention.end, new))
            region = _REGION.match(utterance, mention.end) if mention.group and mention.group.kind == "city" else None
            if region and (behind is None or behind.start >= region.end()):
                edits.append(Edit(mention.end, region.end(), ""))
        free = mention.end
    return edits


def text_for(mention: Mention) -> str | None:
    """Return the replacement of a mention, in its case; None if it is kept."""
    group = mention.group
    if group is None or group.reason or not group.replacement:
        return None
    shown = group.shown.get(mention.text)
    return in_case_of(group.shown[mention.like], mention.text) if shown is None else shown


def _around(utterance: str, mention: Mention, new: str, free: int) -> list[Edit]:
    """Return the edit of an article before a value: "a" or "an" by the new value, and no "the" before "Hyde Park"."""
    article = _ARTICLE.search(utterance, free, mention.start)
    if article is None:
        return []
    old, place = article[1], article.start()
    if old == "the":
        name = mention.group is not None and mention.group.kind in ("business", "place")
        bare = name and (new.rpartition(" ")[2].casefold() in _BARE or _POSSESSIVE.match(new))
        return [Edit(place, article.end() - len(article[2]), "")] if bare else []
    wanted = article_of(new)
    # In "a 11:45 am", "a" is not an article but a misspelled "at".
    if old[0] not in "aA" or wanted == old.casefold() or article_of(mention.text) != old.casefold():
        return []
    return [Edit(place, place + len(old), wanted.capitalize() if old[0] == "A" else wanted)]


def check_replaced(
    raw: dict[str, Any],
    changed: Iterable[int],
    found: DialogueValues,
    mentions: Sequence[Sequence[Mention]],
    table: Table,
) -> None:
    """Check the spans of changed turns, and that no old value is left in them.

    Args:
      raw: the changed dialogue in the format of its file.
      changed: the positions of turns with changed utterances.
      found: its values.
      mentions: for each turn, the values in its utterance.
      table: the table with which they were found.

    Raises:
      InputError: a check fails.
    """
    new: dict[Slot, set[str]] = {}
    for group in found.groups:
        texts = {folded(text) for text in group.shown.values()}
        for slot in group.slots if texts else ():
            new.setdefault(slot, set()).update(texts)
    for position in changed:
        utterance = raw["turns"][position]["utterance"]
        for frame in raw["turns"][position]["frames"]:
            for span in frame.get("slots") or ():
                if isinstance(span.get("start"), int) and isinstance(span.get("exclusive_end"), int):
                    text = utterance[span["start"] : span["exclusive_end"]]
                    slot = (frame["service"], span["slot"])
                    values = new.get(slot, set()) | found.values.get(slot, set())
                    if values.isdisjoint((folded(text), text.casefold())):
                        reason = f"bad_span: {text!r} is not a value of {span['slot']!r} after the replacement"
                        raise InputError(reason, "", f"turns[{position}]")
        for mention in table.unmarked(utterance, located_words(utterance)):
            if mention.group and mention.like in mention.group.shown and not _inside_kept(mention, mentions[position]):
                reason = f"left_behind: {mention.text!r} still occurs in the dialogue"
                raise InputError(reason, "", f"turns[{position}]")


def _inside_kept(mention: Mention, of_turn: Sequence[Mention]) -> bool:
    """Whether it is part of a kept value, as the city in the name of a station."""
    return any(
        (other.group is None or not other.group.replacement) and mention.text.casefold() in other.text.casefold()
        for other in of_turn
    )


# Where values occur: utterances, spans, and the parts of frames.
_VALUE_KEYS = ("values", "canonical_values")
PLACES = ("utterances", "spans", "state", "actions", "service_call", "results")


class Replacer(msgspec.Struct, frozen=True):
    """The data for replacing values, shared by all dialogues.

    Attributes:
      kinds: the kind of each slot.
      sources: the sources of new values.
      training: the n-grams of training.
      leaking: the number of a gazetteer's values dropped because they occur in training.
    """

    kinds: dict[Slot, SlotKind]
    sources: Sources
    training: Training
    leaking: int = 0

    def numbers(self) -> dict[str, Any]:
        """Return entries of ``statistics.json``."""
        return {
            "training": {"grams": len(self.training.grams)},
            "pools": {name: len(pool) for name, pool in sorted((self.sources.pools or {}).items())},
            "leaking_candidates": self.leaking,
        }


class Replaced(msgspec.Struct):
    """A dialogue with replaced values.

    Attributes:
      dialogue: the dialogue in the format of its file.
      rows: a row for every value of every slot, see ``parapet.schemas.rows``.
      changed: (position, edits) of each turn with a changed utterance.
      open: whether any value is of a slot whose values may be replaced.
      leaks: the number of new values that occur in training, which the run asserts to be 0.
    """

    dialogue: dict[str, Any]
    rows: list[dict[str, Any]]
    changed: list[tuple[int, list[Edit]]]
    open: bool
    leaks: int


def replaced(raw: dict[str, Any], dialogue: Dialogue, replacer: Replacer) -> Replaced:
    """Replace the values of one dialogue.

    Args:
      raw: the dialogue in the format of its file; it is not modified.
      dialogue: the same dialogue, typed.
      replacer: the data for replacing values.

    Raises:
      InputError: the dialogue cannot be made consistent and must not be used.
    """
    values = find_values(dialogue, replacer.kinds)
    mentions, table = keep_unclear(dialogue, values)
    Chooser(dialogue.dialogue_id, values, replacer.kinds, replacer.sources, replacer.training).choose()
    copy = _copied(raw)
    shown = {surface: group for group in values.groups if group.replacement for surface in group.surfaces}
    counts: Counter[tuple[str, Slot, str]] = Counter()
    changed = []
    for position, (turn, of_turn) in enumerate(zip(copy["turns"], mentions, strict=True)):
        edits = edits_of(turn["utterance"], of_turn)
        if edits and (torn := move_spans(turn, edits)):
            reason = f"torn_span: the span of {torn[0]!r} ends inside the replaced text"
            raise InputError(reason, "", f"turns[{position}]")
        if edits:
            changed.append((position, edits))
        for mention in of_turn:
            if mention.group and text_for(mention) not in (None, mention.text):
                for slot in mention.slots or mention.group.slots[:1]:
                    counts[mention.group.key, slot, "utterances"] += 1
                    counts[mention.group.key, slot, "spans"] += bool(mention.slots)
        for frame in turn["frames"]:
            _write_frame(frame, shown, replacer.kinds, counts)
    check_replaced(copy, [position for position, _ in changed], values, mentions, table)
    leaking = sum(
        leaks(replacer.training, group.kind, text)
        for group in values.groups
        for text in {group.replacement, *group.shown.values()} - {""}
        if not (group.kind == "date" and forms.is_relative(text))
    )
    rows = list(_rows(dialogue.dialogue_id, values, counts, replacer.kinds))
    return Replaced(copy, rows, changed, bool(values.groups), leaking)


def _copied(raw: dict[str, Any]) -> dict[str, Any]:
    """Copy all parts of a dialogue that may be modified."""
    turns = [{**turn, "frames": [_copied_frame(frame) for frame in turn["frames"]]} for turn in raw["turns"]]
    return {**raw, "turns": turns}


def _copied_frame(frame: dict[str, Any]) -> dict[str, Any]:
    copy = dict(frame)
    for key in ("slots", "actions", "service_results"):
        if frame.get(key):
            copy[key] = [dict(item) for item in frame[key]]
    for key, values in (("state", "slot_values"), ("service_call", "parameters")):
        if frame.get(key):
            copy[key] = dict(frame[key])
            if values in copy[key]:
                copy[key][values] = dict(copy[key][values])
    return copy


def _write_frame(
    frame: dict[str, Any], shown: Mapping[str, Group], kinds: Kinds, counts: Counter[tuple[str, Slot, str]]
) -> None:
    """Replace the values of a frame in place.

    Args:
      frame: the frame in the format of its file.
      shown: each form of each replaced value to its group.
      kinds: the kinds of slots; the values of some are kept.
      counts: the counts by (group, slot, place), which are increased.
    """
    service = frame["service"]
    for name, place, holder, key in _value_places(frame):
        slot, value = (service, name), holder[key]
        if slot not in kinds or kinds[slot].kind not in KINDS:
            continue
        texts = [value] if isinstance(value, str) else value
        new = []
        for text in texts:
            group = shown.get(text)
            new.append(group.shown[text] if group else text)
            if group:
                counts[group.key, slot, place] += 1
        # variants of a value may get the same replacement; the values of an action belong to its canonical values
        holder[key] = new[0] if isinstance(value, str) else new if place == "actions" else list(dict.fromkeys(new))


def _value_places(frame: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield the places of values: the slot, its name for counts, and the object and key that have one or several."""
    for action in frame.get("actions") or ():
        if action["slot"] and not is_marker(action["act"], action["slot"]):
            yield from ((action["slot"], "actions", action, key) for key in _VALUE_KEYS if key in action)
    state = (frame.get("state") or {}).get("slot_values") or {}
    yield from ((slot, "state", state, slot) for slot in state)
    parameters = (frame.get("service_call") or {}).get("parameters") or {}
    yield from ((slot, "service_call", parameters, slot) for slot in parameters)
    for result in frame.get("service_results") or ():
        yield from ((slot, "results", result, slot) for slot in result)
    yield from ((span["slot"], "spans", span, "value") for span in frame.get("slots") or () if span.get("value"))


def _rows(
    dialogue_id: str, found: DialogueValues, counts: Counter[tuple[str, Slot, str]], kinds: Kinds
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
    # The forms other than the canonical one, unless it is the only one.
    spoken = [text for text in group.surfaces if text != group.canonical] or [group.canonical]
    return {
        "dialogue_id": dialogue_id,
        "service": slot[0],
        "slot": slot[1],
        "kind": group.kind,
        "status": "replaced" if group.replacement else "kept",
        "reason": group.reason,
        "value": spoken,
        "replacement": list(dict.fromkeys(group.shown[text] for text in spoken)) if group.replacement else [],
        "canonical": group.canonical,
        "canonical_replacement": group.replacement,
        # dates without a month are as common in training as before
        "unseen": bool(group.replacement) and not (group.kind == "date" and any(map(forms.is_relative, spoken))),
        **places,
    }
