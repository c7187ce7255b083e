"""Perturb single texts, each as a dialogue of one user turn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.messages import dialogue_of, longest_first, plain_service, user_turn
from parapet.transforms.perturb.base import Perturbation, set_of
from parapet.transforms.perturb.corpora import corpus_of
from parapet.transforms.perturb.corpus import check_needs_none, perturbation_of, perturbed_sets

_SPLIT = "test"


def perturb_texts(
    texts: Sequence[str],
    which: str | type[Perturbation] | Perturbation,
    set_name: str | None,
    protect: Iterable[str],
    options: dict[str, Any],
) -> list[str]:
    """Perturb single texts. For arguments and errors see ``parapet.perturb_text``."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"expected a text, found {type(text).__name__}", "text", f"[{i}]")
    values = [protect] if isinstance(protect, str) or not isinstance(protect, Iterable) else list(protect)
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"expected a list of texts, found {protect!r}", "protect")
    perturbation = perturbation_of(which, options)
    name = set_of(perturbation, set_name)
    check_needs_none(perturbation, "plain texts")
    values = longest_first(values)
    # An id depends on the text alone, so that its random draws do not depend on other texts.
    ids = {text: hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts if text.strip()}
    perturbed = perturbed_texts({ids[text]: (text, values) for text in ids}, perturbation, [name])[name]
    return [perturbed[ids[text]] if text in ids else text for text in texts]


def perturbed_texts(
    texts: Mapping[str, tuple[str, Sequence[str]]], perturbation: Perturbation, set_names: Sequence[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return the texts in every set, by set and id.

    Args:
      texts: by id, each text and the values in it that must stay, in the order of :func:`longest_first`.
      perturbation: the perturbation, which is fitted here.
      set_names: the sets to return; None for all.
    """
    dialogues = [dialogue_of(name, [user_turn(text, values)]) for name, (text, values) in texts.items()]
    sets = perturbed_sets(corpus_of({_SPLIT: dialogues}, {_SPLIT: [plain_service()]}), perturbation, set_names)
    return {
        name: {dialogue["dialogue_id"]: dialogue["turns"][0]["utterance"] for dialogue in of_set.dialogues()}
        for name, of_set in sets.items()
    }
