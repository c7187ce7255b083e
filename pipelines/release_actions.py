"""The actions of ``parapet release``: each has a check of its flags, and a function that does the work."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec
from msgspec import UNSET

from parapet.pipelines import workers
from parapet.pipelines.command import EXIT_FAILURE, check_apart, check_input, counted, say
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_text
from parapet.schemas.release import HUB, MANIFEST, NO_LICENCE, SIGNATURE, Manifest, ReleaseConfig, read_config
from parapet.transforms.release import building, citation, signing
from parapet.transforms.release import diff as differences
from parapet.transforms.release import hub as hubs
from parapet.transforms.release.card import dataset_report, overview, release_report
from parapet.transforms.release.plan import Plan, check_kinds, make_plan
from parapet.transforms.release.reading import (
    Release,
    find_release,
    latest_version,
    open_release,
    printable,
    read_manifest,
)
from parapet.transforms.release.verify import examine
from parapet.transforms.reports import report
from parapet.transforms.storage.files import clear, join, whole


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
    check_kinds(config.allow_problems)
    licence_text = read_text(base / config.licence_file, where="licence_file") if config.licence_file else ""
    for problem in citation.problems(config.licence, config.sources, bool(licence_text)):
        raise InputError(problem, args.config, "licence")
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
    if reasons := differences.damage(parent, quick=True):
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
    """Opens the release and the key. Raises InputError if there is no release, or if flags contradict each other."""
    args.root = find_release(args.release)
    if bool(args.identity) != bool(args.issuer):
        raise InputError("and --issuer must be given together", "--identity")
    if args.key and args.identity:
        raise InputError("cannot be combined with --identity: give one of the two", "--key")
    if args.trust_root and not args.identity:
        raise InputError("requires --identity", "--trust_root")
    if args.identity:
        signing.need("sigstore", "--identity")
        if args.trust_root and not as_path(args.trust_root).is_file():
            raise InputError("there is no such file", args.trust_root, "--trust_root")
    key = signing.read_public_key(args.key) if args.key else b""
    args.trust = signing.Trust(key, args.identity or "", args.issuer or "", args.trust_root or "")
    return args


def verify(args: argparse.Namespace) -> int:
    """Verifies the release and prints the findings; returns the exit status."""
    with running("parapet release verify"):
        done = examine(args.root, None if args.workers == workers.AUTO else args.workers, args.trust)
    if args.json:
        print(json.dumps(msgspec.to_builtins(done), indent=2))
        return EXIT_FAILURE if done.findings else 0
    for finding in done.findings:
        print(finding)
    if (args.root / SIGNATURE).is_file() and not (args.key or args.identity):
        say("the manifest has a signature, but it was not checked who made it: add --key or --identity to do so")
    numbers = ((done.files, "file"), (done.rows, "row"), (len(done.findings), "finding"))
    say(", ".join(counted(n, unit) for n, unit in numbers))
    return EXIT_FAILURE if done.findings else 0


def check_sign(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the release and the key. Raises InputError if either is missing or the manifest names another key."""
    args.root = find_release(args.release)
    signer = read_manifest(args.root).signing
    args.private_key = signing.read_private_key(args.key)
    args.fingerprint = signing.fingerprint(args.private_key.public_key())
    if signer is UNSET:
        logging.warning(
            "the manifest does not say that it is signed, so nobody would notice if the signature were "
            "removed: name the key in release.toml, [signing] key = %r",
            args.fingerprint,
        )
    elif signer.key != args.fingerprint:
        reason = f"has the fingerprint {args.fingerprint}, but the release must be signed by {signer.who}"
        raise InputError(reason, args.key, "--key")
    return args


def _is_whole(root: Path, action: str, failure: str, ignored: str = "") -> bool:
    """Verifies a release before an action and prints the findings, except for those on the file ``ignored``."""
    with running(f"parapet release {action}"):
        findings = [finding for finding in examine(root).findings if finding.path != ignored]
    for finding in findings:
        print(finding)
    if findings:
        logging.error("%s in the release: %s", counted(len(findings), "finding"), failure)
    return not findings


def sign(args: argparse.Namespace) -> int:
    """Verifies and signs the release; returns the exit status."""
    root = args.root
    if not _is_whole(root, "sign", "it was not signed", SIGNATURE):
        return EXIT_FAILURE
    bundle = signing.sign((root / MANIFEST).read_bytes(), args.private_key)
    if signing.read_signature(root) not in (None, bundle):
        raise InputError("another signature exists: delete it to sign again", root / SIGNATURE)
    with whole(join(str(root), SIGNATURE)) as handle:
        handle.write(bundle)
    say(f"{root / SIGNATURE}: by the key {args.fingerprint}")
    return 0


