"""``parapet release sign``: a release with a key of one's own."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser
from parapet.schemas.errors import InputError

DESCRIPTION = """\
Verifies a release and signs its MANIFEST.json, which has the hash of every other file. The signature is written beside
it, in Sigstore's bundle format: MANIFEST.json.sigstore.json. No other file changes."""

EXAMPLE = """\
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -out release.key && chmod 600 release.key
  openssl pkey -in release.key -pubout -out release.pub
  parapet release sign releases/my_dataset/1.0.0 --key release.key
  parapet release verify releases/my_dataset/1.0.0 --key release.pub"""

NOTE = """\
The password of an encrypted key is read from PARAPET_SIGNING_PASSWORD. Without a key of your own, Sigstore's client
signs with your identity: sigstore sign --bundle MANIFEST.json.sigstore.json MANIFEST.json

exit status: 0 where it is signed, 1 where it is not whole, 2 for wrong usage, a wrong key or without the extra."""


def parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("release sign", DESCRIPTION, EXAMPLE, NOTE)
    add = flags.group(INPUT)
    add("release", metavar="PATH", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("--key", required=True, metavar="FILE", help="private key that only you may read: ECDSA on P-256, PEM")
    return flags


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Raises InputError if there is no release or key, or the manifest names another key; MissingExtra."""
    from msgspec import UNSET

    from parapet.transforms.release.opening import find_release, read_manifest
    from parapet.transforms.release.signing import fingerprint, read_private_key

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


def act(args: argparse.Namespace) -> int:
    """Verifies, signs; returns the exit status."""
    from parapet.pipelines.progress import running
    from parapet.schemas.release import MANIFEST, SIGNATURE
    from parapet.transforms.files import join, whole
    from parapet.transforms.release.signing import read_signature, sign
    from parapet.transforms.release.verify import examine

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


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release sign``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "the release was not changed")


if __name__ == "__main__":
    sys.exit(run())
