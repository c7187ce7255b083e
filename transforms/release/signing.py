"""Signatures of releases, in Sigstore's bundle format: of MANIFEST.json, which has the hash of every other file.

A signature is made with a key of one's own (ECDSA on P-256, as cosign makes them), or without one by Sigstore's client,
which binds it to an identity. ``cosign verify-blob --key`` and ``sigstore verify identity`` read the same files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.release_config import Signing
from parapet.schemas.release_manifest import MANIFEST, SIGNATURE, Manifest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PASSWORD = "PARAPET_SIGNING_PASSWORD"  # noqa: S105
EXTRA = "sign"

_HOW = "an ECDSA key on the curve P-256, PEM"
_MOST = 2**20  # bytes of a bundle or a key; both have a few thousand


class _Digest(msgspec.Struct):
    algorithm: str
    digest: str


class _MessageSignature(msgspec.Struct, rename="camel"):
    message_digest: _Digest
    signature: str


class _PublicKey(msgspec.Struct):
    hint: str


class _Material(msgspec.Struct, rename="camel", omit_defaults=True):
    public_key: _PublicKey | None = None
    tlog_entries: list[msgspec.Raw] = msgspec.field(default_factory=list)


class Bundle(msgspec.Struct, rename="camel"):
    """The part of a Sigstore bundle that signatures with keys have; others are read by Sigstore's client."""

    media_type: str
    verification_material: _Material
    message_signature: _MessageSignature


class Trust(msgspec.Struct, frozen=True):
    """By whom a release has to be signed: a public key, or an identity and who vouches for it; nothing: anybody.

    Attributes:
      key: the PEM of a public key.
      identity: an e-mail address, or the URL of a workflow.
      issuer: the URL of the OpenID Connect provider.
      trust_root: a file with Sigstore's root of trust; empty: the one that its client has.
    """

    key: bytes = b""
    identity: str = ""
    issuer: str = ""
    trust_root: str = ""