def check_diff(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the releases. Raises InputError if one of them is not a release."""
    args.old, args.new = open_release(args.old), open_release(args.new)
    return args


def diff(args: argparse.Namespace) -> int:
    """Compares the releases and prints the differences; returns the exit status."""
    sides = {"old": args.old, "new": args.new}
    damaged = [
        f"{side}: {reason}" for side, release in sides.items() for reason in differences.damage(release, args.quick)
    ]
    if damaged:
        print(json.dumps({"problems": damaged}, indent=2) if args.json else "\n".join(damaged))
        logging.error("the releases were not compared: 'parapet release verify' shows the details")
        return EXIT_FAILURE
    difference = differences.compare(args.old, args.new)
    if difference.old[0] != difference.new[0]:
        logging.warning("these are different datasets: %s and %s", difference.old[0], difference.new[0])
    print(
        json.dumps(msgspec.to_builtins(difference), indent=2)
        if args.json
        else "\n".join(differences.diff_lines(difference))
    )
    return 0


def check_show(args: argparse.Namespace) -> argparse.Namespace:
    """Reads the release or dataset. Raises InputError if it does not exist."""
    root = as_path(args.release)
    if (root / MANIFEST).is_file():
        manifest = read_manifest(root)
        shown = msgspec.structs.replace(release_report(manifest), title=f"{manifest.name} {manifest.version}", links={})
        args.overview, args.text = overview(manifest), report.card(shown)
    else:
        args.overview, args.text = dataset_report(root)
    return args


def show(args: argparse.Namespace) -> None:
    """Prints the overview."""
    print(json.dumps(args.overview, indent=2) if args.json else args.text)


def check_push(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the release and the hub. Raises InputError if release, repository or token is missing."""
    if "://" in args.release:
        raise InputError("is not on this machine: copy the release to it first", args.release)
    root = find_release(args.release)
    manifest = read_manifest(root)
    named = str(manifest.configuration.get("hub", ""))
    repo = named if args.repo is None else args.repo
    if not repo:
        raise InputError("is required: give OWNER/NAME, here or as 'hub' in release.toml", "--repo")
    if not HUB.fullmatch(repo):
        raise InputError(f"{repo!r} must be OWNER/NAME, such as ada/{manifest.name}", "--repo")
    if named and named != repo:
        logging.warning("the card shows how to load the release from %s, not from %s", named, repo)
    if manifest.licence == NO_LICENCE and not args.private:
        raise InputError(
            "has no licence: name one in release.toml and build the release again, or push it with --private", root
        )
    endpoint = hubs.endpoint_of(args.endpoint)
    token = hubs.find_token(needed=not args.dry_run)
    args.release, args.hub = Release(root, manifest), hubs.Hub(repo, args.private, endpoint, token)
    return args


def push(args: argparse.Namespace) -> int:
    """Verifies the release, shows the plan and uploads; returns the exit status."""
    release, hub = args.release, args.hub
    if not _is_whole(release.root, "push", "nothing was uploaded"):
        return EXIT_FAILURE
    with running("parapet release push") as run:
        run.stage(f"asking {hub.endpoint}")
        user, plan = hubs.persevering(hub.user), hubs.persevering(lambda: hub.plan(release))
    for line in _push_lines(release, hub, user, plan):
        say(line)
    if plan.tagged:
        say(f"{hub.repo} has version {release.manifest.version} already, with the same content: nothing to upload")
    elif args.dry_run:
        say("dry run: nothing was uploaded")
    else:
        with running("parapet release push") as run:
            run.stage(f"uploading {counted(len(plan.new) + len(plan.changed), 'file')}")
            hubs.persevering(lambda: hub.push(release))
        say(f"{hub.url} has version {release.manifest.version}")
    return 0


def _push_lines(release: Release, hub: hubs.Hub, user: str, plan: hubs.Plan) -> Iterator[str]:
    """Yields lines that describe the upload."""
    manifest = release.manifest
    sizes = {path: (release.root / path).stat().st_size for path in (*plan.new, *plan.changed, *plan.unchanged)}
    uploaded = sum(sizes[path] for path in (*plan.new, *plan.changed))
    as_whom = f"as {user}" if user else "without a token: set HF_TOKEN to one that can write before you push"
    yield f"{manifest.name} {manifest.version} to {hub.url}, {as_whom}"
    state = f"there, {'private' if plan.private else 'public'}" if plan.exists else "new, private"
    if not plan.exists and not plan.private:
        state = "new, public unless its organization has another default (--private makes it private)"
    yield f"repository: {state}"
    size = f"{counted(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:.1f} MB"
    yield f"release: {size}, under {printable(manifest.licence)}"
    todo = f"{len(plan.new):,} new, {len(plan.changed):,} changed, {len(plan.unchanged):,} unchanged"
    yield f"files: {todo}, {len(plan.gone):,} to delete; {uploaded / 1e6:.1f} MB to upload"
    yield f"version: {manifest.version}, {'tagged' if plan.tagged else 'to be tagged'}"


# The functions of each action: check and act; for build: check, pipeline, finish, and the files that workers read.
STEPS: dict[str, tuple[Callable[..., Any], ...]] = {
    "build": (check_build, build, finish, inputs),
    "verify": (check_verify, verify),
    "sign": (check_sign, sign),
    "diff": (check_diff, diff),
    "show": (check_show, show),
    "push": (check_push, push),
}
