"""``parapet release``: build, verify, sign, diff, show and push versioned dataset releases."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import workers
from parapet.pipelines.command import EXIT_FAILURE, check_input, counted, run_checked, run_command, say
from parapet.pipelines.dispatch import hand_over
from parapet.pipelines.flags import INPUT, RUNNING, Parser, StrictParser, add_dry_run, add_json
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.release import Manifest, ReleaseConfig
    from parapet.transforms.release.hub import Hub
    from parapet.transforms.release.hub import Plan as HubPlan
    from parapet.transforms.release.plan import Plan
    from parapet.transforms.release.reading import Release

ACTIONS = {
    "build": "build a release from a release.toml: card, manifest, checksums",
    "verify": "check a release against its checksums, manifest and schemas",
    "sign": "sign a release with a key of yours",
    "diff": "compare two releases row by row, and suggest a version number",
    "show": "what a release contains",
    "push": "upload a release to the Hugging Face Hub",
}

USAGE = f"""usage: parapet release ACTION [flags]

Builds versioned dataset releases: Parquet for 'datasets' and pandas, SGD JSON for
the published scripts, a dataset card, a manifest of all inputs, checksums. A
release never changes; a new version is written beside it.

actions:
{chr(10).join(f"  {name:8}{what}" for name, what in ACTIONS.items())}

example:
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release push releases/my_dataset --repo ada/my_dataset --dry_run

'parapet release ACTION --help' shows the flags of an action.
"""


_BUILD_EXAMPLE = """\
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0"""


class _Build(msgspec.Struct, frozen=True):
    """A release to be built.

    Attributes:
      output: the folder of releases.
      release: its ``release.toml``.
      plan: what goes in.
      licence_text: of its own licence; empty for one that has an SPDX identifier.
      statistics: name to the content of a ``statistics.json``.
      parent: the release that it follows, if any.
    """

    output: str
    release: ReleaseConfig
    plan: Plan
    licence_text: str
    statistics: dict[str, object]
    parent: Release | None


def _build_parser() -> Parser:
    """The flags."""
    what = (
        "Builds a release from the outputs of other commands: OUT/NAME/VERSION with Parquet, SGD JSON, a card, a "
        "manifest and checksums. docs/release.md shows a release.toml."
    )
    parser = Parser("release build", what, _BUILD_EXAMPLE)
    text = "release.toml: inputs, name, version, licence"
    parser.group(INPUT)("--config", required=True, metavar="FILE", reads=True, help=text)
    return parser


def _check_build(args: argparse.Namespace) -> _Build:
    """Reads the configuration, the schemas and what there is. Raises InputError where no release can come of it."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.limits import read_text
    from parapet.schemas.release import read_config
    from parapet.transforms.release import citation
    from parapet.transforms.release.plan import check_kinds, make_plan

    config = read_config(args.config)
    base = as_path(args.config).parent
    check_kinds(config.allow_problems)
    licence_text = read_text(base / config.licence_file, where="licence_file") if config.licence_file else ""
    for problem in citation.problems(config.licence, config.sources, bool(licence_text)):
        raise InputError(problem, args.config, "licence")
    statistics = {given.name: _numbers(base / given.path) for given in config.statistics}
    inputs = (config.corpora, config.audits, config.tables)
    for path in (str(given.path) for kind in inputs for given in kind):
        check_input(path if "://" in path else str(base / path), "--config")
    plan = make_plan(config, base)
    return _Build(args.output, config, plan, licence_text, statistics, _parent(args.output, config, args.config))


def _inputs(config: _Build) -> list[tuple[str, str]]:
    """The files that workers read."""
    return [("--config", source.path) for source in config.plan.sources]


