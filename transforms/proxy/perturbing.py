"""Perturbs what users say on the way to a model."""

from __future__ import annotations

from functools import lru_cache

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.apply import perturb_texts
from parapet.transforms.proxy.conversation import Change

_MOST_TEXTS = 10_000  # that are remembered, since a conversation is sent again with each request


def perturbing(name: str, seed: str) -> Change:
    """Return a function that perturbs a text, always in the same way; one that cannot be perturbed stays.

    Raises:
      InputError: there is no such perturbation, or it needs more than texts.
    """
    perturb_texts(["I need a taxi"], name, None, (), {"seed": seed})

    @lru_cache(_MOST_TEXTS)
    def perturbed(text: str) -> str:
        try:
            return perturb_texts([text], name, None, (), {"seed": seed})[0]
        except (InputError, UnicodeError):  # halves of surrogate pairs
            return text

    return perturbed
