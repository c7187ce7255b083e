"""What a run writes besides dialogues: schemas, mappings, what the corruptions changed; options and shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson

from parapet.transforms.augment.corrupt import OPERATIONS
from parapet.transforms.augment.corrupted import counts_of
from parapet.transforms.augment.plan import Plan
from parapet.transforms.variants.folders import MAPPING, mapping_bytes

CORRUPTIONS = "corruptions"
CHANGES = "changes.jsonl"


def metadata_files(plan: Plan) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of the schemas, ``mapping.json``, and what belongs to the corruptions."""
    files = [*plan.schemas, (MAPPING, mapping_bytes(plan.mapped))]
    if plan.corruptions:
        rows = [orjson.dumps(msgspec.to_builtins(change)) + b"\n" for change in plan.changes]
        files.append((f"{CORRUPTIONS}/{MAPPING}", mapping_bytes(plan.corruptions)))
        files.append((f"{CORRUPTIONS}/{CHANGES}", b"".join(rows)))
    return files


def corruption_counts(plan: Plan) -> list[tuple[str, int]]:
    """(name, n) of names and descriptions in the corruptions, for ``run.json``."""
    return sorted(counts_of(plan.changes).items())


def options_of(plan: Plan) -> dict[str, Any]:
    """The options that shape the content, for ``run.json``."""
    options: dict[str, Any] = {"split": plan.work.split, "sets": {one.name: one.versions for one in plan.work.sets}}
    if plan.corruptions:
        of = plan.corrupting
        options |= {"replace_rate": of.rates.replace, "order_rate": of.rates.order, "seed": of.seed}
    return options


def shares_changed(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields a line on each corruption, given the counts of ``run.json``."""
    for operation in OPERATIONS:
        place = f"{CORRUPTIONS}/{operation}"
        if f"{place}/names" in counts or f"{place}/descriptions" in counts:
            names, descriptions = (
                f"{counts.get(f'{place}/{what}_changed', 0) / max(1, counts.get(f'{place}/{what}', 0)):.0%} of {what}"
                for what in ("names", "descriptions")
            )
            yield f"{operation}: {names} and {descriptions} changed"