def sign(data: bytes, key: EllipticCurvePrivateKey) -> bytes:
    """Signs bytes; gives the bundle. The same key and bytes give the same bundle (RFC 6979)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature = key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    hint = _base64(bytes.fromhex(fingerprint(key.public_key()).removeprefix("sha256:")))
    digest = _Digest("SHA2_256", _base64(hashlib.sha256(data).digest()))
    bundle = Bundle(MEDIA_TYPE, _Material(_PublicKey(hint)), _MessageSignature(digest, _base64(signature)))
    return msgspec.json.format(msgspec.json.encode(bundle), indent=2) + b"\n"


def fingerprint(key: EllipticCurvePublicKey) -> str:
    """How ``release.toml`` and the manifest name a public key: ``sha256:`` and the SHA-256 of its DER form."""
    from cryptography.hazmat.primitives import serialization

    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def read_private_key(path: str) -> EllipticCurvePrivateKey:
    """A private key. Raises InputError where others may read it, or it is none; MissingExtra without cryptography."""
    _need("cryptography", "--key")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    data = _read_small(path)
    if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        raise InputError("others may read this private key: chmod 600 it, and think about a new one", path, "--key")
    password = os.environ.get(PASSWORD, "").encode() or None
    try:
        key = serialization.load_pem_private_key(data, password if b"ENCRYPTED" in data else None)
    except TypeError:
        raise InputError(f"is encrypted: set {PASSWORD}", path, "--key") from None
    except Exception:  # what it says could be of the key
        raise InputError(f"is no private key, or its password is another one: expected {_HOW}", path, "--key") from None
    _check_p256(key, path)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def read_public_key(path: str) -> bytes:
    """The PEM of a public key. Raises InputError where it is none; MissingExtra without cryptography."""
    _need("cryptography", "--key")
    data = _read_small(path)
    if b"PRIVATE KEY" in data:
        raise InputError("is a private key: give the public one, and keep this one to yourself", path, "--key")
    _public_key(data, path)
    return data


def _public_key(data: bytes, path: object = "") -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_public_key(data)
    except Exception:
        raise InputError(f"is no public key: expected {_HOW}", path, "--key") from None
    _check_p256(key, path)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def _check_p256(key: Any, path: object) -> None:
    curve = getattr(key, "curve", None)
    if getattr(curve, "name", "") != "secp256r1":
        raise InputError(f"is a key of another kind: expected {_HOW}", path, "--key")


def problems(data: bytes, bundle: bytes | None, manifest: Manifest, trust: Trust) -> Iterator[str]:
    """Why a release does not count as signed, in a sentence each; nothing where it does, or nobody asked.

    Args:
      data: MANIFEST.json.
      bundle: its signature's file; None where there is none.
      manifest: what ``data`` holds: it may say who signs it.
      trust: who has to have signed it; where that is nobody, only what contradicts itself is a problem.
    """
    named = None if manifest.signing is UNSET else manifest.signing
    if bundle is None:
        if named:
            yield f"is missing: {MANIFEST} says that the release is signed by {named.who}"
        elif trust != Trust():
            yield "is missing: the release is not signed"
        return
    try:
        parsed = msgspec.json.decode(bundle, type=Bundle)
        digest = base64.b64decode(parsed.message_signature.message_digest.digest, validate=True)
        signature = base64.b64decode(parsed.message_signature.signature, validate=True)
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError, RecursionError):
        yield "is no signature in Sigstore's bundle format"
        return
    if digest != hashlib.sha256(data).digest():
        yield f"is of another {MANIFEST}"
    elif trust.key:
        yield from _by_key(data, signature, _public_key(trust.key), named)
    elif trust.identity:
        yield from _by_identity(data, bundle, trust, named)


def _by_key(data: bytes, signature: bytes, key: EllipticCurvePublicKey, named: Signing | None) -> Iterator[str]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        yield f"is not by the key {fingerprint(key)}"
        return
    if named and named.key != fingerprint(key):
        yield f"is by the key {fingerprint(key)}, but {MANIFEST} names {named.who}"


def _by_identity(data: bytes, bundle: bytes, trust: Trust, named: Signing | None) -> Iterator[str]:
    from sigstore.models import Bundle as SigstoreBundle
    from sigstore.models import ClientTrustConfig, TrustedRoot
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    logging.getLogger("sigstore").setLevel(logging.ERROR)
    try:
        if trust.trust_root:
            root = TrustedRoot.from_file(trust.trust_root)
        else:
            root = ClientTrustConfig.production(offline=True).trusted_root
    except Exception as error:
        raise InputError(f"is no root of trust of Sigstore: {error}", trust.trust_root, "--trust_root") from None
    try:
        policy = Identity(identity=trust.identity, issuer=trust.issuer)
        Verifier(trusted_root=root).verify_artifact(data, SigstoreBundle.from_json(bundle), policy)
    except Exception as error:  # a bundle of a stranger can raise anything
        yield f"is not by {trust.identity} ({trust.issuer}): {str(error) or type(error).__name__}"
        return
    if named and (named.identity, named.issuer) != (trust.identity, trust.issuer):
        yield f"is by {trust.identity} ({trust.issuer}), but {MANIFEST} names {named.who}"


def read_signature(root: Path) -> bytes | None:
    """The file of the signature; None where there is none."""
    path = root / SIGNATURE
    return path.open("rb").read(_MOST) if path.is_file() else None


def _read_small(path: str) -> bytes:
    place = Path(path)
    if not place.is_file():
        raise InputError("there is no such file", path, "--key")
    with place.open("rb") as handle:
        return handle.read(_MOST)


def _need(package: str, flag: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingExtra(package, EXTRA, flag)


def need_sigstore() -> None:
    """Raises MissingExtra without Sigstore's client."""
    _need("sigstore", "--identity")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
