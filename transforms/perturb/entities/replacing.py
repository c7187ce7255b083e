"""Replace the values of one dialogue: choose new ones, and write them to utterances and frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, is_marker
from parapet.schemas.errors import InputError
from parapet.transforms.perturb.edits import Edit, move_spans
from parapet.transforms.perturb.entities import forms
from parapet.transforms.perturb.entities.choosing import Chooser, Replacer
from parapet.transforms.perturb.entities.kinds import KINDS
from parapet.transforms.perturb.entities.mentions import Group, Mention, find_mentions, find_values
from parapet.transforms.perturb.entities.names import in_case_of
from parapet.transforms.perturb.entities.words import leaks

# before a value, with blanks and opening marks between
_ARTICLE = re.compile(r"(?<![^\W_])(an?)\s+[\"'“‘(]?\Z", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouáéíóúàèìòùâêîôûäëïöü]|8|11(?!\d)|18(?!\d)|hour|hono|honest|heir", re.IGNORECASE)
_CONSONANT = re.compile(r"(?:uni(?!m|n)|us[aeu]|util|utop|ukrai|urug|eu|ewe|one\b|once\b|ouija)", re.IGNORECASE)


def article_of(text: str) -> str:
    """Return the article before a text: ``a`` or ``an``."""
    start = text.lstrip("\"'“‘($#")
    return "an" if _VOWEL.match(start) and not _CONSONANT.match(start) else "a"


def edits_of(utterance: str, mentions: Sequence[Mention]) -> list[Edit]:
    """Return the edits that replace the mentions of groups with a replacement, and the articles before them, in order.

    Args:
      utterance: the utterance.
      mentions: the values in it, in order; kept groups produce no edits.

    Raises:
      InputError: values overlap.
    """
    edits: list[Edit] = []
    free = 0  # the text before this position belongs to another mention
    for mention in mentions:
        new = _text_for(mention)
        if new != mention.text and mention.start < free:
            raise InputError(f"overlapping: {mention.text!r} occurs inside another value")
        if new != mention.text:
            article = _ARTICLE.search(utterance, free, mention.start)
            wanted = article_of(new)
            # In "a 11:45 am", "a" is not an article but a misspelled "at".
            if article and wanted != article[1].casefold() == article_of(mention.text):
                edits.append(Edit(*article.span(1), wanted.capitalize() if article[1][0] == "A" else wanted))
            edits.append(Edit(mention.start, mention.end, new))
        free = max(free, mention.end)
    return edits


def _text_for(mention: Mention) -> str:
    """Return the replacement of a mention in its case; its own text if it is kept."""
    if mention.group is None or not mention.group.replacement:
        return mention.text
    shown = mention.group.shown
    return shown.get(mention.text) or in_case_of(shown[mention.like], mention.text)


class Replaced(msgspec.Struct):
    """A dialogue with replaced values.

    Attributes:
      dialogue: the dialogue in the format of its file.
      rows: a row for every value of every open slot, see ``parapet.schemas.rows``.
      turns_changed: the number of changed turns.
      leaks: the number of new values that occur in training, which the run asserts to be 0.
    """

    dialogue: dict[str, Any]
    rows: list[dict[str, Any]]
    turns_changed: int
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
    mentions = find_mentions(dialogue, values)
    Chooser(dialogue.dialogue_id, values, replacer).choose()
    new_texts = {old: new for group in values.groups for old, new in group.shown.items()}
    turns, turns_changed = [], 0
    for position, of_turn in enumerate(mentions):
        turn = raw["turns"][position]
        turn = {**turn, "frames": [_new_frame(frame, replacer, new_texts) for frame in turn["frames"]]}
        turns.append(turn)
        if edits := edits_of(turn["utterance"], of_turn):
            if torn := move_spans(turn, edits):
                reason = f"torn_span: the span of {torn[0]!r} ends inside the replaced text"
                raise InputError(reason, "", f"turns[{position}]")
            turns_changed += 1
    leaking = sum(
        leaks(replacer.training, group.kind, text)
        for group in values.groups
        for text in group.shown.values()
        if not (group.kind == "date" and forms.is_relative(text))
    )
    rows = [_row(dialogue.dialogue_id, slot, group) for group in values.groups for slot in group.slots]
    rows.sort(key=lambda row: (row["service"], row["slot"], row["canonical"]))
    return Replaced({**raw, "turns": turns}, rows, turns_changed, leaking)


def _new_frame(frame: dict[str, Any], replacer: Replacer, new_texts: dict[str, str]) -> dict[str, Any]:
    """Return a frame with the new values of its open slots."""

    def new(slot: str, value: Any) -> Any:
        if replacer.kinds.get((frame["service"], slot)) not in KINDS:
            return value
        if isinstance(value, str):
            return new_texts.get(value, value)
        return list(dict.fromkeys(new_texts.get(text, text) for text in value))  # variants may become equal

    copy = dict(frame)
    if frame.get("slots"):
        copy["slots"] = [
            {**span, "value": new(span["slot"], span["value"])} if span.get("value") else dict(span)
            for span in frame["slots"]
        ]
    if frame.get("actions"):
        copy["actions"] = [
            action | {key: [new(action["slot"], text) for text in action[key]] for key in _VALUE_KEYS if key in action}
            if action["slot"] and not is_marker(action["act"], action["slot"])
            else action
            for action in frame["actions"]
        ]
    for key, below in (("state", "slot_values"), ("service_call", "parameters")):
        if (frame.get(key) or {}).get(below):
            copy[key] = {**frame[key], below: {slot: new(slot, value) for slot, value in frame[key][below].items()}}
    if frame.get("service_results"):
        copy["service_results"] = [
            {slot: new(slot, value) for slot, value in result.items()} for result in frame["service_results"]
        ]
    return copy


_VALUE_KEYS = ("values", "canonical_values")


def _row(dialogue_id: str, slot: tuple[str, str], group: Group) -> dict[str, Any]:
    # The forms other than the canonical one, unless it is the only one.
    spoken = sorted(group.surfaces - {group.canonical}) or [group.canonical]
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
    }
