"""Verification of a release: its files and manifest, its rows, and the references of dialogues.

Checksums prove that files are the ones written by ``build``. In addition, the rows are read and compared with the
hashes in the manifest; schemas and dialogues are counted and checked for problems. A release that was rewritten as a
whole, including all hashes, can pass; only a signature of ``SHA256SUMS`` reveals that.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import DIALOGUE_FILE, NAMES, SINGLE, TEST, as_path, read_schema_file
from parapet.schemas.release import COUNTED, DOCUMENTS, MANIFEST, SUMS, Config, File, Manifest
from parapet.schemas.rows import collection_paused
from parapet.schemas.service import Service
from parapet.transforms.core.progress import advance, expect
from parapet.transforms.release import plan, reading

MOST = 10  # findings per check and file that are reported in full

# Files added by downloads from the Hugging Face Hub, which are not part of the release and are never loaded, and
# signatures of the checksums, such as SHA256SUMS.sig and SHA256SUMS.sigstore.json.
_BESIDE = (".gitattributes", ".cache/huggingface", f"{SUMS}.")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_COPY = re.compile(rf"sgd/([^/]+)/(?:([^/]+)/)?(schema\.json|{DIALOGUE_FILE.pattern})")
_TASKS = re.compile(r"bfcl/([^/]+)/([^/]+\.jsonl?)")
# Names, at any depth of a column's type, of fields that could identify a worker or the time of their work.
_PRIVATE = re.compile(r"(?i)\b(worker\w*|accept_time|submit_time)\b(?=:|$)")

# The fields of the manifest with counts of answers and problems.
_FIELDS = {
    "disposition": "dispositions",
    "rejection": "rejections",
    "source": "answer_sources",
    "fault": "known_problems",
}


class Finding(msgspec.Struct, frozen=True):
    """A mismatch.

    Attributes:
      check: the check: ``checksums``, ``manifest``, ``content``, ``faults``, ``counts``, ``private``.
      path: the path of the file below the release.
      where: the place in the file: ``row 7``, ``dialogue 1_00000``.
      reason: the mismatch.
    """

    check: str
    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        return reading.printable(": ".join(part for part in (self.path, self.where, self.reason) if part))


class Findings:
    """Collects findings. Of many findings of one kind in one file, the first are kept and the others counted."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Finding]] = {}

    def add(self, check: str, path: str, where: str, reason: str) -> None:
        """Adds a finding."""
        self._kept.setdefault((path, check), []).append(Finding(check, path, where, reason))

    @contextmanager
    def guard(self, check: str, path: str) -> Iterator[None]:
        """Converts any error in the block to a finding, so that one damaged file does not hide the others."""
        try:
            yield
        except InputError as error:
            self.add(check, path, error.where.lstrip("$."), error.reason)
        except Exception as error:  # a file of unknown origin can raise anything
            self.add(check, path, "", f"cannot be read: {str(error) or type(error).__name__}")

    def listed(self) -> list[Finding]:
        """Returns all findings by file, within a file in the order of the checks."""
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


def examine(root: Path) -> Verification:
    """Checks the folder of a release, as returned by :func:`find_release`; its manifest may be damaged too."""
    findings, manifest, rows = Findings(), None, 0
    if (root / MANIFEST).is_file():  # SHA256SUMS reveals a missing manifest
        with findings.guard("manifest", MANIFEST):
            manifest = reading.read_manifest(root)
    present = check_files(root, manifest, findings)
    if manifest is not None:
        _check_manifest(manifest, findings)
        rows = _check_content(root, manifest, present, findings)
    return Verification(str(root), len(present), rows, findings.listed())


def damage(release: reading.Release) -> list[str]:
    """Describes where a release differs from its manifest."""
    findings = Findings()
    check_files(release.root, release.manifest, findings)
    return [str(finding) for finding in findings.listed()]


# Files.


def check_files(root: Path, manifest: Manifest | None, findings: Findings) -> set[str]:
    """Checks all existing and all expected files; returns the existing ones."""
    sums = read_sums(root, findings)
    listed = {file.path: file.sha256 for file in manifest.files} if manifest else {}
    present = present_files(root, findings)
    for path in sorted({*present, *sums, *listed} - {SUMS}):
        if path not in present:
            findings.add("checksums", path, "", "is missing")
            continue
        # Without checksums the manifest lists the expected files; it does not list itself.
        listings = {SUMS: sums, MANIFEST: listed if path != MANIFEST else {}}
        stated = {name: hashes.get(path, "") for name, hashes in listings.items() if hashes}
        if lists := [name for name, sha256 in stated.items() if not sha256]:
            findings.add("checksums", path, "", f"is not listed in {' and '.join(lists)}")
        with findings.guard("checksums", path), (root / path).open("rb") as handle:
            sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
            if wrong := [name for name, other in stated.items() if other not in ("", sha256)]:
                findings.add("checksums", path, "", f"its SHA-256 is {sha256}, not that of {' and '.join(wrong)}")
    return present


def read_sums(root: Path, findings: Findings) -> dict[str, str]:
    """Reads ``SHA256SUMS`` as path to hash; empty if it cannot be read."""
    if not (root / SUMS).is_file():
        findings.add("checksums", SUMS, "", "is missing")
        return {}
    sums: dict[str, str] = {}
    with findings.guard("checksums", SUMS):
        for i, line in enumerate((root / SUMS).read_bytes().decode("utf-8").split("\n")[:-1]):
            if match := _LINE.fullmatch(line):
                sums[match[2]] = match[1]
            else:
                reason = "is not a SHA-256 in lower case, two spaces, and a path"
                findings.add("checksums", SUMS, f"line {i + 1}", reason)
    return sums


