"""What ``parapet compose`` does, as a plain loop in one process: everything in memory, no Beam, the same functions."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from parapet.schemas import layout
from parapet.schemas.elements import VARIANTS
from parapet.schemas.responses import Assignment, DeadLetter
from parapet.transforms.crowd import audit, outputs
from parapet.transforms.crowd.composing import places_of, read_responses, schema_file
from parapet.transforms.crowd.merge import merge_assignments
from parapet.transforms.crowd.settle import Settings, settle_service
from parapet.transforms.crowd.summary import summarise


def compose(schemas: Path, responses: list[Path], output: Path, key: bytes, method: dict[str, str]) -> None:
    """Composes the variants of ``schemas`` from ``responses`` into ``output``."""
    import orjson

    splits = layout.read_root(schemas)
    names, raws = layout.splits_of(splits), layout.raw_by_name(splits)
    records = [record for path in responses for record in read_responses(str(path), key, "utf-8")]
    dead = [record for record in records if isinstance(record, DeadLetter)]
    assignments, conflicts = merge_assignments(record for record in records if isinstance(record, Assignment))
    dead += conflicts
    by_service = defaultdict(list)
    for assignment in assignments:
        by_service[assignment.service_name].append(assignment)
    summaries, packed, files = [], [], defaultdict(list)
    places, _ = places_of(splits)
    for name, raw in raws.items():
        outcome = settle_service(raw, by_service.get(name, []), {}, Settings())
        dead += outcome.dead
        summaries.append(summarise(raw, outcome))
        packed.append((name, audit.pack(outcome.audit)))
        for k, variant in zip(VARIANTS, outcome.variants, strict=False):
            for path, position in places[name]:
                files[f"v{k}/{path}"].append((position, orjson.dumps(variant)))
    output.mkdir(parents=True, exist_ok=True)
    with (output / audit.FILE).open("wb") as handle:
        audit.write((rows for _, rows in sorted(packed)), handle)
    for path, services in files.items():
        _write(output, *schema_file(path, services))
    for path, data in outputs.summary_files(None, summaries, dead, [], names, method):
        _write(output, path, data)


def _write(output: Path, path: str, data: bytes) -> None:
    target = output / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
