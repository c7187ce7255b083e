"""Verification of a release: its files and manifest, its rows, and the references of dialogues.

Checksums prove that files are the ones written by ``build``. In addition, the rows are read and compared with the
hashes in the manifest and with the JSON in ``sgd/`` and ``bfcl/``; schemas and dialogues are counted and checked for
problems. A release that was rewritten as a whole, including all hashes, can pass; only a signature of ``SHA256SUMS``
reveals that.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from parapet.schemas.dialogue_table import collection_paused
from parapet.schemas.errors import InputError
from parapet.schemas.layout import DIALOGUE_FILE, SINGLE, TEST, as_path, read_schema_file
from parapet.schemas.release import COUNTED, DOCUMENTS, MANIFEST, SUMS, Config, File, Manifest
from parapet.schemas.service import Service
from parapet.schemas.tools import NAMES
from parapet.transforms.release import plan
from parapet.transforms.release.reading import (
    ROWS_AT_ONCE,
    key_text,
    plain_type,
    printable,
    read_manifest,
    row_digests,
    row_json,
    split_sha256,
)
from parapet.transforms.running.progress import advance, expect

LARGE = 64 * 2**20  # bytes from which on several processes are faster than one
MOST = 10  # findings per check and file that are reported in full

# Files added by downloads from the Hugging Face Hub, which are not part of the release and are never loaded.
_OF_THE_HUB = (".gitattributes", ".cache/huggingface")
_SIGNATURES = f"{SUMS}."  # signatures of the checksums: SHA256SUMS.sig, SHA256SUMS.sigstore.json
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_SHARD = re.compile(r"data/([^/]+)/([^/]+)-([0-9]{5,})-of-([0-9]{5,})\.parquet")
_COPY = re.compile(rf"sgd/([^/]+)/(?:([^/]+)/)?(schema\.json|{DIALOGUE_FILE.pattern})")
_TASKS = re.compile(r"bfcl/([^/]+)/([^/]+\.jsonl?)")
# Names, at any depth of a column's type, of fields that could identify a worker or the time of their work.
_PRIVATE = re.compile(r"(?i)\b(worker\w*|accept_time|submit_time)\b(?=:|$)")

_COPIED = ("dialogue", "service", plan.TASK)  # records that are also in sgd/ or bfcl/

Digest = tuple[str, int]  # SHA-256 and size


class Finding(msgspec.Struct, frozen=True):
    """A mismatch.

    Attributes:
      check: the check: ``checksums``, ``manifest``, ``content``, ``rows``, ``faults``, ``counts``, ``private``.
      path: the path of the file below the release.
      where: the place in the file: ``row 7``, ``dialogue 1_00000``.
      reason: the mismatch.
    """

    check: str
    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.path, self.where, self.reason) if part))


class Findings:
    """Collects findings. Of many findings of one kind in one file, the first are kept and the others counted."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Finding]] = {}

    def add(self, check: str, path: str, where: str, reason: str) -> None:
        """Add a finding."""
        self._kept.setdefault((path, check), []).append(Finding(check, path, where, reason))

    @contextmanager
    def guard(self, check: str, path: str) -> Iterator[None]:
        """Convert any error in the block to a finding, so that one damaged file does not hide the others."""
        try:
            yield
        except InputError as error:
            self.add(check, path, error.where.lstrip("$."), error.reason)
        except Exception as error:  # a file of unknown origin can raise anything
            self.add(check, path, "", f"cannot be read: {str(error) or type(error).__name__}")

    def listed(self) -> list[Finding]:
        """Return all findings by file, within a file in the order of the checks."""
        findings = []
        for (path, check), of_check in sorted(self._kept.items(), key=lambda item: item[0][0]):
            findings += of_check[:MOST]
            if (more := len(of_check) - MOST) > 0:
                findings.append(Finding(check, path, "", f"and {more:,} more of this kind"))
        return findings


class Verification(msgspec.Struct):
    """The result: the release's folder, the numbers of files and rows read, and the findings by file."""

    path: str
    files: int
    rows: int
    findings: list[Finding]


