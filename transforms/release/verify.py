"""Verifies a release: its signature, its files, its manifest, its rows and what its dialogues refer to.

Checksums prove that files are the ones that ``build`` wrote. Beyond that, the check reads schemas and dialogues, counts
them, and compares their ids with the keys of the Parquet files. Somebody who rewrites a whole release, all hashes
included, can pass; only a signature shows that.

Signatures are in Sigstore's bundle format, of MANIFEST.json, which has the hash of every other file. One is made with
one's own key (ECDSA on P-256, as cosign makes them), or without a key by Sigstore's client, which binds it to an
identity. ``cosign verify-blob --key`` and ``sigstore verify identity`` read the same files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import multiprocessing
import os
import re
import signal
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
from msgspec import UNSET

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_table import collection_paused
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.layout import DIALOGUE_FILE, SINGLE, as_path, read_schema_file
from parapet.schemas.release import (
    COUNTED,
    DOCUMENTS,
    MANIFEST,
    NAME,
    SIGNATURE,
    VERSION,
    Config,
    File,
    Manifest,
    SplitInfo,
)
from parapet.schemas.service import Service
from parapet.transforms.release.plan import (
    KINDS,
    SCHEMAS,
    Counts,
    Found,
    Source,
    check_dialogues,
    count_answers,
    read_source,
)
from parapet.transforms.release.reading import (
    Digest,
    Finding,
    Findings,
    check_files,
    digest_of,
    is_inside,
    key_text,
    plain_type,
    present_files,
    read_manifest,
    shard_of,
)
from parapet.transforms.running.progress import advance, expect

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PASSWORD = "PARAPET_SIGNING_PASSWORD"  # noqa: S105
EXTRA = "sign"

_HOW = "an ECDSA key on the curve P-256, PEM"
_MOST = 2**20  # bytes of a bundle or a key; both have a few thousand


class Trust(msgspec.Struct, frozen=True):
    """Who must have signed a release: the owner of a public key, or an identity; with neither, nobody in particular.

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
    """Signs bytes; returns the bundle. The same key and bytes give the same bundle (RFC 6979)."""
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


def fingerprint(key: EllipticCurvePublicKey) -> str:
    """Returns the name of a public key in ``release.toml`` and the manifest: ``sha256:`` and that of its DER form."""
    from cryptography.hazmat.primitives import serialization

    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def read_private_key(path: str) -> EllipticCurvePrivateKey:
    """Reads a private key. Raises InputError if others may read it, or it is none; MissingExtra."""
    data = _read_key(path)
    from cryptography.hazmat.primitives import serialization

    if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        raise InputError("others may read this private key: chmod 600 it, and think about a new one", path, "--key")
    password = os.environ.get(PASSWORD, "").encode() or None
    try:
        key: Any = serialization.load_pem_private_key(data, password if b"ENCRYPTED" in data else None)
    except TypeError:
        raise InputError(f"is encrypted: set {PASSWORD}", path, "--key") from None
    except Exception:  # its message could contain parts of the key
        raise InputError(f"is no private key, or its password is another one: expected {_HOW}", path, "--key") from None
    _check_p256(key, path)
    return key  # type: ignore[no-any-return]


def read_public_key(path: str) -> bytes:
    """Reads the PEM of a public key. Raises InputError if it is none; MissingExtra without cryptography."""
    data = _read_key(path)
    if b"PRIVATE KEY" in data:
        raise InputError("is a private key: give the public one, and keep this one to yourself", path, "--key")
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

    try:
        key: Any = serialization.load_pem_public_key(data)
    except Exception:
        raise InputError(f"is no public key: expected {_HOW}", path, "--key") from None
    _check_p256(key, path)
    return key  # type: ignore[no-any-return]


def _check_p256(key: Any, path: object) -> None:
    if getattr(getattr(key, "curve", None), "name", "") != "secp256r1":
        raise InputError(f"is a key of another kind: expected {_HOW}", path, "--key")


