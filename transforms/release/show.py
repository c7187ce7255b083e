"""What a release holds, at a glance: for a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release import COUNTED, MANIFEST, Manifest, in_order
from parapet.transforms.release.files import printable
from parapet.transforms.release.opening import latest_version, read_manifest, versions_of
from parapet.transforms.text import number


def overview(manifest: Manifest) -> dict[str, Any]:
    """Returns what is shown of a release, as JSON has it."""
    fields = msgspec.to_builtins(manifest)
    shown = {name: fields[name] for name in ("name", "version", "title", "licence", "created", "homepage")}
    shown |= {
        "authors": [author.name for author in manifest.authors],
        "parent": manifest.parent.version if manifest.parent else None,
        "level": manifest.changes.level if manifest.changes else None,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "rows": manifest.rows,
        "configs": {
            name: {
                "kind": config.kind,
                "record": config.record,
                "key": config.key,
                "splits": {split: info.rows for split, info in config.splits.items()},
            }
            for name, config in manifest.configs.items()
        },
    }
    return shown | {name: fields[name] for name in ("counts", "sources", "dispositions", "known_problems")}


def release_lines(manifest: Manifest) -> Iterator[str]:
    """Yields a release in lines."""
    yield from map(printable, _release_lines(manifest))


def _release_lines(manifest: Manifest) -> Iterator[str]:
    yield f"{manifest.name} {manifest.version}" + (f": {manifest.title}" if manifest.title != manifest.name else "")
    level = f", a {manifest.changes.level} change" if manifest.changes else ""
    facts = {
        "licence": manifest.licence,
        "created": manifest.created,
        "authors": ", ".join(author.name for author in manifest.authors),
        "homepage": manifest.homepage,
        "follows": manifest.parent.version + level if manifest.parent else "",
        "size": f"{size(manifest.size)} in {len(manifest.files):,} files, {manifest.rows:,} rows",
        "answers": ", ".join(f"{name} {n:,}" for name, n in manifest.dispositions.items()),
        "problems": ", ".join(f"{name} {n:,}" for name, n in manifest.known_problems.items()),
    }
    yield from _aligned([[name, fact] for name, fact in facts.items() if fact], numbers=0)
    yield ""
    rows = [["configuration", "kind", *manifest.splits]]
    for name, config in manifest.configs.items():
        of_split = (config.splits[split].rows if split in config.splits else None for split in manifest.splits)
        rows.append([name, config.kind, *map(number, of_split)])
    yield from _aligned(rows, numbers=len(manifest.splits))
    counts = {what: manifest.counts.get(what, {}) for what in COUNTED}
    rows = [["corpus", "split", *COUNTED]]
    for corpus in dict.fromkeys(corpus for corpora in counts.values() for corpus in corpora):
        for split in in_order({split for corpora in counts.values() for split in corpora.get(corpus, {})}):
            rows.append([corpus, split, *(number(counts[what].get(corpus, {}).get(split)) for what in COUNTED)])
    if len(rows) > 1:
        yield ""
        yield from _aligned(rows, numbers=len(COUNTED))
    if manifest.sources:
        yield ""
        yield "sources"
        yield from (f"  {source.title}, {source.licence}, {source.url}" for source in manifest.sources)


def size(n: int) -> str:
    """Returns bytes in the unit that suits them: ``1.2 MB``."""
    scaled = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000 or unit == "GB":
            break
        scaled /= 1000
    return f"{n:,} bytes" if unit == "bytes" else f"{scaled:,.1f} {unit}"


def _aligned(rows: Sequence[Sequence[str]], numbers: int) -> Iterator[str]:
    """Yields a table as lines, columns two spaces apart; the last ``numbers`` of them to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    text_columns = len(widths) - numbers
    for row in cells:
        padded = [
            cell.ljust(width) if i < text_columns else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


class Dataset(msgspec.Struct):
    """The versions of a dataset, in their order, and the one that ``latest.json`` names."""

    name: str
    latest: str
    versions: list[Manifest]


def read_dataset(folder: Path) -> Dataset:
    """Reads the versions in a dataset's folder.

    Raises:
      InputError: there is no such folder, there is no release in it, or one cannot be read.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", folder)
    versions = [read_manifest(folder / version) for version in versions_of(folder, MANIFEST)]
    if not versions:
        raise InputError(f"is no release: there is no {MANIFEST} here, and none in a folder of a version", folder)
    return Dataset(versions[-1].name, latest_version(folder), versions)


def dataset_overview(dataset: Dataset) -> dict[str, Any]:
    """Returns the versions, as JSON has them."""
    return {"name": dataset.name, "latest": dataset.latest, "versions": list(map(overview, dataset.versions))}


def dataset_lines(dataset: Dataset) -> Iterator[str]:
    """Yields the versions in lines."""
    yield printable(f"{dataset.name}, latest {dataset.latest or 'not named'}")
    yield ""
    rows = [["version", "created", "licence", "level", "rows", "size"]]
    for manifest in dataset.versions:
        level = manifest.changes.level if manifest.changes else "first"
        cells = [manifest.version, manifest.created or "–", manifest.licence, level]
        rows.append([*cells, f"{manifest.rows:,}", size(manifest.size)])
    yield from _aligned(rows, numbers=2)