def _numbers(path: Any) -> Any:
    from parapet.schemas.errors import NOT_FINITE, not_finite_in, surrogate_in
    from parapet.schemas.layout import parse_json

    check_input(str(path), "statistics")
    path = path / "statistics.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError("there is no such file", path, "statistics")
    found = parse_json(path.read_bytes(), path)
    if (at := not_finite_in(found)) is not None:
        raise InputError(NOT_FINITE, path, at)
    if (at := surrogate_in(found)) is not None:
        raise InputError("half a surrogate pair, which UTF-8 cannot have", path, at)
    return found


def _parent(output: str, config: ReleaseConfig, path: str) -> Release | None:
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.diff import damage, level_between
    from parapet.transforms.release.reading import latest_version, open_release

    if config.parent == "none":
        return None
    place = as_path(output) / config.name
    version = config.parent or latest_version(place)
    if not version:
        return None
    if not level_between(version, config.version) and not (place / config.version).exists():
        reason = f"{config.version} does not come after {version}: raise it, or name its 'parent'"
        raise InputError(reason, path, "version")
    parent = open_release(place / version)
    if reasons := damage(parent, quick=True):
        raise InputError(f"{reasons[0]}: 'parapet release verify' says more", parent.root)
    return parent


def _build(pipeline: beam.Pipeline, config: _Build) -> None:
    """Files -> rows -> shards; what stands goes into a summary, from which ``finish`` makes the release."""
    from parapet.transforms.release.building import BuildData, prepare, staging_of

    if pipeline.options.get_all_options().get("template_location"):
        raise InputError("a release is finished by the command that ran its job: leave it out", "--template_location")
    prepare(config.output, config.release)
    pipeline | "Build data" >> BuildData(config.plan, staging_of(config.output, config.release))


def _finish(config: _Build, counters: dict[str, int]) -> None:
    """Checks what the pipeline made, writes the documents, publishes. Raises InputError where nothing may be."""
    from parapet.transforms.release import building
    from parapet.transforms.release.building import check_faults, follow, make_manifest, read_summary
    from parapet.transforms.storage.files import clear

    staging = building.staging_of(config.output, config.release)
    folder = building.folder_of(config.output, config.release)
    try:
        summary = read_summary(staging)
        check_faults(summary, config.release.allow_problems)
        manifest = make_manifest(config.release, config.plan, summary, config.statistics)
        if config.parent is not None:
            follow(manifest, staging, config.parent)
        columns = {name: kept.columns for name, kept in config.plan.configs.items()}
        building.write_documents(manifest, columns, staging, config.parent, config.licence_text)
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


_VERIFY_DESCRIPTION = """\
Checks a release: its signature, every file against its checksum, the manifest, the keys and numbers of rows, and
dialogues against their schemas. Prints a line for each mismatch."""

_VERIFY_EXAMPLE = """\
  parapet release verify releases/my_dataset/1.0.0
  parapet release verify releases/my_dataset          # the version that latest.json names
  parapet release verify releases/my_dataset/1.0.0 --key release.pub
  parapet release verify gs://bucket/my_dataset/1.0.0 --json"""

_VERIFY_NOTE = """\
exit status: 0 without findings, 1 with findings, 2 if there is no release.
A release that somebody changed as a whole, hashes included, passes unless --key or --identity says who signed it."""


def _verify_parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release verify", _VERIFY_DESCRIPTION, _VERIFY_EXAMPLE, _VERIFY_NOTE)
    parser.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add = parser.group("signature")
    add("--key", metavar="FILE", help="public key (PEM) with which it must be signed")
    add("--identity", metavar="NAME", help="e-mail address or workflow that must have signed it with Sigstore")
    add("--issuer", metavar="URL", help="OpenID Connect provider that vouches for --identity")
    text = "Sigstore's root of trust (default: the one that its client has)"
    add("--trust_root", rare=True, metavar="FILE", help=text)
    add_json(parser)
    text = "local processes: a number, or auto: one a core where the release is large (default: auto)"
    parser.group(RUNNING)("--workers", rare=True, type=workers.number, default=workers.AUTO, metavar="N", help=text)
    return parser


