"""The manifest of a release: what it was made of, what it holds, how it differs from the one before."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import UNSET

from parapet.schemas.distribution import code_sha256, parapet_version
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.release_config import ReleaseConfig
from parapet.schemas.release_manifest import FORMAT, MANIFEST, Column, Config, File, Input, Manifest, Parent, SplitInfo
from parapet.transforms.release.diff.compare import changes_of, compare
from parapet.transforms.release.logical import split_sha256
from parapet.transforms.release.opening import Release
from parapet.transforms.release.plan import Plan, described
from parapet.transforms.release.summary import Summary
from parapet.transforms.release.versions import bumped, contradiction

COUNTED = ("services", "intents", "slots", "dialogues", "turns")

_LIBRARIES = ("apache-beam", "msgspec", "orjson", "pyarrow")
_SHOWN = 10


def check_faults(summary: Summary, allowed: list[str]) -> None:
    """Raises InputError where the data has faults of a kind that is not allowed, with counts and the first of them."""
    totals = {kind: n for kind, n in summary.totals("fault").items() if kind not in allowed}
    if not totals:
        return
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in totals.items())
    shown = [str(found) for found in summary.faults if found.fault.kind in totals][:_SHOWN]
    more = sum(totals.values()) - len(shown)
    hint = "mend them, or name the kind in 'allow_problems' to publish them as they are, counted"
    lines = [f"the dialogues have faults ({kinds}), so nothing was published: {hint}", *shown]
    raise InputError("\n  ".join([*lines, f"and {more:,} more"] if more else lines))


def make_manifest(config: ReleaseConfig, plan: Plan, summary: Summary, statistics: Mapping[str, Any]) -> Manifest:
    """The manifest of the data, before there are documents, and before it is compared with its parent."""
    raw = _configuration(config)
    return Manifest(
        **{**head_of(config), "authors": config.authors, "sources": config.sources},
        created=_created(config),
        parent=None,
        changes=None,
        code={"parapet": parapet_version(), "sha256": code_sha256()},
        libraries={name: metadata.version(name) for name in _LIBRARIES},
        configuration=raw,
        configuration_sha256=configuration_sha256(raw),
        inputs=[Input(name, kind, files) for (name, kind), files in zip(plan.inputs, summary.inputs, strict=True)],
        configs=_configs(plan, summary.files),
        counts={what: summary.counts[what] for what in COUNTED if what in summary.counts},
        statistics=dict(statistics),
        dispositions=summary.totals("disposition"),
        rejections=summary.totals("rejection"),
        known_problems=summary.totals("fault"),
        files=summary.files,
        signing=config.signing or UNSET,
    )


def head_of(config: ReleaseConfig) -> dict[str, Any]:
    """The fields of a manifest that say what ``release.toml`` says, in their order; as JSON has them.

    ``created`` is not among them: it may be of SOURCE_DATE_EPOCH.
    """
    return {
        "format": FORMAT,
        "name": config.name,
        "version": config.version,
        "title": config.title or config.name,
        "description": config.description.strip(),
        "licence": config.licence,
        "language": config.language,
        "homepage": config.homepage,
        "authors": msgspec.to_builtins(config.authors),
        "sources": msgspec.to_builtins(config.sources),
        "release_notes": config.changes.strip(),
    }


def configuration_sha256(raw: Mapping[str, Any]) -> str:
    """The hash of a configuration, as the manifest has both."""
    return hashlib.sha256(orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _configuration(config: ReleaseConfig) -> dict[str, Any]:
    """``release.toml`` as it shaped the release; of paths the last part: the others are of a machine, or a person."""
    raw: dict[str, Any] = msgspec.to_builtins(config)
    for inputs in ("corpora", "audits", "tables", "statistics"):
        for one in raw.get(inputs, ()):
            one["path"] = Path(one["path"]).name
    return raw


def _created(config: ReleaseConfig) -> str:
    if config.date is not None:
        return config.date.isoformat()
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return ""
    try:
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{epoch!r} is no number of seconds", "SOURCE_DATE_EPOCH") from None


def _configs(plan: Plan, files: list[File]) -> dict[str, Config]:
    of_split: dict[str, dict[str, list[File]]] = {}
    for file in files:
        if file.rows is not None:
            _, name, shard = file.path.split("/")
            of_split.setdefault(name, {}).setdefault(shard.partition("-")[0], []).append(file)
    return {
        name: Config(
            kept.kind,
            kept.record,
            kept.key,
            [Column(**column) for column in described(kept.columns)],
            {split: _split(of_split[name][split]) for split in _in_order(of_split[name])},
        )
        for name, kept in plan.configs.items()
        if name in of_split
    }


def _in_order(splits: Mapping[str, Any]) -> list[str]:
    usual = ("train", "dev", "test")
    return sorted(splits, key=lambda split: (usual.index(split) if split in usual else len(usual), split))


def _split(files: list[File]) -> SplitInfo:
    rows = sum(file.rows or 0 for file in files)
    return SplitInfo(rows, [file.path for file in files], split_sha256(file.logical_sha256 for file in files))


def follow(manifest: Manifest, staging: str, parent: Release | None) -> None:
    """Compares with the parent, and enters that into the manifest.

    Raises:
      InputError: the version number does not say what has changed.
    """
    if parent is None:
        return
    sha256 = hashlib.sha256(parent.read(MANIFEST)).hexdigest()
    manifest.parent = Parent(parent.manifest.version, sha256)
    manifest.changes = changes_of(compare(parent, Release(as_path(staging), manifest)))
    level = manifest.changes.level
    if wrong := contradiction(parent.manifest.version, manifest.version, level):
        what = "; ".join(
            f"{change.config}/{change.split}: {change.added:,} added, {change.removed:,} removed, "
            f"{change.changed:,} changed"
            for change in manifest.changes.splits[:_SHOWN]
        )
        hint = f"the next version is {bumped(parent.manifest.version, level)}"
        raise InputError(f"{wrong}: {hint}" + (f" ({what})" if what else ""), "release.toml", "version")