class _Task(msgspec.Struct, frozen=True):
    """A file to read: a JSON file of a corpus or of tasks, a Parquet file, or, if both fields are None, any other file.

    Attributes:
      root: the folder of the release.
      file: the file.
      json: the JSON file as a source of ``build``.
      key: the columns that identify its rows.
      services: the services that the dialogues of the JSON file may refer to; None if their schemas cannot be read.
      parquet: the configuration of the Parquet file.
    """

    root: str
    file: File
    json: plan.Source | None = None
    key: tuple[str, ...] = ()
    services: dict[str, Service] | None = None
    parquet: Config | None = None


class _Content(msgspec.Struct):
    """The content of a file; its digest is None if it cannot be read.

    Attributes:
      digest: the hash and size of its bytes.
      rows: the number of rows of a Parquet file.
      place: the configuration and split of its rows.
      row_digests: the hash of each row by its key, if ``data/`` and ``sgd/`` or ``bfcl/`` have it.
    """

    digest: Digest | None = None
    rows: int = 0
    place: tuple[str, str] = ("", "")
    row_digests: dict[str, str] = msgspec.field(default_factory=dict)
    services: dict[str, Service] | None = None
    counts: plan.Counts = msgspec.field(default_factory=Counter)
    faults: list[plan.Found] = []
    findings: list[Finding] = []


def examine(root: Path, processes: int | None = None) -> Verification:
    """Check the folder of a release; its manifest may be damaged too.

    Args:
      root: the folder returned by :func:`find_release`.
      processes: the number of processes; None for one per core if the release is large.
    """
    findings, manifest, rows = Findings(), None, 0
    contents: list[tuple[_Task, _Content]] = []
    if (root / MANIFEST).is_file():  # SHA256SUMS reveals a missing manifest
        with findings.guard("manifest", MANIFEST):
            manifest = read_manifest(root)
    if manifest is not None:
        contents = _read_all(root, manifest, processes)
    digests = {task.file.path: content.digest for task, content in contents if content.digest is not None}
    files = check_files(root, manifest, findings, digests)
    if manifest is not None:
        _check_manifest(root, manifest, findings)
        for _, content in contents:
            for finding in content.findings:
                findings.add(finding.check, finding.path, finding.where, finding.reason)
        _check_counts(manifest, contents, findings)
        _check_copies(contents, findings)
        rows = sum(content.rows for _, content in contents)
    return Verification(str(root), files, rows, findings.listed())


# Files.


def is_inside(relative: str) -> bool:
    """Whether a relative path stays below its folder."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in relative.split("/"))


def check_files(root: Path, manifest: Manifest | None, findings: Findings, digests: Mapping[str, Digest]) -> int:
    """Check all existing and all expected files; return the number of existing ones.

    Args:
      root: the folder of the release.
      manifest: its manifest if it could be read.
      findings: receives the mismatches.
      digests: digests of files that were read already, by path; other files are read.
    """

    def add(path: str, reason: str) -> None:
        findings.add("checksums", path, "", reason)

    sums = read_sums(root, findings)
    listed = {file.path: file for file in manifest.files} if manifest else {}
    # Without checksums the manifest lists the expected files; if neither can be read, no file is expected.
    listing = SUMS if sums else MANIFEST if manifest else ""
    present = present_files(root, findings)
    expected = {path for path in (*sums, *listed) if is_inside(path)}
    for path in sorted((present | expected) - {SUMS}):
        file = listed.get(path)
        if path not in present:
            add(path, "is missing")
        elif path in expected:
            if sums and path not in sums:
                add(path, f"is in {MANIFEST}, but not in {SUMS}")
            if listed and file is None and path != MANIFEST:
                add(path, f"is in {SUMS}, but not in {MANIFEST}")
            with findings.guard("checksums", path):
                sha256, size = digests[path] if path in digests else digest_of(root / path)
                stated = {SUMS: sums.get(path, sha256), MANIFEST: file.sha256 if file else sha256}
                if wrong := [name for name, other in stated.items() if other != sha256]:
                    add(path, f"its SHA-256 is {sha256}, not that of {' and '.join(wrong)}")
                if file is not None and file.bytes != size:
                    add(path, f"has {size:,} bytes, but {file.bytes:,} according to {MANIFEST}")
        elif listing and (path != MANIFEST or sums):
            add(path, f"is not listed in {listing}")
    return len(present)


def read_sums(root: Path, findings: Findings) -> dict[str, str]:
    """Read ``SHA256SUMS`` as path to hash; empty if it cannot be read."""
    if not (root / SUMS).is_file():
        findings.add("checksums", SUMS, "", "is missing")
        return {}
    sums: dict[str, str] = {}
    with findings.guard("checksums", SUMS):
        *lines, rest = (root / SUMS).read_bytes().decode("utf-8").split("\n")
        if rest or not lines:
            findings.add("checksums", SUMS, "", "does not end with a newline: the file is truncated")
        for i, line in enumerate(lines):
            match = _LINE.fullmatch(line)
            if not match or not is_inside(match[2]) or match[2] in sums:
                reason = "is not a SHA-256 in lower case, two spaces, and the path of another file of the release"
                findings.add("checksums", SUMS, f"line {i + 1}", reason)
            else:
                sums[match[2]] = match[1]
    return sums


def present_files(root: Path, findings: Findings) -> set[str]:
    """List all files below the folder. Links, which are not followed, and empty folders are findings."""
    files = set()
    with findings.guard("checksums", ""):
        paths = sorted(root.rglob("*"), key=str)
        parents = {path.parent for path in paths}
        for path in paths:
            relative = path.relative_to(root).as_posix()
            if relative in _OF_THE_HUB or relative.startswith((f"{_OF_THE_HUB[1]}/", _SIGNATURES)):
                continue
            if path.is_file() and not path.is_symlink():
                files.add(relative)
            elif path.is_symlink() or not path.is_dir():
                findings.add(
                    "checksums", relative, "", "is a link or a device: a release must contain its files itself"
                )
            elif path not in parents:
                findings.add("checksums", relative, "", "is an empty folder, which a release must not contain")
    return files


def digest_of(path: Path) -> Digest:
    """Read a file and return its SHA-256 and its size."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest(), path.stat().st_size