def _check_verify(args: argparse.Namespace) -> argparse.Namespace:
    """Finds the release and the key. Raises InputError if there is no release, or flags do not go together."""
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.reading import find_release
    from parapet.transforms.release.verify import Trust, need, read_public_key

    args.root = find_release(args.release)
    if bool(args.identity) != bool(args.issuer):
        raise InputError("goes with --issuer, and --issuer with it", "--identity")
    if args.key and args.identity:
        raise InputError("is one way to sign, --identity another: give one of them", "--key")
    if args.trust_root and not args.identity:
        raise InputError("goes with --identity", "--trust_root")
    if args.identity:
        need("sigstore", "--identity")
        if args.trust_root and not as_path(args.trust_root).is_file():
            raise InputError("there is no such file", args.trust_root, "--trust_root")
    key = read_public_key(args.key) if args.key else b""
    args.trust = Trust(key, args.identity or "", args.issuer or "", args.trust_root or "")
    return args


def _verify(args: argparse.Namespace) -> int:
    """Checks, and prints the findings; returns the exit status."""
    from parapet.pipelines.progress import running
    from parapet.schemas.release import SIGNATURE
    from parapet.transforms.release.verify import examine

    with running("parapet release verify"):
        done = examine(args.root, None if args.workers == workers.AUTO else args.workers, args.trust)
    if args.json:
        print(json.dumps(msgspec.to_builtins(done), indent=2))
        return EXIT_FAILURE if done.findings else 0
    for finding in done.findings:
        print(finding)
    if (args.root / SIGNATURE).is_file() and not (args.key or args.identity):
        say("there is a signature, of this manifest; nobody asked by whom it is: --key or --identity does")
    numbers = ((done.files, "file"), (done.rows, "row"), (len(done.findings), "finding"))
    say(", ".join(counted(n, what) for n, what in numbers))
    return EXIT_FAILURE if done.findings else 0


_SIGN_DESCRIPTION = """\
Verifies a release and signs its MANIFEST.json, which has the hash of every other file. The signature is written beside
it, in Sigstore's bundle format: MANIFEST.json.sigstore.json. No other file changes."""

_SIGN_EXAMPLE = """\
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -out release.key && chmod 600 release.key
  openssl pkey -in release.key -pubout -out release.pub
  parapet release sign releases/my_dataset/1.0.0 --key release.key
  parapet release verify releases/my_dataset/1.0.0 --key release.pub"""

_SIGN_NOTE = """\
The password of an encrypted key is read from PARAPET_SIGNING_PASSWORD. Without a key of your own, Sigstore's client
signs with your identity: sigstore sign --bundle MANIFEST.json.sigstore.json MANIFEST.json

exit status: 0 where it is signed, 1 where it is not whole, 2 for wrong usage, a wrong key or without the extra."""