def problems(data: bytes, bundle: bytes | None, manifest: Manifest, trust: Trust) -> Iterator[str]:
    """Says why a release does not count as signed, in a sentence each.

    Args:
      data: MANIFEST.json.
      bundle: its signature's file; None if there is none.
      manifest: what ``data`` holds: it may say who signs it.
      trust: who must have signed it; if that is nobody, only contradictions are problems.
    """
    named = None if manifest.signing is UNSET else manifest.signing
    if bundle is None:
        if named:
            yield f"is missing: {MANIFEST} says that the release is signed by {named.who}"
        elif trust != Trust():
            yield "is missing: the release is not signed"
        return
    try:
        parsed = json.loads(bundle)
        message = parsed["messageSignature"]
        digest, signature = (
            base64.b64decode(text, validate=True) for text in (message["messageDigest"]["digest"], message["signature"])
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        yield "is no signature in Sigstore's bundle format"
        return
    if digest != hashlib.sha256(data).digest():
        yield f"is of another {MANIFEST}"
        return
    if trust.key:
        key = _public_key(trust.key)
        reason, signer = _signed_by_key(data, signature, key), f"the key {fingerprint(key)}"
        is_named = not named or named.key == fingerprint(key)
    elif trust.identity:
        reason, signer = _signed_by_identity(data, bundle, trust), f"{trust.identity} ({trust.issuer})"
        is_named = not named or (named.identity, named.issuer) == (trust.identity, trust.issuer)
    else:
        return
    if reason is not None:
        yield f"is not by {signer}{reason}"
    elif named and not is_named:
        yield f"is by {signer}, but {MANIFEST} names {named.who}"


def _signed_by_key(data: bytes, signature: bytes, key: EllipticCurvePublicKey) -> str | None:
    """Returns None if the signature is by the key, else a reason."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return ""
    return None


def _signed_by_identity(data: bytes, bundle: bytes, trust: Trust) -> str | None:
    """Returns None if the bundle is by the identity, else a reason."""
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
        raise InputError(f"is no root of trust of Sigstore: {error}", trust.trust_root, "--trust_root") from None
    try:
        policy = Identity(identity=trust.identity, issuer=trust.issuer)
        Verifier(trusted_root=root).verify_artifact(data, Bundle.from_json(bundle), policy)
    except Exception as error:  # a bundle of a stranger can raise anything
        return f": {str(error) or type(error).__name__}"
    return None


def read_signature(root: Path) -> bytes | None:
    """Reads the file of the signature; returns None if there is none."""
    path = root / SIGNATURE
    return path.open("rb").read(_MOST) if path.is_file() else None


def need(package: str, flag: str) -> None:
    """Raises MissingExtra if a package of the extra is not installed."""
    if find_spec(package) is None:
        raise MissingExtra(package, EXTRA, flag)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


LARGE = 64 * 2**20  # bytes from which on several processes read a release faster than one

_RECORDS = ("dialogue", "service", "paraphrase", "row")
_FAULTS_SHOWN = 5  # of each kind
_SHARD = re.compile(r"data/([^/]+)/([^/]+)-([0-9]{5,})-of-([0-9]{5,})\.parquet")
_COPY = re.compile(r"sgd/([^/]+)/(?:([^/]+)/)?([^/]+\.json)")
# Names, at any depth of a column's type, of what tells who a worker is, or when somebody was at work.
_PRIVATE = re.compile(r"(?i)\b(worker\w*|accept_time|submit_time)\b(?=:|$)")

_decode = msgspec.json.Decoder(list[Dialogue]).decode

Place = tuple[str, str]  # configuration and split


class Verification(msgspec.Struct):
    """The result.

    Attributes:
      path: the release's folder.
      files: how many were read.
      rows: how many were read.
      findings: by file.
    """

    path: str
    files: int
    rows: int
    findings: list[Finding]


class _Task(msgspec.Struct, frozen=True):
    """A file to read: a JSON file of a corpus, a Parquet file, or, with neither, any other.

    Attributes:
      root: the release.
      file: the file.
      present: whether it is there, and no link.
      place: the configuration and split that its rows belong to.
      json: the JSON file as ``build`` reads it.
      services: those that the dialogues of the JSON file may refer to; None where their schemas cannot be read.
      parquet: the configuration of the Parquet file.
    """

    root: str
    file: File
    present: bool
    place: Place = ("", "")
    json: Source | None = None
    services: dict[str, Service] | None = None
    parquet: Config | None = None


class _Content(msgspec.Struct):
    """What a file holds.

    Attributes:
      digest: None where the file cannot be read.
      keys: of its rows; None where they cannot be read.
      services: by name, of a schema file.
      counts: as ``build`` counts.
      faults: the first of each kind.
      findings: what is wrong in it.
    """

    digest: Digest | None = None
    keys: list[str] | None = None
    services: dict[str, Service] | None = None
    counts: Counts = msgspec.field(default_factory=Counter)
    faults: list[Found] = []
    findings: list[Finding] = []


def examine(root: Path, processes: int | None = None, trust: Trust | None = None) -> Verification:
    """Checks the folder of a release, whose manifest may be damaged too.

    Args:
      root: as :func:`find_release` gives it.
      processes: how many read in parallel; None: one for each core if the release is large.
      trust: who must have signed it; None: a signature that is there must be of this manifest.
    """
    findings = Findings()
    manifest = None
    if (root / MANIFEST).is_file():  # if it is missing, SHA256SUMS says so
        with findings.guard("manifest", MANIFEST):
            manifest = read_manifest(root)
            with findings.guard("signature", SIGNATURE):
                data = (root / MANIFEST).read_bytes()
                for reason in problems(data, read_signature(root), manifest, trust or Trust()):
                    findings.add("signature", SIGNATURE, "", reason)
    if manifest is None:
        return Verification(str(root), check_files(root, manifest, findings, {}), 0, findings.listed())
    contents = _read_all(root, manifest, processes)
    digests = {task.file.path: content.digest for task, content in contents if content.digest is not None}
    files = check_files(root, manifest, findings, digests)
    with findings.guard("manifest", MANIFEST):
        _check_manifest(root, manifest, findings)
    for _, content in contents:
        for finding in content.findings:
            findings.add(finding.check, finding.path, finding.where, finding.reason)
    _check_keys(contents, findings)
    _check_counts(manifest, contents, findings)
    rows = sum(len(content.keys or ()) for task, content in contents if task.parquet)
    return Verification(str(root), files, rows, findings.listed())


# The manifest.


def _check_manifest(root: Path, manifest: Manifest, findings: Findings) -> None:
    """Checks what can be seen in the manifest alone."""

    def add(where: str, reason: str) -> None:
        findings.add("manifest", MANIFEST, where, reason)

    place = root.resolve()
    for field, stated, pattern, folder in (
        ("name", manifest.name, NAME, place.parent.name),
        ("version", manifest.version, VERSION, place.name),
    ):
        if not pattern.fullmatch(stated):
            add(field, f"{stated!r} cannot be a {field}")
        elif stated != folder:
            add(field, f"is {stated!r}, but the folder is {folder!r}")
    files = {file.path: file for file in manifest.files}
    for path, n in Counter(file.path for file in manifest.files).items():
        if n > 1:
            add(path, f"occurs {n} times in 'files'")
        if not is_inside(path):
            add(path, "leaves the release's folder: it was not read")
    for path in DOCUMENTS:
        if path not in files:
            add(path, "is part of every release, and not in 'files'")
    claimed: Counter[str] = Counter()
    for name, config in manifest.configs.items():
        where = f"configs.{name}"
        if config.record not in _RECORDS:
            add(where, f"there is no record {config.record!r}")
        columns = {column.name for column in config.columns}
        if not config.key or not columns.issuperset(config.key):
            add(where, f"has the key {', '.join(config.key) or 'of no column'}, and no such column")
        for column in _private_columns(config):
            findings.add("private", MANIFEST, where, f"{column!r} may identify a worker")
        for split, info in config.splits.items():
            claimed.update(info.files)
            for reason in _split_problems(name, split, info, files):
                add(f"{where}.splits.{split}", reason)
    for path in files:
        if path.startswith("data/") and claimed[path] != 1:
            add(path, f"is in {claimed[path]} splits, not in one")


def _private_columns(config: Config) -> list[str]:
    """Returns columns, and fields inside their types, that may identify a worker or the time of their work."""
    texts = [text for column in config.columns for text in (column.name, column.type)]
    return sorted({match[1] for text in texts for match in _PRIVATE.finditer(text)})


def _split_problems(name: str, split: str, info: SplitInfo, files: Mapping[str, File]) -> Iterator[str]:
    for path in info.files:
        match = _SHARD.fullmatch(path)
        if not match or match[1] != name or match[2] != split:
            yield f"{path!r} is no file of this split: data/{name}/{split}-…"
        if path not in files:
            yield f"{path!r} is not in 'files'"
    if not info.files:
        yield "has no files"
    if (rows := sum(files[path].rows or 0 for path in info.files if path in files)) != info.rows:
        yield f"has {info.rows:,} rows, its files {rows:,}"


# Rows and what they refer to.


def _check_keys(contents: Iterable[tuple[_Task, _Content]], findings: Findings) -> None:
    """Checks that each dialogue and service of a JSON file has one row, and each of these rows is in one JSON file."""
    copies: dict[Place, dict[str, str]] = {}
    rows: dict[Place, dict[str, str]] = {}
    unread: set[tuple[Place, bool]] = set()  # and whether it is JSON
    for task, content in contents:
        if not task.json and (not task.parquet or task.parquet.record not in ("dialogue", "service")):
            continue
        if content.keys is None:
            unread.add((task.place, task.json is not None))
        path_of_key = (copies if task.json else rows).setdefault(task.place, {})
        for key in content.keys or ():
            if task.json and key in path_of_key:
                findings.add("restore", task.file.path, _name(key), f"occurs twice, also in {path_of_key[key]}")
            path_of_key[key] = task.file.path
    for place in dict.fromkeys([*copies, *rows]):
        of_copies, of_rows = copies.get(place, {}), rows.get(place, {})
        if (place, False) not in unread:
            for key in (key for key in of_copies if key not in of_rows):
                findings.add("restore", of_copies[key], _name(key), f"has no row in data/{'/'.join(place)}")
        if (place, True) not in unread:
            for key in (key for key in of_rows if key not in of_copies):
                findings.add("restore", of_rows[key], _name(key), "is in no file below sgd/")


def _name(key: str) -> str:
    return f"{'service' if chr(0) in key else 'dialogue'} {key.replace(chr(0), '/')}"


def _check_counts(manifest: Manifest, contents: Iterable[tuple[_Task, _Content]], findings: Findings) -> None:
    """Compares the counts of the manifest with those of the files, if all of these could be read."""
    counts: Counts = Counter()
    for _, content in contents:
        counts.update(content.counts)
    known = manifest.known_problems
    excess = {kind: n for kind in KINDS if (n := counts["fault", kind, ""]) > known.get(kind, 0)}
    shown: Counter[str] = Counter()
    for task, content in contents:
        for found in content.faults:
            shown[found.fault.kind] += 1
            if found.fault.kind in excess and shown[found.fault.kind] <= _FAULTS_SHOWN:
                where = f"dialogue {found.dialogue_id}: {found.fault.where}"
                findings.add("faults", task.file.path, where, found.fault.reason)
    for kind, n in excess.items():
        if known.get(kind) or n > _FAULTS_SHOWN:
            reason = f"{n:,} faults of this kind ({KINDS[kind]}), {known.get(kind, 0):,} of them known"
            findings.add("faults", MANIFEST, f"known_problems.{kind}", reason)
    if any(content.keys is None for task, content in contents if task.json or task.parquet):
        return
    stated = {("fault", kind, ""): n for kind, n in known.items() if kind not in excess}
    stated |= {("disposition", name, ""): n for name, n in manifest.dispositions.items()}
    stated |= {("rejection", name, ""): n for name, n in manifest.rejections.items()}
    for what in COUNTED:
        for corpus, splits in manifest.counts.get(what, {}).items():
            stated |= {(what, corpus, split): n for split, n in splits.items()}
    for place in sorted({*stated, *(place for place in counts if place[0] != "fault")}):
        what, name, split = place
        if stated.get(place, 0) != counts[place]:
            field = {"fault": "known_problems", "disposition": "dispositions", "rejection": "rejections"}.get(what)
            where = f"{field}.{name}" if field else f"counts.{what}.{name}.{split}"
            findings.add("counts", MANIFEST, where, f"is {stated.get(place, 0):,}, but there are {counts[place]:,}")


# Reading.


def _read_all(root: Path, manifest: Manifest, processes: int | None) -> list[tuple[_Task, _Content]]:
    """Reads every listed file: schemas first, because dialogues refer to them."""
    tasks = list(_tasks(root, manifest))
    expect(len(tasks), "files")
    contents = []
    services: dict[Place, dict[str, Service] | None] = {}
    for task in tasks:
        if task.json and task.json.record == "service":
            contents.append((task, _read(task)))
            services[task.json.corpus, task.json.split] = contents[-1][1].services
            advance(1, "files")
    rest = [
        msgspec.structs.replace(task, services=services.get(task.place, {}))
        for task in tasks
        if not task.json or task.json.record == "dialogue"
    ]
    if processes is None:
        processes = _cores() if manifest.size >= LARGE else 1
    with _mapping(processes) as mapped:
        for task, content in zip(rest, mapped(_read, rest), strict=True):
            contents.append((task, content))
            advance(1, "files")
    return contents


def _tasks(root: Path, manifest: Manifest) -> Iterator[_Task]:
    shards = {
        path: ((name, split), config)
        for name, config in manifest.configs.items()
        for split, info in config.splits.items()
        for path in info.files
    }
    files = {file.path: file for file in manifest.files}
    present = present_files(root, Findings())
    for path in sorted(filter(is_inside, {*files, *shards})):
        file = files.get(path, File(path, 0, ""))
        task = _Task(str(root), file, path in present)
        if path in shards:
            place, config = shards[path]
            task = msgspec.structs.replace(task, place=place, parquet=config)
        elif source := _copy(path):
            place = (SCHEMAS if source.record == "service" else source.corpus, source.split)
            task = msgspec.structs.replace(task, place=place, json=source)
        yield task


def _copy(path: str) -> Source | None:
    """Returns a JSON file of a corpus as ``build`` reads it; None for other files."""
    match = _COPY.fullmatch(path)
    if not match or not (match[3] == "schema.json" or DIALOGUE_FILE.fullmatch(match[3])):
        return None
    record = "service" if match[3] == "schema.json" else "dialogue"
    return Source(record, match[1], match[1], match[2] or SINGLE, path, 0, match[3])


def _read(task: _Task) -> _Content:
    """Reads a file. Never raises: the content's findings say what is wrong."""
    content, findings, path = _Content(), Findings(), as_path(task.root) / task.file.path
    if not task.present:  # the check of files reports it
        return content
    check = "restore" if task.json else "parquet" if task.parquet else "checksums"
    with findings.guard(check, task.file.path):
        if task.json:
            data = path.read_bytes()
            content.digest = (hashlib.sha256(data).hexdigest(), len(data))
            _read_copy(data, task, task.json, content)
        else:
            content.digest = digest_of(path)
        if task.parquet:
            _read_shard(path, task, task.parquet, content, findings)
    content.findings = findings.listed()
    return content


@collection_paused()
def _read_copy(data: bytes, task: _Task, source: Source, content: _Content) -> None:
    if source.record == "service":
        schemas = read_schema_file(as_path(task.root) / source.path, source.split)
        content.services = {service.service_name: service for service in schemas.services}
        table, content.counts, _ = read_source(source, data, {})
        content.keys = [key_text(row, ("variant", "service_name")) for row in table.to_pylist()]
        return
    try:
        dialogues = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # 'build' reads more, and says why not
        table, content.counts, content.faults = read_source(source, data, task.services or {})
        content.keys = table["dialogue_id"].to_pylist()
    else:
        content.counts, content.faults = check_dialogues(source, dialogues, task.services or {})
        content.keys = [dialogue.dialogue_id for dialogue in dialogues]
    if task.services is None:  # the schemas are at fault
        content.counts = Counter({place: n for place, n in content.counts.items() if place[0] != "fault"})
        content.faults = []


def _read_shard(path: Path, task: _Task, config: Config, content: _Content, findings: Findings) -> None:
    with path.open("rb") as handle, pq.ParquetFile(handle) as parquet:
        _check_columns({field.name: plain_type(str(field.type)) for field in parquet.schema_arrow}, config)
        columns = ["disposition", "reason"] if config.record == "paraphrase" else []
        table = parquet.read([*config.key, *columns])
        table.validate(full=True)  # a text may be no UTF-8
    if table.num_rows != task.file.rows:
        reason = f"has {table.num_rows:,} rows, {task.file.rows or 0:,} in the manifest"
        findings.add("parquet", task.file.path, "", reason)
    rows = table.to_pylist()
    content.keys = [key_text(row, config.key) for row in rows]
    match = _SHARD.fullmatch(task.file.path)
    number, shards = (int(match[3]), int(match[4])) if match else (0, 0)
    before = None
    for i, key in enumerate(content.keys):
        where = f"row {i} ({key.replace(chr(0), '/')})"
        if before is not None and key <= before:
            same = key == before
            reason = "is not the only row with this key" if same else "comes after a row with a greater key"
            findings.add("keys" if same else "order", task.file.path, where, reason)
        if shards and shard_of(key, shards) != number:
            findings.add("order", task.file.path, where, f"belongs into shard {shard_of(key, shards)} of {shards}")
        before = key
    if config.record == "paraphrase":
        content.counts = count_answers(rows)


def _check_columns(there: Mapping[str, str], config: Config) -> None:
    """Raises InputError if a file has other columns than its configuration."""
    listed = {column.name: plain_type(column.type) for column in config.columns}
    if list(there.items()) != list(listed.items()):
        reasons = [f"it has no column {name!r}" for name in listed if name not in there]
        reasons += [f"the manifest has no column {name!r}" for name in there if name not in listed]
        reasons += [
            f"column {name!r} is {there[name]}, {listed[name]} in the manifest"
            for name in there
            if listed.get(name, there[name]) != there[name]
        ]
        raise InputError("; ".join(reasons) or "its columns are in another order")


# Processes.


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _mapping(processes: int) -> Iterator[Callable[..., Iterable[_Content]]]:
    """Gives ``map`` in so many processes. They are forked from one that has no threads, and end with this one."""
    if processes == 1:
        yield map
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(processes, context, _begin) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin() -> None:
    """Leaves Ctrl-C to the command, and ends when the command does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)
