"""``parapet release sign``: a release with a key of one's own."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from parapet.transforms.release.opening import Release

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


class Config(msgspec.Struct, frozen=True):
    """A release, and the private key to sign it with."""

    release: Release
    key: EllipticCurvePrivateKey


def parser() -> StrictParser:
    """The command line."""
    flags = StrictParser("release sign", DESCRIPTION, EXAMPLE, NOTE)
    add = flags.group(INPUT)
    add("release", metavar="PATH", help="NAME/VERSION, or NAME for its latest; local or gs://")
    add("--key", required=True, metavar="FILE", help="private key that only you may read: ECDSA on P-256, PEM")
    return flags


def check(args: argparse.Namespace) -> Config:
    """Raises InputError where there is no release or key, or the manifest names another; MissingExtra."""
    from msgspec import UNSET

    from parapet.transforms.release.opening import Release, read_manifest
    from parapet.transforms.release.signing import fingerprint, read_private_key
    from parapet.transforms.release.verify.examine import find_release

    root = find_release(args.release)
    manifest = read_manifest(root)
    key = read_private_key(args.key)
    own = fingerprint(key.public_key())
    if manifest.signing is UNSET:
        logging.warning(
            "the manifest does not say that it is signed, so that nobody would miss the signature: "
            "name the key in release.toml, [signing] key = %r",
            own,
        )
    elif manifest.signing.key != own:
        raise InputError(f"is {own}, but the release is to be signed by {manifest.signing.who}", args.key, "--key")
    return Config(Release(root, manifest), key)


def act(config: Config) -> int:
    """Verifies, signs. Gives the exit status."""
    from parapet.pipelines.progress import running
    from parapet.schemas.release_manifest import MANIFEST, SIGNATURE
    from parapet.transforms.files import join, whole
    from parapet.transforms.release.signing import fingerprint, read_signature, sign
    from parapet.transforms.release.verify.examine import examine

    root = config.release.root
    with running("parapet release sign"):
        findings = [one for one in examine(root).findings if one.path != SIGNATURE]
    if findings:
        for finding in findings:
            print(finding)
        logging.error("%s in the release: it was not signed", counted(len(findings), "finding"))
        return EXIT_FAILURE
    bundle = sign(config.release.read(MANIFEST), config.key)
    before = read_signature(root)
    if before not in (None, bundle):
        raise InputError("there is another signature: delete it to sign anew", root / SIGNATURE)
    with whole(join(str(root), SIGNATURE)) as handle:
        handle.write(bundle)
    say(f"{root / SIGNATURE}: by the key {fingerprint(config.key.public_key())}")
    return 0


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release sign``. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "the release was not changed")


if __name__ == "__main__":
    sys.exit(run())