def _sign_parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("release sign", _SIGN_DESCRIPTION, _SIGN_EXAMPLE, _SIGN_NOTE)
    add = flags.group(INPUT)
    add("release", metavar="PATH", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("--key", required=True, metavar="FILE", help="private key that only you may read: ECDSA on P-256, PEM")
    return flags


def _check_sign(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError if there is no release or key, or the manifest names another key; MissingExtra."""
    from msgspec import UNSET

    from parapet.transforms.release.reading import find_release, read_manifest
    from parapet.transforms.release.verify import fingerprint, read_private_key

    args.root = find_release(args.release)
    signing = read_manifest(args.root).signing
    args.private_key = read_private_key(args.key)
    args.fingerprint = fingerprint(args.private_key.public_key())
    if signing is UNSET:
        logging.warning(
            "the manifest does not say that it is signed, so that nobody would miss the signature: "
            "name the key in release.toml, [signing] key = %r",
            args.fingerprint,
        )
    elif signing.key != args.fingerprint:
        reason = f"is {args.fingerprint}, but the release is to be signed by {signing.who}"
        raise InputError(reason, args.key, "--key")
    return args


def _sign(args: argparse.Namespace) -> int:
    """Verifies, signs; returns the exit status."""
    from parapet.pipelines.progress import running
    from parapet.schemas.release import MANIFEST, SIGNATURE
    from parapet.transforms.release.verify import examine, read_signature, sign
    from parapet.transforms.storage.files import join, whole

    root = args.root
    with running("parapet release sign"):
        findings = [finding for finding in examine(root).findings if finding.path != SIGNATURE]
    if findings:
        for finding in findings:
            print(finding)
        logging.error("%s in the release: it was not signed", counted(len(findings), "finding"))
        return EXIT_FAILURE
    bundle = sign((root / MANIFEST).read_bytes(), args.private_key)
    if read_signature(root) not in (None, bundle):
        raise InputError("there is another signature: delete it to sign anew", root / SIGNATURE)
    with whole(join(str(root), SIGNATURE)) as handle:
        handle.write(bundle)
    say(f"{root / SIGNATURE}: by the key {args.fingerprint}")
    return 0


_DIFF_DESCRIPTION = """\
Compares two releases row by row: which rows were added, removed and changed, in which columns the changed rows differ,
and which version number that requires. A release with files that are missing, or are not those that its manifest lists,
is not compared: what is wrong with it is printed."""

_DIFF_EXAMPLE = """\
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset --json"""

_DIFF_NOTE = (
    "exit status: 0 whether or not they differ, 1 if one is not as its manifest says, 2 if there is no release."
)


def _diff_parser() -> StrictParser:
    """Returns the command line."""
    parser = StrictParser("release diff", _DIFF_DESCRIPTION, _DIFF_EXAMPLE, _DIFF_NOTE)
    add = parser.group(INPUT)
    add("old", metavar="OLD", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("new", metavar="NEW", help="the release to compare with it")
    text = "compare the sizes of files with the manifests, not their hashes"
    parser.group(RUNNING)("--quick", rare=True, action="store_true", help=text)
    add_json(parser)
    return parser


def _check_diff(args: argparse.Namespace) -> argparse.Namespace:
    """Opens the releases. Raises InputError if one of the two is no release."""
    from parapet.transforms.release.reading import open_release

    args.old, args.new = open_release(args.old), open_release(args.new)
    return args


def _diff(args: argparse.Namespace) -> int:
    """Compares and prints; returns the exit status."""
    from parapet.transforms.release.diff import compare, damage, diff_lines

    sides = {"old": args.old, "new": args.new}
    damaged = [f"{side}: {reason}" for side, release in sides.items() for reason in damage(release, args.quick)]
    if damaged:
        print(json.dumps({"problems": damaged}, indent=2) if args.json else "\n".join(damaged))
        logging.error("not compared: 'parapet release verify' says more")
        return EXIT_FAILURE
    difference = compare(args.old, args.new)
    if difference.old.name != difference.new.name:
        logging.warning("these are two datasets: %s and %s", difference.old.name, difference.new.name)
    lines = diff_lines(difference)
    print(json.dumps(msgspec.to_builtins(difference), indent=2) if args.json else "\n".join(lines))
    return 0


_SHOW_DESCRIPTION = """\
Prints an overview of a release: licence, parent, configurations, splits, rows, counts, sources; or, given the folder
of a dataset, its versions."""

_SHOW_EXAMPLE = """\
  parapet release show releases/my_dataset
  parapet release show releases/my_dataset/1.0.0 --json"""


def _show_parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release show", _SHOW_DESCRIPTION, _SHOW_EXAMPLE)
    parser.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its versions; local or gs://")
    add_json(parser)
    return parser


def _check_show(args: argparse.Namespace) -> argparse.Namespace:
    """Reads the release or dataset. Raises InputError if there is none."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.release import MANIFEST
    from parapet.transforms.release import diff
    from parapet.transforms.release.reading import read_manifest

    root = as_path(args.release)
    if (root / MANIFEST).is_file():
        manifest = read_manifest(root)
        args.overview, args.lines = diff.overview(manifest), diff.release_lines(manifest)
    else:
        dataset = diff.read_dataset(root)
        args.overview, args.lines = diff.dataset_overview(dataset), diff.dataset_lines(dataset)
    return args


def _show(args: argparse.Namespace) -> None:
    """Prints it."""
    print(json.dumps(args.overview, indent=2) if args.json else "\n".join(args.lines))


_PUSH_DESCRIPTION = """\
Uploads a release to a dataset repository of yours on the Hugging Face Hub: verifies it, shows what will be done,
creates the repository if there is none, uploads the folder, and tags the commit with the version. Run again after an
error or a kill, it goes on; a version that is there already is never changed."""

_PUSH_EXAMPLE = """\
  parapet release push releases/my_dataset --repo ada/my_dataset --private --dry_run
  parapet release push releases/my_dataset --repo ada/my_dataset --private
  parapet release push releases/my_dataset/1.0.0          # to the repository that release.toml names as 'hub'"""

_PUSH_NOTE = """\
The token is read from HF_TOKEN, or from where 'hf auth login' has put it; it must be able to write.

exit status: 0 where the version is on the Hub, 1 where it is not, 2 for wrong usage, without a token or the extra."""


def _push_parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("release push", _PUSH_DESCRIPTION, _PUSH_EXAMPLE, _PUSH_NOTE)
    flags.group(INPUT)("release", metavar="PATH", help="NAME/VERSION, or NAME for its newest version; a local folder")
    add = flags.group("the Hub")
    add("--repo", metavar="OWNER/NAME", help="dataset repository (default: 'hub' of release.toml)")
    add("--private", action="store_true", help="create the repository as private (default: public)")
    add_dry_run(flags)
    text = "address of another Hub (default: HF_ENDPOINT, or https://huggingface.co)"
    add("--endpoint", rare=True, metavar="URL", default="", help=text)
    return flags


def _check_push(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError if there is no release, no repository, no token; MissingExtra without huggingface_hub."""
    from parapet.schemas.release import HUB, NO_LICENCE
    from parapet.transforms.release.hub import Hub, endpoint_of, find_token
    from parapet.transforms.release.reading import Release, find_release, read_manifest

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


def _push(args: argparse.Namespace) -> int:
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
    for line in _push_lines(release, hub, user, plan):
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


def _push_lines(release: Release, hub: Hub, user: str, plan: HubPlan) -> Iterator[str]:
    """What will be done."""
    from parapet.transforms.release.reading import printable

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


_PARSERS: dict[str, Callable[[], StrictParser]] = {
    "build": _build_parser,
    "verify": _verify_parser,
    "sign": _sign_parser,
    "diff": _diff_parser,
    "show": _show_parser,
    "push": _push_parser,
}
# What each action but build does: its check, its work, and the message after Ctrl-C.
_WORK: dict[str, tuple[Callable[..., argparse.Namespace], Callable[..., int | None], str]] = {
    "verify": (_check_verify, _verify, "nothing was changed"),
    "sign": (_check_sign, _sign, "the release was not changed"),
    "diff": (_check_diff, _diff, "nothing was changed"),
    "show": (_check_show, _show, "nothing was changed"),
    "push": (_check_push, _push, "run the same command again, it goes on from here"),
}


def parser(action: str) -> StrictParser:
    """The flags of an action."""
    return _PARSERS[action]()


def run_action(action: str, argv: Sequence[str]) -> int:
    """Runs an action. Returns the exit status."""
    if action == "build":
        return run_command(_build_parser(), argv, _check_build, _build, _finish, _inputs)
    return run_checked(parser(action), argv, *_WORK[action])


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet release", "action", ACTIONS, "", USAGE, argv, run_action)


if __name__ == "__main__":
    sys.exit(run())
