"""Signatures of releases in Sigstore's bundle format. They sign MANIFEST.json, which has the hash of every other file.

A signature is created with a private key (ECDSA on P-256, as in cosign), or without a key by Sigstore's client, which
binds it to an identity. ``cosign verify-blob --key`` and ``sigstore verify identity`` read the same files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.release import MANIFEST, SIGNATURE, Manifest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PASSWORD = "PARAPET_SIGNING_PASSWORD"  # noqa: S105
_MOST = 2**20  # bytes of a bundle or a key; usual ones have a few thousand


class Trust(msgspec.Struct, frozen=True):
    """The required signer of a release: the owner of a public key, or an identity.

    If both are empty, no signer is required.

    Attributes:
      key: the PEM of a public key.
      identity: an e-mail address, or the URL of a workflow.
      issuer: the URL of the OpenID Connect provider.
      trust_root: a file with Sigstore's root of trust; empty for the client's own.
    """

    key: bytes = b""
    identity: str = ""
    issuer: str = ""
    trust_root: str = ""


def sign(data: bytes, key: EllipticCurvePrivateKey) -> bytes:
    """Sign bytes and return the bundle. The same key and bytes give the same bundle (RFC 6979)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    signature = key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    hint = bytes.fromhex(fingerprint(key.public_key()).removeprefix("sha256:"))
    digest = {"algorithm": "SHA2_256", "digest": _base64(hashlib.sha256(data).digest())}
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": _base64(hint)}},
        "messageSignature": {"messageDigest": digest, "signature": _base64(signature)},
    }
    return json.dumps(bundle, indent=2).encode() + b"\n"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def fingerprint(key: EllipticCurvePublicKey) -> str:
    """Return the id of a public key in ``release.toml`` and the manifest: ``sha256:`` and the hash of its DER form."""
    from cryptography.hazmat.primitives import serialization

    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def need(package: str, flag: str) -> None:
    """Raise MissingExtra if a package of the extra is not installed."""
    if find_spec(package) is None:
        raise MissingExtra(package, "sign", flag)


def read_private_key(path: str) -> EllipticCurvePrivateKey:
    """Read a private key. Raises InputError if it is invalid or other users may read it; MissingExtra."""
    data = _read_key(path)
    from cryptography.hazmat.primitives import serialization

    if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        raise InputError(
            "other users can read this private key: run chmod 600 on it, and consider making a new key", path, "--key"
        )
    password = os.environ.get(PASSWORD, "").encode() or None if b"ENCRYPTED" in data else None
    problem = "private key, or the password is wrong"
    key: EllipticCurvePrivateKey = _p256(lambda: serialization.load_pem_private_key(data, password), problem, path)
    return key


def read_public_key(path: str) -> bytes:
    """Read the PEM of a public key. Raises InputError if it is invalid; MissingExtra without cryptography."""
    data = _read_key(path)
    if b"PRIVATE KEY" in data:
        raise InputError("is a private key: give the public key, and keep this one secret", path, "--key")
    _public_key(data, path)
    return data


def _read_key(path: str) -> bytes:
    need("cryptography", "--key")
    if not Path(path).is_file():
        raise InputError("there is no such file", path, "--key")
    with open(path, "rb") as handle:
        return handle.read(_MOST)


def _public_key(data: bytes, path: object = "") -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives import serialization

    key: EllipticCurvePublicKey = _p256(lambda: serialization.load_pem_public_key(data), "public key", path)
    return key


def _p256(load: Callable[[], Any], what: str, path: object) -> Any:
    try:
        key = load()
    except TypeError:
        raise InputError(f"is encrypted: set {PASSWORD} to its password", path, "--key") from None
    except Exception:  # its message could contain parts of the key
        raise InputError(
            f"is not a {what}: expected an ECDSA key on the curve P-256, in PEM format", path, "--key"
        ) from None
    if getattr(getattr(key, "curve", None), "name", "") != "secp256r1":
        raise InputError(
            "is a key of another kind: expected an ECDSA key on the curve P-256, in PEM format", path, "--key"
        )
    return key


def read_signature(root: Path) -> bytes | None:
    """Read the file of the signature; None if it is missing."""
    path = root / SIGNATURE
    if not path.is_file():
        return None
    with path.open("rb") as handle:
        return handle.read(_MOST)


def problems(data: bytes, bundle: bytes | None, manifest: Manifest, trust: Trust) -> Iterator[str]:
    """Explain why a release does not count as signed, one sentence per reason.

    Args:
      data: the content of MANIFEST.json.
      bundle: the file of its signature; None if it is missing.
      manifest: the parsed ``data``, which may name the signer.
      trust: the required signer; if there is none, only contradictions are problems.
    """
    named = None if manifest.signing is UNSET else manifest.signing
    if bundle is None:
        if named:
            yield f"is missing: {MANIFEST} says that the release is signed by {named.who}"
        elif trust != Trust():
            yield "is missing: the release is not signed"
        return
    try:
        message = json.loads(bundle)["messageSignature"]
        digest = base64.b64decode(message["messageDigest"]["digest"], validate=True)
        signature = base64.b64decode(message["signature"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        yield "is not a signature in Sigstore's bundle format"
        return
    if digest != hashlib.sha256(data).digest():
        yield f"belongs to another {MANIFEST}"
    elif trust.key:
        key = _public_key(trust.key)
        yield from _disagreements(
            f"the key {fingerprint(key)}",
            _reason_against_key(data, signature, key),
            named.who if named and named.key != fingerprint(key) else "",
        )
    elif trust.identity:
        other = named and (named.identity, named.issuer) != (trust.identity, trust.issuer)
        yield from _disagreements(
            f"{trust.identity} ({trust.issuer})",
            _reason_against_identity(data, bundle, trust),
            named.who if named and other else "",
        )


def _disagreements(signer: str, reason: str | None, other: str) -> Iterator[str]:
    if reason is not None:
        yield f"is not by {signer}{reason}"
    elif other:
        yield f"is by {signer}, but {MANIFEST} names {other}"


def _reason_against_key(data: bytes, signature: bytes, key: EllipticCurvePublicKey) -> str | None:
    """Return None if the key made the signature, else a reason, which may be empty."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return ""
    return None


def _reason_against_identity(data: bytes, bundle: bytes, trust: Trust) -> str | None:
    """Return None if the identity made the bundle, else a reason."""
    from sigstore.models import Bundle, ClientTrustConfig, TrustedRoot
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    logging.getLogger("sigstore").setLevel(logging.ERROR)
    try:
        if trust.trust_root:
            root = TrustedRoot.from_file(trust.trust_root)
        else:
            root = ClientTrustConfig.production(offline=True).trusted_root
    except Exception as error:
        raise InputError(f"is not a root of trust for Sigstore: {error}", trust.trust_root, "--trust_root") from None
    try:
        policy = Identity(identity=trust.identity, issuer=trust.issuer)
        Verifier(trusted_root=root).verify_artifact(data, Bundle.from_json(bundle), policy)
    except Exception as error:  # a bundle of unknown origin can raise anything
        return f": {str(error) or type(error).__name__}"
    return None
