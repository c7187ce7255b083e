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

from parapet.schemas.errors import InputError, code_sha256, parapet_version
from parapet.schemas.layout import as_path
from parapet.schemas.release import (
    COUNTED,
    FORMAT,
    MANIFEST,
    Column,
    Config,
    File,
    Input,
    Manifest,
    Parent,
    ReleaseConfig,
    SplitInfo,
    in_order,
)
from parapet.transforms.release.building import Summary
from parapet.transforms.release.diff import changes_of, compare
from parapet.transforms.release.opening import Release
from parapet.transforms.release.plan import Plan, described
from parapet.transforms.release.shards import split_sha256

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
    """Returns the manifest of the data, before there are documents, and before it is compared with its parent."""
    configuration = _configuration(config)
    return Manifest(
        format=FORMAT,
        name=config.name,
        version=config.version,
        title=config.title or config.name,
        description=config.description.strip(),
        licence=config.licence,
        language=config.language,
        created=_created(config),
        homepage=config.homepage,
        authors=config.authors,
        sources=config.sources,
        release_notes=config.changes.strip(),
        parent=None,
        changes=None,
        code={"parapet": parapet_version(), "sha256": code_sha256()},
        libraries={name: metadata.version(name) for name in _LIBRARIES},
        configuration=configuration,
        configuration_sha256=hashlib.sha256(orjson.dumps(configuration, option=orjson.OPT_SORT_KEYS)).hexdigest(),
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


def _configuration(config: ReleaseConfig) -> dict[str, Any]:
    """Returns ``release.toml`` with only the last part of each path: the others are of a machine, or a person."""
    raw: dict[str, Any] = msgspec.to_builtins(config)
    for key in ("corpora", "audits", "tables", "statistics"):
        for table in raw.get(key, ()):
            table["path"] = Path(table["path"]).name
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
    shards: dict[str, dict[str, list[File]]] = {}
    for file in files:
        if file.rows is not None:
            _, name, shard = file.path.split("/")
            shards.setdefault(name, {}).setdefault(shard.partition("-")[0], []).append(file)
    return {
        name: Config(
            kept.kind,
            kept.record,
            kept.key,
            [Column(**column) for column in described(kept.columns)],
            {
                split: SplitInfo(
                    sum(file.rows or 0 for file in shards[name][split]),
                    [file.path for file in shards[name][split]],
                    split_sha256(file.logical_sha256 for file in shards[name][split]),
                )
                for split in in_order(shards[name])
            },
        )
        for name, kept in plan.configs.items()
        if name in shards
    }


def follow(manifest: Manifest, staging: str, parent: Release) -> None:
    """Compares the release with its parent, and enters the difference into the manifest.

    Raises:
      InputError: the version number does not say what has changed.
    """
    sha256 = hashlib.sha256(parent.read(MANIFEST)).hexdigest()
    manifest.parent = Parent(parent.manifest.version, sha256)
    difference = compare(parent, Release(as_path(staging), manifest))
    manifest.changes = changes_of(difference)
    if difference.contradiction:
        what = "; ".join(
            f"{change.config}/{change.split}: {change.added:,} added, {change.removed:,} removed, "
            f"{change.changed:,} changed"
            for change in manifest.changes.splits[:_SHOWN]
        )
        hint = f"the next version is {difference.suggested}" + (f" ({what})" if what else "")
        raise InputError(f"{difference.contradiction}: {hint}", "release.toml", "version")
