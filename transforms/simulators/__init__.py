"""What the simulators of restaurants and reminders and the conversion of DSTC2 have in common: tables, digests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from parapet.transforms.report import Table
from parapet.transforms.text import number, percent


def nested_table(
    title: str,
    first: str,
    tree: Mapping[str, Any],
    columns: Sequence[str],
    percents: Collection[str] = (),
    **options: Any,
) -> Table:
    """A table of nested numbers: a row for each innermost dictionary, named by the keys that lead to it.

    Args:
      title: of the table.
      first: the heading of the column of names.
      tree: names to dictionaries; empty ones are left out.
      columns: the keys of the innermost dictionaries, which are the headings, too.
      percents: those of shares.
      options: further arguments of :class:`Table`.
    """
    rows = [
        [name, *(percent(leaf.get(key)) if key in percents else cell(leaf.get(key)) for key in columns)]
        for name, leaf in _leaves(tree, columns)
    ]
    return Table(title=title, columns=[first, *(key.replace("_", " ") for key in columns)], rows=rows, **options)


def _leaves(tree: Mapping[str, Any], keys: Collection[str], names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if any(key in tree for key in keys):
        yield ", ".join(names), tree
        return
    for name, branch in tree.items():
        if branch:
            yield from _leaves(branch, keys, (*names, name))


def cell(value: Any) -> str:
    """A number as it reads in a table; shares by outcome one after the other; a dash where nothing is known."""
    if isinstance(value, dict):
        return ", ".join(f"{outcome}:\N{NO-BREAK SPACE}{percent(share)}" for outcome, share in value.items())
    if isinstance(value, float):
        return number(value, 2)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def count_distinct(digests: Iterable[bytes]) -> int:
    """How many different digests of eight bytes some runs of digests have together."""
    return len(np.unique(np.frombuffer(b"".join(digests), "<u8")))