# The manifest.


def _check_manifest(root: Path, manifest: Manifest, findings: Findings) -> None:
    """Check the manifest without reading other files."""

    def add(where: str, reason: str) -> None:
        findings.add("manifest", MANIFEST, where, reason)

    place = root.resolve()
    for field, stated, folder in (
        ("name", manifest.name, place.parent.name),
        ("version", manifest.version, place.name),
    ):
        if stated != folder:
            add(field, f"is {stated!r}, but the folder is {folder!r}")
    files = {file.path: file for file in manifest.files}
    claimed: Counter[str] = Counter()
    for name, config in manifest.configs.items():
        where = f"configs.{name}"
        if not config.key or not {column.name for column in config.columns}.issuperset(config.key):
            add(where, f"has the key {', '.join(config.key) or 'of no column'}, but no such column")
        texts = [text for column in config.columns for text in (column.name, column.type)]
        for column in sorted({match[1] for text in texts for match in _PRIVATE.finditer(text)}):
            findings.add("private", MANIFEST, where, f"{column!r} may identify a worker")
        for split, info in config.splits.items():
            claimed.update(info.files)
            at = f"{where}.splits.{split}"
            for path in info.files:
                match = _SHARD.fullmatch(path)
                if not match or match.groups()[:2] != (name, split) or path not in files:
                    add(at, f"{path!r} is not in 'files', or not a file of this split: data/{name}/{split}-…")
            hashes = [files[path].logical_sha256 for path in info.files if path in files]
            if split_sha256(hashes) != info.logical_sha256:
                add(at, f"has the hash of rows {info.logical_sha256}, but its files have {split_sha256(hashes)}")
            if (rows := sum(files[path].rows or 0 for path in info.files if path in files)) != info.rows:
                add(at, f"has {info.rows:,} rows, but its files have {rows:,}")
    for path, n in Counter(file.path for file in manifest.files).items():
        if n > 1:
            add(path, f"occurs {n} times in 'files'")
        if not is_inside(path):
            add(path, "leads outside of the release's folder: it was not read")
        if path.startswith("data/") and claimed[path] != 1:
            add(path, f"is in {claimed[path]} splits, but must be in one")
        if (source := _source_of(path, str(root), manifest)) and source.config not in manifest.configs:
            add(path, f"is of the configuration {source.config!r}, which is not in 'configs'")
    for path in set(DOCUMENTS) - files.keys():
        add(path, "is part of every release, but is not in 'files'")


# Records and their references.


