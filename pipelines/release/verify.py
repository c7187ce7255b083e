"""``parapet release verify``: is a release what it says it is?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines import workers
from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_json
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.transforms.release.signing import Trust

DESCRIPTION = """\
Checks every file, row and number of a release: against its checksums and its manifest, dialogues against their
schemas, JSON against Parquet, documents against the manifest. Prints a line for each mismatch."""

EXAMPLE = """\
  parapet release verify releases/my_dataset/1.0.0
  parapet release verify releases/my_dataset          # the version that latest.json names
  parapet release verify releases/my_dataset/1.0.0 --key release.pub
  parapet release verify gs://bucket/my_dataset/1.0.0 --json"""

NOTE = """\
exit status: 0 without findings, 1 with findings, 2 if there is no release.
A release that somebody changed as a whole, hashes included, passes unless --key or --identity says who signed it."""


class Config(msgspec.Struct, frozen=True):
    """A release, who must have signed it, how many processes read it (None: one a core where it is large), as JSON?"""

    root: Path
    trust: Trust
    processes: int | None
    json: bool


def parser() -> StrictParser:
    """The command line."""
    parser = StrictParser("release verify", DESCRIPTION, EXAMPLE, NOTE)
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


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no release."""
    from parapet.transforms.release.verify.examine import find_release

    processes = None if args.workers == workers.AUTO else args.workers
    return Config(find_release(args.release), _trust(args), processes, args.json)


def _trust(args: argparse.Namespace) -> Trust:
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.signing import Trust, need_sigstore, read_public_key

    if bool(args.identity) != bool(args.issuer):
        raise InputError("goes with --issuer, and --issuer with it", "--identity")
    if args.key and args.identity:
        raise InputError("is one way to sign, --identity another: give one of them", "--key")
    if args.trust_root and not args.identity:
        raise InputError("goes with --identity", "--trust_root")
    if args.identity:
        need_sigstore()
        if args.trust_root and not as_path(args.trust_root).is_file():
            raise InputError("there is no such file", args.trust_root, "--trust_root")
    return Trust(
        read_public_key(args.key) if args.key else b"", args.identity or "", args.issuer or "", args.trust_root or ""
    )


def act(config: Config) -> int:
    """Checks and prints the findings."""
    from parapet.pipelines.progress import running
    from parapet.transforms.release.verify.examine import examine

    with running("parapet release verify"):
        done = examine(config.root, config.processes, config.trust)
    if config.json:
        print(json.dumps(msgspec.to_builtins(done), indent=2))
    else:
        for finding in done.findings:
            print(finding)
        if done.not_compared:
            documents = ", ".join(done.not_compared)
            say(f"another version of Parapet wrote {documents}: of these, only the facts were compared, not the text")
        _say_signature(config)
        numbers = ((done.files, "file"), (done.rows, "row"), (len(done.findings), "finding"))
        say(", ".join(counted(n, what) for n, what in numbers))
    return EXIT_FAILURE if done.findings else 0


def _say_signature(config: Config) -> None:
    from parapet.schemas.release_manifest import SIGNATURE

    if (config.root / SIGNATURE).is_file() and not (config.trust.key or config.trust.identity):
        say("there is a signature, of this manifest; nobody asked by whom it is: --key or --identity does")


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release verify``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
