"""Texts without annotation as a corpus of one service, so that any perturbation of user turns perturbs them.

Values that must stay are marked as values of slots, which perturbations leave as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from parapet.schemas.errors import InputError, surrogate_in
from parapet.transforms.perturbation.base import Perturbation, set_of
from parapet.transforms.perturbation.corpora import corpus_of
from parapet.transforms.perturbation.corpus import perturbation_of, perturbed_sets

_SPLIT = "test"
_SERVICE, _INTENT = "Tools_1", "UseTools"
_SLOTS = 40


def service() -> dict[str, Any]:
    """The only service of such a corpus."""
    slots = [
        {"name": f"value_{i}", "description": "A value", "is_categorical": False, "possible_values": []}
        for i in range(_SLOTS)
    ]
    intent = {"name": _INTENT, "description": "Use tools", "is_transactional": False, "required_slots": [],
              "optional_slots": {}, "result_slots": []}  # fmt: skip
    return {"service_name": _SERVICE, "description": "Tools", "slots": slots, "intents": [intent]}


def dialogue_of(dialogue_id: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A dialogue of that service."""
    return {"dialogue_id": dialogue_id, "services": [_SERVICE], "turns": list(turns)}


def user_turn_of(text: str, values: Iterable[str] = ()) -> dict[str, Any]:
    """A user turn in which the values, wherever the text has them as whole words, are annotated."""
    spans = [(f"value_{i % _SLOTS}", start, end) for i, (start, end) in enumerate(sorted(_spans(text, values)))]
    said: dict[str, list[str]] = {}
    for slot, start, end in spans:
        said.setdefault(slot, []).append(text[start:end])
    actions = [{"act": "INFORM", "slot": slot, "values": of, "canonical_values": of} for slot, of in said.items()]
    state = {"active_intent": _INTENT, "requested_slots": [], "slot_values": said}
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    frame = {"service": _SERVICE, "actions": actions, "slots": slots, "state": state}
    return {"speaker": "USER", "utterance": text, "frames": [frame]}


def longest_first(values: Iterable[str]) -> list[str]:
    """Each value once, in the order in which :func:`user_turn_of` is to look for them."""
    return sorted({value.strip() for value in values} - {""}, key=lambda value: (-len(value), value))


def check_needs_none(perturbation: Perturbation, what: str, where: str = "") -> None:
    """Raises InputError if a perturbation needs the annotation of a corpus.

    Args:
      perturbation: what is done.
      what: what has no annotation, for the message.
      where: the flag that names it, for the message.
    """
    if perturbation.needs_annotation or not perturbation.keeps_turns:
        reason = f"{perturbation.name} needs a corpus with schemas and states, which {what} have not"
        raise InputError(f"{reason}: use typos, verbose, simple, paraphrase or speech_errors", where)


def perturb_texts(
    texts: Sequence[str],
    which: str | type[Perturbation] | Perturbation,
    set_name: str | None,
    protect: Iterable[str],
    options: dict[str, Any],
) -> list[str]:
    """Single texts perturbed, each as a dialogue of one user turn. As ``parapet.perturb_text`` has it."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"expected a text, found {type(text).__name__}", "text", f"[{i}]")
        if surrogate_in(text) is not None:
            raise InputError("half a surrogate pair, which is no character", "text", f"[{i}]")
    if not isinstance(protect, Iterable):
        raise InputError(f"expected a list of texts, found {type(protect).__name__}", "protect")
    values = [protect] if isinstance(protect, str) else list(protect)
    if wrong := next((value for value in values if not isinstance(value, str)), None):
        raise InputError(f"expected texts, found {wrong!r}", "protect")
    perturbation = perturbation_of(which, options)
    name = set_of(perturbation, set_name)
    check_needs_none(perturbation, "plain texts")
    ordered = longest_first(values)
    ids = {text: _id(text) for text in texts if text.strip()}
    corpus = corpus_of(
        {_SPLIT: [dialogue_of(ids[text], [user_turn_of(text, ordered)]) for text in ids]}, {_SPLIT: [service()]}
    )
    perturbed = perturbed_sets(corpus, perturbation, [name])[name]
    results = {dialogue["dialogue_id"]: dialogue["turns"][0]["utterance"] for dialogue in perturbed.dialogues()}
    return [results[ids[text]] if text in ids else text for text in texts]


def _id(text: str) -> str:
    """Of the text alone: the random draws of a text do not depend on the texts beside it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _spans(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    """Where values stand in a text, the first ones first; they do not overlap."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken
