"""The actions of ``parapet release``: each has a check of its flags, and a function that does the work."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import msgspec

from parapet.pipelines.command import EXIT_FAILURE, check_apart, check_input, counted, say
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_text
from parapet.schemas.release import HUB, NO_LICENCE, Manifest, ReleaseConfig, read_config
from parapet.transforms.release import building, citation, hub
from parapet.transforms.release import diff as differences
from parapet.transforms.release.plan import Plan, make_plan
from parapet.transforms.release.reading import (
    Release,
    find_release,
    latest_version,
    open_release,
    read_manifest,
)
from parapet.transforms.release.verify import examine
from parapet.transforms.storage.files import clear


class _Build(msgspec.Struct, frozen=True):
    """A release to build.

    Attributes:
      output: the folder of releases.
      release: its ``release.toml``.
      plan: the contents.
      licence_text: the text of a licence without an SPDX identifier; otherwise empty.
      statistics: name to the content of a ``statistics.json``.
      parent: the preceding release, if any.
    """

    output: str
    release: ReleaseConfig
    plan: Plan
    licence_text: str
    statistics: dict[str, object]
    parent: Release | None


def check_build(args: argparse.Namespace) -> _Build:
    """Reads the configuration, the schemas and the inputs. Raises InputError if they cannot be released."""
    config = read_config(args.config)
    base = as_path(args.config).parent
    licence_text = read_text(base / config.licence_file, where="licence_file") if config.licence_file else ""
    for warning in citation.licence_warnings(config.licence, config.sources):
        logging.warning("%s", warning)
    statistics = {entry.name: _numbers(base / entry.path) for entry in config.statistics}
    inputs = (config.corpora, config.tasks, config.audits, config.tables)
    output = str(as_path(args.output) / config.name / config.version)
    for path in (str(entry.path) for kind in inputs for entry in kind):
        place = path if "://" in path else str(base / path)
        check_apart(output, "--config", place)
        check_input(place, "--config")
    plan = make_plan(config, base)
    return _Build(args.output, config, plan, licence_text, statistics, _parent(args.output, config, args.config))


def inputs(config: _Build) -> list[tuple[str, str]]:
    """Lists the files that workers read."""
    return [("--config", source.path) for source in config.plan.sources]


def _numbers(path: Any) -> Any:
    check_input(str(path), "statistics")
    path = path / "statistics.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError("there is no such file", path, "statistics")
    return parse_json(path.read_bytes(), path)


def _parent(output: str, config: ReleaseConfig, path: str) -> Release | None:
    if config.parent == "none":
        return None
    place = as_path(output) / config.name
    version = config.parent or latest_version(place)
    if not version:
        return None
    if not differences.level_between(version, config.version) and not (place / config.version).exists():
        reason = f"{config.version} does not come after {version}: raise the version, or name its 'parent'"
        raise InputError(reason, path, "version")
    parent = open_release(place / version)
    if reasons := differences.damage(parent):
        raise InputError(f"{reasons[0]}: 'parapet release verify' shows the details", parent.root)
    return parent


def build(pipeline: beam.Pipeline, config: _Build) -> None:
    """Wires the pipeline: converts files to shards and a summary, from which ``finish`` makes the release."""
    if pipeline.options.get_all_options().get("template_location"):
        raise InputError(
            "cannot be used here, because the command that runs the job also finishes the release: leave it out",
            "--template_location",
        )
    building.prepare(config.output, config.release)
    pipeline | "Build data" >> building.BuildData(config.plan, building.staging_of(config.output, config.release))


def finish(config: _Build, counters: dict[str, int]) -> None:
    """Checks the pipeline's output, writes the documents and publishes. Raises InputError if a check fails."""
    staging = building.staging_of(config.output, config.release)
    folder = building.folder_of(config.output, config.release)
    try:
        summary = building.read_summary(staging)
        building.check_faults(summary, config.release.allow_problems)
        manifest = building.make_manifest(config.release, config.plan, summary, config.statistics)
        if config.parent is not None:
            building.follow(manifest, staging, config.parent)
        building.write_documents(manifest, config.plan.columns, staging, config.parent, config.licence_text)
    except InputError:
        clear(staging)
        raise
    building.publish(staging, folder)
    building.update_latest(config.output, config.release.name)
    _say_built(manifest, folder)