def present_files(root: Path, findings: Findings) -> set[str]:
    """Lists all files below the folder. Links, which are not followed, are findings."""
    files = set()
    for path in root.rglob("*"):
        relative = path.relative_to(root).as_posix()
        if path.is_symlink():
            findings.add("checksums", relative, "", "is a link: a release must contain its files itself")
        elif path.is_file() and not relative.startswith(_BESIDE):
            files.add(relative)
    return files


# The manifest.


def _check_manifest(manifest: Manifest, findings: Findings) -> None:
    """Checks the manifest without reading other files."""

    def add(where: str, reason: str) -> None:
        findings.add("manifest", MANIFEST, where, reason)

    files = {file.path: file for file in manifest.files}
    for path in {*DOCUMENTS} - files.keys():
        add(path, "is part of every release, but is not in 'files'")
    for name, config in manifest.configs.items():
        texts = [text for column in config.columns for text in (column.name, column.type)]
        for column in sorted({match[1] for text in texts for match in _PRIVATE.finditer(text)}):
            findings.add("private", MANIFEST, f"configs.{name}", f"{column!r} may identify a worker")
        for split, info in config.splits.items():
            at = f"configs.{name}.splits.{split}"
            if lost := [path for path in info.files if path not in files]:
                add(at, f"{lost[0]!r} is not in 'files'")
            elif (rows := sum(files[path].rows or 0 for path in info.files)) != info.rows:
                add(at, f"has {info.rows:,} rows, but its files have {rows:,}")


# Rows, schemas and dialogues.


def _check_content(root: Path, manifest: Manifest, present: Collection[str], findings: Findings) -> int:
    """Reads all files, and compares rows, dialogues and counts with the manifest; returns the number of rows."""
    configs = {
        path: config for config in manifest.configs.values() for info in config.splits.values() for path in info.files
    }
    services: dict[tuple[str, str], dict[str, Service]] = {}
    counts: plan.Counts = Counter()
    rows, is_whole = 0, True
    expect(len(manifest.files), "files")
    # Schemas come first, because dialogues refer to them.
    for file in sorted(manifest.files, key=lambda file: not file.path.endswith("/schema.json")):
        is_read = False
        with findings.guard("content", file.path):
            if file.path in present:
                if source := _source_of(root, file.path, manifest):
                    counts.update(_read_json(source, services, manifest, findings))
                elif file.path in configs:
                    counts.update(_read_shard(root / file.path, file, configs[file.path]))
                    rows += file.rows or 0
                is_read = True
        is_whole &= is_read
        advance(1, "files")
    if is_whole:
        _check_counts(manifest, counts, findings)
    return rows


@collection_paused()
def _read_json(
    source: plan.Source, services: dict[tuple[str, str], dict[str, Service]], manifest: Manifest, findings: Findings
) -> plan.Counts:
    place = (source.corpus, source.split)
    if source.record == "service":
        schemas = read_schema_file(as_path(source.path), source.split)
        services[place] = {service.service_name: service for service in schemas.services}
    of_split = services.get(place, services.get((source.corpus, SINGLE), {}))
    try:
        _, counts, faults = plan.read_source(source, as_path(source.path).read_bytes(), of_split)
    except InputError as error:
        raise InputError(error.reason, "", error.where) from None
    for fault in faults:
        if of_split and fault.kind not in manifest.known_problems:
            findings.add("faults", source.relative, f"dialogue {fault.dialogue_id}: {fault.where}", fault.reason)
    return counts


def _read_shard(path: Path, file: File, config: Config) -> plan.Counts:
    counts: plan.Counts = Counter()
    digest = hashlib.sha256()
    for row in reading.read_rows(path):
        digest.update(reading.row_json(row) + b"\n")
        if config.record == "paraphrase":
            counts.update(plan.count_answers([row]))
    if file.logical_sha256 != (sha256 := digest.hexdigest()):
        raise InputError(f"its rows have the SHA-256 {sha256}, but {file.logical_sha256} according to the manifest")
    return counts


def _source_of(root: Path, path: str, manifest: Manifest) -> plan.Source | None:
    """Returns the JSON file as a source of ``build``; None for any other file."""
    place = str(root / path)
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


def _check_counts(manifest: Manifest, counts: plan.Counts, findings: Findings) -> None:
    """Compares the counts of the manifest with those of the files."""
    stated: plan.Counts = Counter()
    for unit, field in _FIELDS.items():
        stated.update({(unit, name, ""): n for name, n in getattr(manifest, field).items()})
    for unit in COUNTED:
        for corpus, splits in manifest.counts.get(unit, {}).items():
            stated.update({(unit, corpus, split): n for split, n in splits.items()})
    for place in sorted({*stated, *counts}):
        unit, name, split = place
        if stated[place] != counts[place]:
            where = f"{_FIELDS[unit]}.{name}" if unit in _FIELDS else f"counts.{unit}.{name}.{split}"
            findings.add("counts", MANIFEST, where, f"is {stated[place]:,}, but should be {counts[place]:,}")
