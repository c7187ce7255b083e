"""``release sign`` and ``release verify --key``: by whom a release is, in Sigstore's bundle format."""

import hashlib
import json
import logging
import re
import shutil

import pytest
import release_folder as folder
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from kit import cases, refused, run, write

from parapet.schemas.release import Signing
from parapet.transforms.release.signing import Trust, fingerprint, problems, sign

SIGNATURE = "MANIFEST.json.sigstore.json"
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def write_key(path, key, password=b""):
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    path.touch(0o600)
    path.write_bytes(key.private_bytes(PEM, PKCS8, encryption))
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


@pytest.fixture(scope="module")
def key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("unsigned"), folder.sample_corpora(1))


@pytest.fixture
def root(pristine, key, tmp_path):
    """A release whose manifest names the key, not signed yet; the key is in ``tmp_path``."""
    shutil.copytree(pristine.parent, tmp_path / "little")
    name_signer(tmp_path / "little" / "1.0.0", Signing(fingerprint(key.public_key())))
    write_key(tmp_path / "own.key", key)
    write_key(tmp_path / "foreign.key", ec.generate_private_key(ec.SECP256R1()))
    return tmp_path / "little" / "1.0.0"


def name_signer(root, signing):
    def change(manifest):
        manifest.signing = signing
        manifest.configuration["signing"] = {k: v for k, v in vars_of(signing).items() if v}
        text = json.dumps(manifest.configuration, sort_keys=True, separators=(",", ":"))
        manifest.configuration_sha256 = hashlib.sha256(text.encode()).hexdigest()

    folder.edit_manifest(root, change)


def vars_of(signing):
    return {name: getattr(signing, name) for name in ("key", "identity", "issuer")}


def test_a_signed_release_is_verified_and_whatever_happens_to_it_is_found(root, tmp_path):
    own, foreign = tmp_path / "own.key", tmp_path / "foreign.key"

    def release(action, **flags):
        return run("release", action, root, **flags)

    missing = f"{SIGNATURE}: is missing: MANIFEST.json says that the release is signed by the key sha256:"
    assert missing in release("verify", status=1).output
    release("sign", key=foreign, status=2)
    assert not (root / SIGNATURE).exists()
    said = release("sign", key=own)
    signature = (root / SIGNATURE).read_bytes()
    again = release("sign", key=own)
    assert (root / SIGNATURE).read_bytes() == signature  # the same bytes again
    assert "PRIVATE" not in said.output + said.errors + again.output + again.errors
    assert "it was not checked who made it" in release("verify").output
    release("verify", key=own.with_suffix(".pub"))
    said = release("verify", key=foreign.with_suffix(".pub"), status=1).output
    assert f"{SIGNATURE}: is not by the key sha256:" in said

    # Somebody rewrites the release as a whole, all checksums with it, and signs it with a key of theirs.
    folder.edit_manifest(root, lambda manifest: manifest.code.update(sha256="0" * 64))
    said = release("verify", key=own.with_suffix(".pub"), status=1).output
    assert f"{SIGNATURE}: belongs to another MANIFEST.json" in said
    forged = serialization.load_pem_private_key(foreign.read_bytes(), None)
    assert isinstance(forged, ec.EllipticCurvePrivateKey)
    (root / SIGNATURE).write_bytes(sign((root / "MANIFEST.json").read_bytes(), forged))
    release("verify", key=own.with_suffix(".pub"), status=1)
    said = release("verify", key=foreign.with_suffix(".pub"), status=1).output
    assert "but MANIFEST.json names the key sha256:" in said
    # Or takes the signature away, and the manifest's word for it.
    (root / SIGNATURE).unlink()
    release("verify", status=1)
    shutil.rmtree(root.parent)


def test_an_unsigned_release_is_not_taken_where_a_signature_is_asked_for(pristine, root, tmp_path):
    said = run("release", "verify", pristine, key=tmp_path / "own.pub", status=1).output
    assert f"{SIGNATURE}: is missing: the release is not signed" in said
    run("release", "verify", pristine, identity="ada@example.org", issuer="https://example.org", status=1)