def _check_counts(manifest: Manifest, contents: Iterable[tuple[_Task, _Content]], findings: Findings) -> None:
    """Compare the counts of the manifest with those of the files, if all files could be read."""
    counts: plan.Counts = Counter()
    for _, content in contents:
        counts.update(content.counts)
    known = manifest.known_problems
    excess = {kind: n for kind in plan.KINDS if (n := counts["fault", kind, ""]) > known.get(kind, 0)}
    for task, content in contents:
        for fault in content.faults:
            if fault.kind in excess:
                where = f"dialogue {fault.dialogue_id}: {fault.where}"
                findings.add("faults", task.file.path, where, fault.reason)
    for kind, n in excess.items():
        reason = f"{n:,} problems of this kind ({plan.KINDS[kind]}), {known.get(kind, 0):,} of them known"
        findings.add("faults", MANIFEST, f"known_problems.{kind}", reason)
    if any(content.digest is None or content.findings for _, content in contents):
        return
    stated: plan.Counts = Counter()
    answers = {
        "disposition": manifest.dispositions,
        "rejection": manifest.rejections,
        "source": manifest.answer_sources,
    }
    for unit, field in {"fault": known, **answers}.items():
        stated.update({(unit, name, ""): n for name, n in field.items() if name not in excess})
    for unit in COUNTED:
        for corpus, splits in manifest.counts.get(unit, {}).items():
            stated.update({(unit, corpus, split): n for split, n in splits.items()})
    fields = {"fault": "known_problems", "disposition": "dispositions", "rejection": "rejections"}
    fields["source"] = "answer_sources"
    for place in sorted({*stated, *(place for place in counts if place[0] != "fault")}):
        unit, name, split = place
        if stated[place] != counts[place]:
            where = f"{fields[unit]}.{name}" if unit in fields else f"counts.{unit}.{name}.{split}"
            findings.add("counts", MANIFEST, where, f"is {stated[place]:,}, but should be {counts[place]:,}")


def _check_copies(contents: Iterable[tuple[_Task, _Content]], findings: Findings) -> None:
    """Compare the rows in ``data/`` with the JSON in ``sgd/`` and ``bfcl/``, if all files could be read."""
    data: dict[tuple[str, str], dict[str, str]] = {}
    copies: dict[tuple[str, str], dict[str, str]] = {}
    for task, content in contents:
        if content.digest is None or content.findings:
            return
        (copies if task.json else data).setdefault(content.place, {}).update(content.row_digests)
    for config, split in sorted({*data, *copies}):
        rows, copied = data.get((config, split), {}), copies.get((config, split), {})
        for key in sorted(key for key in {*rows, *copied} if rows.get(key) != copied.get(key)):
            reason = "differs from the JSON" if key in rows and key in copied else "is not in the JSON"
            reason = reason if key in rows else "is missing, but is in the JSON"
            name = key.replace("\0", " ")
            findings.add("rows", f"data/{config}", f"{split}: {name}", f"{reason} beside it, in sgd/ or bfcl/")


# Reading.


def _read_all(root: Path, manifest: Manifest, processes: int | None) -> list[tuple[_Task, _Content]]:
    """Read every listed file: schemas first, because dialogues refer to them."""
    shards = {
        path: config for config in manifest.configs.values() for info in config.splits.values() for path in info.files
    }
    present = present_files(root, Findings())
    tasks, contents = [], []
    services: dict[tuple[str, str], dict[str, Service] | None] = {}
    expect(len(manifest.files), "files")
    for file in manifest.files:
        source = _source_of(file.path, str(root), manifest)
        key = manifest.configs[source.config].key if source and source.config in manifest.configs else []
        task = _Task(str(root), file, source, tuple(key), parquet=shards.get(file.path))
        if file.path not in present:  # the check of files reports it
            contents.append((task, _Content()))
        elif source and source.record == "service":
            contents.append((task, _read(task)))
            services[source.corpus, source.split] = contents[-1][1].services
            advance(1, "files")
        else:
            tasks.append(task)
    for i, task in enumerate(tasks):
        if task.json:
            corpus, split = task.json.corpus, task.json.split
            of_split = services.get((corpus, split), services.get((corpus, SINGLE), {}))
            tasks[i] = msgspec.structs.replace(task, services=of_split)
    if processes is None:
        processes = _cores() if manifest.size >= LARGE else 1
    with _mapping(processes) as mapped:
        for task, content in zip(tasks, mapped(_read, tasks), strict=True):
            contents.append((task, content))
            advance(1, "files")
    return contents