def _say_built(manifest: Manifest, folder: str) -> None:
    for name, kept in manifest.configs.items():
        rows = ", ".join(f"{split} {info.rows:,}" for split, info in kept.splits.items())
        say(f"{name}: {rows}")
    if manifest.parent is not None and manifest.changes is not None:
        say(f"after {manifest.parent.version}: a change at the {manifest.changes.level} level")
    say(f"{folder}: {counted(len(manifest.files) + 2, 'file')}, {manifest.size / 1e6:.1f} MB")
    say(f"report: {folder}/report/index.html")


def check_verify(args: argparse.Namespace) -> argparse.Namespace:
    """Finds the release. Raises InputError if there is none."""
    args.root = find_release(args.release)
    return args


def verify(args: argparse.Namespace) -> int:
    """Verifies the release and prints the findings; returns the exit status."""
    with running("parapet release verify"):
        done = examine(args.root)
    if args.json:
        print(json.dumps(msgspec.to_builtins(done), indent=2))
        return EXIT_FAILURE if done.findings else 0
    for finding in done.findings:
        print(finding)
    numbers = ((done.files, "file"), (done.rows, "row"), (len(done.findings), "finding"))
    say(", ".join(counted(n, unit) for n, unit in numbers))
    return EXIT_FAILURE if done.findings else 0


def check_diff(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the releases. Raises InputError if one of them is not a release."""
    args.old, args.new = open_release(args.old), open_release(args.new)
    return args


def diff(args: argparse.Namespace) -> int:
    """Compares the releases and prints the differences; returns the exit status."""
    sides = {"old": args.old, "new": args.new}
    damaged = [f"{side}: {reason}" for side, release in sides.items() for reason in differences.damage(release)]
    if damaged:
        print("\n".join(damaged))
        logging.error("the releases were not compared: 'parapet release verify' shows the details")
        return EXIT_FAILURE
    difference = differences.compare(args.old, args.new)
    if difference.old[0] != difference.new[0]:
        logging.warning("these are different datasets: %s and %s", difference.old[0], difference.new[0])
    print("\n".join(differences.diff_lines(difference)))
    return 0


def check_push(args: argparse.Namespace) -> argparse.Namespace:
    """Finds the release and the token. Raises InputError if release, repository or token is missing."""
    if "://" in args.release:
        raise InputError("is not on this machine: copy the release to it first", args.release)
    args.root = find_release(args.release)
    args.manifest = read_manifest(args.root)
    args.repo = args.repo or args.manifest.configuration.get("hub", "")
    if not args.repo:
        raise InputError("is required: give OWNER/NAME, here or as 'hub' in release.toml", "--repo")
    if not HUB.fullmatch(args.repo):
        raise InputError(f"{args.repo!r} must be OWNER/NAME, such as ada/{args.manifest.name}", "--repo")
    if args.manifest.licence == NO_LICENCE and not args.private:
        reason = "has no licence: name one in release.toml and build the release again, or push it with --private"
        raise InputError(reason, args.root)
    args.token = hub.find_token()
    return args


def push(args: argparse.Namespace) -> int:
    """Verifies the release and uploads it; returns the exit status."""
    with running("parapet release push") as run:
        findings = examine(args.root).findings
        if not findings:
            run.stage(f"uploading {counted(len(args.manifest.files), 'file')}")
            url = hub.push(args.root, args.manifest.version, args.repo, args.private, args.token)
    if findings:
        print("\n".join(map(str, findings)))
        logging.error("%s in the release: nothing was uploaded", counted(len(findings), "finding"))
        return EXIT_FAILURE
    say(f"{url} has version {args.manifest.version}")
    return 0


# The functions of each action: check and act; for build: check, pipeline, finish, and the files that workers read.
STEPS: dict[str, tuple[Callable[..., Any], ...]] = {
    "build": (check_build, build, finish, inputs),
    "verify": (check_verify, verify),
    "diff": (check_diff, diff),
    "push": (check_push, push),
}
