"""``parapet release verify``: is a release what it says it is?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import msgspec

from parapet.pipelines import workers
from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_json
from parapet.schemas.errors import InputError

DESCRIPTION = """\
Checks a release: its signature, every file against its checksum, the manifest, the keys and numbers of rows, and
dialogues against their schemas. Prints a line for each mismatch."""

EXAMPLE = """\
  parapet release verify releases/my_dataset/1.0.0
  parapet release verify releases/my_dataset          # the version that latest.json names
  parapet release verify releases/my_dataset/1.0.0 --key release.pub
  parapet release verify gs://bucket/my_dataset/1.0.0 --json"""

NOTE = """\
exit status: 0 without findings, 1 with findings, 2 if there is no release.
A release that somebody changed as a whole, hashes included, passes unless --key or --identity says who signed it."""


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


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Finds the release and the key. Raises InputError if there is no release, or flags do not go together."""
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.opening import find_release
    from parapet.transforms.release.signing import Trust, need, read_public_key

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


def act(args: argparse.Namespace) -> int:
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


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release verify``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "nothing was changed")


if __name__ == "__main__":
    sys.exit(run())