def _source_of(path: str, root: str, manifest: Manifest) -> plan.Source | None:
    """Return the JSON file as a source of ``build``; None for any other file."""
    place = str(as_path(root) / path)
    if match := _COPY.fullmatch(path):
        corpus, split, name = match[1], match[2], match[3]
        if name == "schema.json":
            return plan.Source("service", plan.SCHEMAS, corpus, split or SINGLE, place, 0, path)
        # dialogues beside a single schema have a split of their own name
        alone = next(iter(manifest.configs[corpus].splits), SINGLE) if corpus in manifest.configs else SINGLE
        return plan.Source("dialogue", corpus, corpus, split or alone, place, 0, path)
    if (match := _TASKS.fullmatch(path)) and match[2] != NAMES:
        return plan.Source(plan.TASK, match[1], match[1], TEST, place, 0, match[2])
    return None


def _read(task: _Task) -> _Content:
    """Read a file. Never raises: errors become findings of the content."""
    content, findings, path = _Content(), Findings(), as_path(task.root) / task.file.path
    with findings.guard("content", task.file.path):
        if task.json:
            data = path.read_bytes()
            content.digest = (hashlib.sha256(data).hexdigest(), len(data))
            _read_json(data, task, task.json, content)
        else:
            content.digest = digest_of(path)
        if task.parquet:
            _read_shard(path, task, task.parquet, content)
    content.findings = findings.listed()
    return content


@collection_paused()
def _read_json(data: bytes, task: _Task, source: plan.Source, content: _Content) -> None:
    if source.record == "service":
        schemas = read_schema_file(as_path(source.path), source.split)
        content.services = {service.service_name: service for service in schemas.services}
    try:
        table, counts, faults = plan.read_source(source, data, task.services or {})
    except InputError as error:
        raise InputError(error.reason, "", error.where) from None
    if task.key:
        content.place, content.row_digests = (source.config, source.split), row_digests(table, task.key)
    if source.record == plan.TASK:
        return  # those in data/ are counted
    content.counts, content.faults = counts, faults
    if source.record == "dialogue" and task.services is None:  # the schemas are the problem
        content.counts = Counter({place: n for place, n in content.counts.items() if place[0] != "fault"})
        content.faults = []


def _read_shard(path: Path, task: _Task, config: Config, content: _Content) -> None:
    with path.open("rb") as handle, pq.ParquetFile(handle) as parquet:
        content.rows = parquet.metadata.num_rows
        columns = [(field.name, plain_type(str(field.type))) for field in parquet.schema_arrow]
        listed = [(column.name, plain_type(column.type)) for column in config.columns]
        if columns != listed:
            names = ", ".join(sorted({name for name, _ in {*columns} ^ {*listed}})) or "their order"
            raise InputError(f"its columns differ from those in the manifest: {names}")
        if content.rows != task.file.rows:
            raise InputError(f"has {content.rows:,} rows, but {task.file.rows or 0:,} according to the manifest")
        digest = hashlib.sha256()
        for batch in parquet.iter_batches(ROWS_AT_ONCE):
            batch.validate(full=True)  # a text may be invalid UTF-8
            for row in batch.to_pylist():
                digest.update((line := row_json(row)) + b"\n")
                if config.record in _COPIED:
                    content.row_digests[key_text(row, config.key)] = hashlib.sha256(line).hexdigest()
        if task.file.logical_sha256 not in ("", digest.hexdigest()):
            reason = f"its rows have the SHA-256 {digest.hexdigest()}, but {task.file.logical_sha256} according to the"
            raise InputError(f"{reason} manifest")
        _, name, shard = task.file.path.split("/")  # data/NAME/SPLIT-00000-of-00001.parquet
        content.place = name, shard.partition("-")[0]
        if config.record == "paraphrase":
            counted = [name for name in ("disposition", "reason", "source") if name in parquet.schema_arrow.names]
            content.counts = plan.count_answers(parquet.read(counted).to_pylist())
        elif config.record == plan.TASK:
            content.counts = plan.count_tasks(*content.place, parquet.read(["function"]))


# Processes.


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _mapping(processes: int) -> Iterator[Callable[..., Iterable[_Content]]]:
    """Yield a ``map`` with a number of processes.

    They are forked from a process without threads, and end with this one.
    """
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
    """Ignore Ctrl-C, which the main process handles, and end with the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)
