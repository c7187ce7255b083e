"""What a release holds, at a glance: for a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release_config import VERSION
from parapet.schemas.release_manifest import MANIFEST, Manifest
from parapet.transforms.release.diff.differences import printable
from parapet.transforms.release.opening import Release, latest_version, read_manifest
from parapet.transforms.release.versions import parse

_COUNTS = ("services", "intents", "slots", "dialogues", "turns")
_SPLITS = ("train", "dev", "test")


def overview(manifest: Manifest) -> dict[str, Any]:
    """What is shown, as JSON has it."""
    return {
        "name": manifest.name,
        "version": manifest.version,
        "title": manifest.title,
        "licence": manifest.licence,
        "created": manifest.created,
        "homepage": manifest.homepage,
        "authors": [author.name for author in manifest.authors],
        "parent": manifest.parent.version if manifest.parent else None,
        "level": manifest.changes.level if manifest.changes else None,
        "files": len(manifest.files),
        "bytes": size_of(manifest),
        "rows": rows_of(manifest),
        "configs": {
            name: {
                "kind": config.kind,
                "record": config.record,
                "key": config.key,
                "splits": {split: info.rows for split, info in config.splits.items()},
            }
            for name, config in manifest.configs.items()
        },
        "counts": manifest.counts,
        "sources": msgspec.to_builtins(manifest.sources),
        "dispositions": manifest.dispositions,
        "known_problems": manifest.known_problems,
    }


def size_of(manifest: Manifest) -> int:
    """Bytes of the files that the manifest lists."""
    return sum(file.bytes for file in manifest.files)


def rows_of(manifest: Manifest) -> int:
    """Rows of all configurations."""
    return sum(info.rows for config in manifest.configs.values() for info in config.splits.values())


def release_lines(manifest: Manifest) -> Iterator[str]:
    """A release in lines."""
    yield from map(printable, _release_lines(manifest))


def _release_lines(manifest: Manifest) -> Iterator[str]:
    yield f"{manifest.name} {manifest.version}" + (f": {manifest.title}" if manifest.title != manifest.name else "")
    facts = {
        "licence": manifest.licence,
        "created": manifest.created,
        "authors": ", ".join(author.name for author in manifest.authors),
        "homepage": manifest.homepage,
        "follows": _follows(manifest),
        "size": f"{size(size_of(manifest))} in {len(manifest.files):,} files, {rows_of(manifest):,} rows",
        "answers": _numbers(manifest.dispositions),
        "problems": _numbers(manifest.known_problems),
    }
    yield from aligned([[name, fact] for name, fact in facts.items() if fact], numbers=0)
    yield ""
    splits = _in_order({split for config in manifest.configs.values() for split in config.splits})
    rows = [
        [
            name,
            config.kind,
            *(_number(config.splits[split].rows if split in config.splits else None) for split in splits),
        ]
        for name, config in manifest.configs.items()
    ]
    yield from aligned([["configuration", "kind", *splits], *rows], numbers=len(splits))
    if counts := _count_rows(manifest):
        yield ""
        yield from aligned([["corpus", "split", *_COUNTS], *counts], numbers=len(_COUNTS))
    if manifest.sources:
        yield ""
        yield "sources"
        yield from (f"  {one.title}, {one.licence}, {one.url}" for one in manifest.sources)


def _follows(manifest: Manifest) -> str:
    if manifest.parent is None:
        return ""
    return manifest.parent.version + (f", a {manifest.changes.level} change" if manifest.changes else "")


def _count_rows(manifest: Manifest) -> list[list[str]]:
    corpora = list(dict.fromkeys(corpus for what in _COUNTS for corpus in manifest.counts.get(what, {})))
    rows = []
    for corpus in corpora:
        of_corpus = {what: manifest.counts.get(what, {}).get(corpus, {}) for what in _COUNTS}
        for split in _in_order({split for splits in of_corpus.values() for split in splits}):
            rows.append([corpus, split, *(_number(of_corpus[what].get(split)) for what in _COUNTS)])
    return rows


def _in_order(splits: set[str]) -> list[str]:
    return sorted(splits, key=lambda split: (_SPLITS.index(split) if split in _SPLITS else len(_SPLITS), split))


def _number(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


def _numbers(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())


def size(n: int) -> str:
    """Bytes in the unit that suits them: ``1.2 MB``."""
    scaled = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000 or unit == "GB":
            break
        scaled /= 1000
    return f"{n:,} bytes" if unit == "bytes" else f"{scaled:,.1f} {unit}"


def aligned(rows: Sequence[Sequence[str]], numbers: int) -> Iterator[str]:
    """A table as lines, columns two spaces apart; the last ``numbers`` of them to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    first = len(widths) - numbers
    for row in cells:
        padded = [
            cell.ljust(width) if i < first else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


class Dataset(msgspec.Struct):
    """The versions of a dataset, in their order, and the one that ``latest.json`` names."""

    name: str
    latest: str
    versions: list[Release]


def read_dataset(folder: Path) -> Dataset:
    """The versions in a dataset's folder.

    Raises:
      InputError: there is no such folder, there is no release in it, or one cannot be read.
    """
    if not folder.is_dir():
        raise InputError("there is no such folder", folder)
    found = [path for path in folder.iterdir() if VERSION.fullmatch(path.name) and (path / MANIFEST).is_file()]
    if not found:
        raise InputError(f"is no release: there is no {MANIFEST} here, and none in a folder of a version", folder)
    versions = [Release(path, read_manifest(path)) for path in sorted(found, key=lambda path: parse(path.name))]
    return Dataset(versions[-1].manifest.name, latest_version(folder), versions)


def dataset_overview(dataset: Dataset) -> dict[str, Any]:
    """The versions, as JSON has them."""
    return {
        "name": dataset.name,
        "latest": dataset.latest,
        "versions": [overview(release.manifest) for release in dataset.versions],
    }


def dataset_lines(dataset: Dataset) -> Iterator[str]:
    """The versions in lines."""
    yield printable(f"{dataset.name}, latest {dataset.latest or 'not named'}")
    yield ""
    rows = [["version", "created", "licence", "level", "rows", "size"]]
    for release in dataset.versions:
        manifest = release.manifest
        level = manifest.changes.level if manifest.changes else "first"
        cells = [manifest.version, manifest.created or "–", manifest.licence, level]
        rows.append([*cells, f"{rows_of(manifest):,}", size(size_of(manifest))])
    yield from aligned(rows, numbers=2)