def test_keys_that_are_not_taken(root, tmp_path, monkeypatch):
    own = tmp_path / "own.key"

    def told(action, path):
        return refused("release", action, root, key=path)

    assert "there is no such file" in told("sign", tmp_path / "none")
    write_key(tmp_path / "x.key", ed25519.Ed25519PrivateKey.generate()).with_suffix(".pub").chmod(0o600)
    assert "is not a private key" in told("sign", tmp_path / "x.pub")
    assert "is a key of another kind" in told("sign", tmp_path / "x.key")
    write_key(tmp_path / "p384.key", ec.generate_private_key(ec.SECP384R1()))
    assert "is a private key: give the public key" in told("verify", own)
    assert "is a key of another kind" in told("verify", tmp_path / "p384.pub")
    assert "is not a public key" in told("verify", write(tmp_path / "junk", ""))
    own.chmod(0o640)
    assert "other users can read this private key" in told("sign", own)
    secret = write_key(tmp_path / "secret.key", ec.generate_private_key(ec.SECP256R1()), b"open sesame")
    assert "is encrypted: set PARAPET_SIGNING_PASSWORD" in told("sign", secret)
    monkeypatch.setenv("PARAPET_SIGNING_PASSWORD", "wrong horse")
    text = told("sign", secret)
    assert "the password is wrong" in text
    assert "horse" not in text
    monkeypatch.setenv("PARAPET_SIGNING_PASSWORD", "open sesame")
    assert "but the release must be signed by the key sha256:" in told("sign", secret)


@pytest.mark.parametrize(
    "bundle",
    [b"", b"{}", b"[" * 5000, b'{"mediaType": 1}', b"\xff", b"null"],
    ids=["empty", "object", "deep", "kind", "bytes", "null"],
)
def test_a_signature_that_is_none(pristine, bundle):
    found = list(problems((pristine / "MANIFEST.json").read_bytes(), bundle, folder.manifest_of(pristine), Trust()))
    assert found == ["is not a signature in Sigstore's bundle format"]


def test_a_damaged_signature(pristine, key):
    data, manifest = (pristine / "MANIFEST.json").read_bytes(), folder.manifest_of(pristine)
    public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    bundle = json.loads(sign(data, key))
    text = bundle["messageSignature"]["signature"]
    for changed in (text[4:], "", text[:8] + ("A" if text[8] != "A" else "B") + text[9:]):
        bundle["messageSignature"]["signature"] = changed
        (reason,) = problems(data, json.dumps(bundle).encode(), manifest, Trust(public))
        assert re.match("is not by the key sha256:|is not a signature in Sigstore's", reason)


@pytest.mark.thorough
def test_a_key_is_no_identity(pristine, key, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # Sigstore's client keeps its root of trust there
    data, manifest = (pristine / "MANIFEST.json").read_bytes(), folder.manifest_of(pristine)
    trust = Trust(identity="ada@example.org", issuer="https://accounts.example.org")
    (reason,) = problems(data, sign(data, key), manifest, trust)
    assert reason.startswith("is not by ada@example.org (https://accounts.example.org): ")
    assert logging.getLogger("sigstore").level == logging.ERROR


@cases(
    "flags reason",
    (["--identity", "a@b.c"], "--identity: and --issuer must be given together"),
    (["--issuer", "https://x"], "--identity: and --issuer must be given together"),
    (["--key", "own.pub", "--identity", "a@b.c", "--issuer", "x"], "--key: cannot be combined with --identity"),
    (["--trust_root", "x"], "--trust_root: requires --identity"),
    (["--identity", "a@b.c", "--issuer", "x", "--trust_root", "none"], "none: --trust_root: there is no such file"),
)
def test_flags_that_do_not_go_together(flags, reason, pristine):
    assert reason in refused("release", "verify", str(pristine), *flags)
