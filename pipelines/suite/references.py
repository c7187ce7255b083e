"""References: in a suite's options ``@STEP/path`` is what a step writes, ``@sample`` the bundled sample."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from parapet.pipelines.suite.suite_file import SAMPLE, TASKS, Value
from parapet.schemas.layout import sample_root

# At the beginning of a text, or after NAME=.
_REFERENCE = re.compile(r"(?:^|(?<==))@([\w.+\-/]+)")


def _in_full(reference: str) -> str:
    """A reference with its task: ``scores/ours`` is ``scores/ours/dst``."""
    kind, _, rest = reference.partition("/")
    name, _, below = rest.partition("/")
    if kind not in ("scores", "models", "predictions") or not name or below.partition("/")[0] in TASKS:
        return reference
    return f"{kind}/{name}/dst" + (f"/{below}" if below else "")


def owner(reference: str, steps: Collection[str]) -> str | None:
    """The step that writes what ``@reference`` names: ``sets/typos`` of ``sets/typos/typos``."""
    parts = [path.split("/") for path in (_in_full(reference), reference)]
    prefixes = ["/".join(words[:n]) for words in parts for n in range(1, len(words) + 1)]
    return max((name for name in prefixes if name in steps), key=len, default=None)


def references(value: object) -> Iterator[str]:
    """What the values of options name with ``@``, without the sign."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)
    elif isinstance(value, str):
        yield from _REFERENCE.findall(value)


def resolved(value: Value, output: Path) -> Value:
    """An option with the paths that its references name."""
    if isinstance(value, dict):
        return {key: resolved(item, output) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, output) for item in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: place_of(match[1], output), value)
    return value


def place_of(reference: str, output: Path) -> str:
    """The path that ``@reference`` names."""
    head, _, rest = reference.partition("/")
    if head == SAMPLE[1:]:
        return str(sample_root() / rest) if rest else str(sample_root())
    return str(output / _in_full(reference))


def entry_of(name: str) -> str:
    """The entry of the file that a step or a reference belongs to: ``systems/ours`` of ``models/ours/dst``."""
    kind, _, rest = name.partition("/")
    if kind in ("scores", "models", "predictions"):
        return f"systems/{rest.partition('/')[0]}"
    return f"sets/{rest.partition('/')[0]}" if kind == "sets" else kind
