"""``parapet release push``: a release to a dataset repository of the Hugging Face Hub."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser, add_dry_run
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.release.hub import Hub, Plan
    from parapet.transforms.release.opening import Release

DESCRIPTION = """\
Uploads a release to a dataset repository of yours on the Hugging Face Hub: verifies it, shows what will be done,
creates the repository if there is none, uploads the folder, and tags the commit with the version. Run again after an
error or a kill, it goes on; a version that is there already is never changed."""

EXAMPLE = """\
  parapet release push releases/my_dataset --repo ada/my_dataset --private --dry_run
  parapet release push releases/my_dataset --repo ada/my_dataset --private
  parapet release push releases/my_dataset/1.0.0          # to the repository that release.toml names as 'hub'"""

NOTE = """\
The token is read from HF_TOKEN, or from where 'hf auth login' has put it; it must be able to write.

exit status: 0 where the version is on the Hub, 1 where it is not, 2 for wrong usage, without a token or the extra."""


def parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("release push", DESCRIPTION, EXAMPLE, NOTE)
    flags.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its newest version; a local folder")
    add = flags.group("the Hub")
    add("--repo", metavar="OWNER/NAME", help="dataset repository (default: 'hub' of release.toml)")
    add("--private", action="store_true", help="create the repository as private (default: public)")
    add_dry_run(flags)
    text = "address of another Hub (default: HF_ENDPOINT, or https://huggingface.co)"
    add("--endpoint", rare=True, metavar="URL", default="", help=text)
    return flags


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError if there is no release, no repository, no token; MissingExtra without huggingface_hub."""
    from parapet.schemas.release import HUB, NO_LICENCE
    from parapet.transforms.release.hub import Hub, endpoint_of, find_token
    from parapet.transforms.release.opening import Release, find_release, read_manifest

    if "://" in args.release:
        raise InputError("is not on this machine: copy the release here first", args.release)
    root = find_release(args.release)
    manifest = read_manifest(root)
    named = str(manifest.configuration.get("hub", ""))
    repo = named if args.repo is None else args.repo
    if not repo:
        raise InputError("say where to: OWNER/NAME, here or as 'hub' in release.toml", "--repo")
    if not HUB.fullmatch(repo):
        raise InputError(f"{repo!r} is not OWNER/NAME, such as ada/{manifest.name}", "--repo")
    if named and named != repo:
        logging.warning("the card shows how to load it from %s, not from %s", named, repo)
    if manifest.licence == NO_LICENCE and not args.private:
        raise InputError("has no licence: give it one and build it again, or push it with --private", root)
    endpoint = endpoint_of(args.endpoint)
    args.release, args.hub = Release(root, manifest), Hub(repo, args.private, endpoint, find_token())
    return args


def act(args: argparse.Namespace) -> int:
    """Verifies, shows the plan, uploads; returns the exit status."""
    from parapet.pipelines.progress import running
    from parapet.transforms.release.hub import persevering
    from parapet.transforms.release.verify import examine

    release, hub = args.release, args.hub
    with running("parapet release push") as run:
        findings = examine(release.root).findings
        if not findings:
            run.stage(f"asking {hub.endpoint}")
            user, plan = persevering(hub.user), persevering(lambda: hub.plan(release))
    if findings:
        for finding in findings:
            print(finding)
        logging.error("%s in the release: nothing was uploaded", counted(len(findings), "finding"))
        return EXIT_FAILURE
    for line in lines(release, hub, user, plan):
        say(line)
    if plan.tagged:
        say(f"{hub.repo} has version {release.manifest.version} already, with the same content: nothing to upload")
    elif args.dry_run:
        say("a dry run: nothing was uploaded")
    else:
        with running("parapet release push") as run:
            run.stage(f"uploading {counted(len(plan.new) + len(plan.changed), 'file')}")
            persevering(lambda: hub.push(release))
        say(f"{hub.url} has version {release.manifest.version}")
    return 0


def lines(release: Release, hub: Hub, user: str, plan: Plan) -> Iterator[str]:
    """What will be done."""
    from parapet.transforms.release.files import printable

    manifest = release.manifest
    sizes = {path: (release.root / path).stat().st_size for path in (*plan.new, *plan.changed, *plan.unchanged)}
    uploaded = sum(sizes[path] for path in (*plan.new, *plan.changed))
    yield f"{manifest.name} {manifest.version} to {hub.url}, as {user}"
    if plan.exists:
        yield f"repository: there, {'private' if plan.private else 'public'}"
    elif plan.private:
        yield "repository: new, private"
    else:
        yield "repository: new, public unless its organization has another default (--private makes it private)"
    size = f"{counted(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:.1f} MB"
    yield f"release: {size}, under {printable(manifest.licence)}"
    todo = f"{len(plan.new):,} new, {len(plan.changed):,} changed, {len(plan.unchanged):,} unchanged"
    yield f"files: {todo}, {len(plan.gone):,} to delete; {uploaded / 1e6:.1f} MB to upload"
    yield f"version: {manifest.version}, {'tagged' if plan.tagged else 'to be tagged'}"


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release push``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "run the same command again, it goes on from here")


if __name__ == "__main__":
    sys.exit(run())
