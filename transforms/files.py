"""Whole files only: staged below the output folder, then published, the manifest last.

Everything is written to ``OUT/.incomplete/`` under a temporary name and renamed there; when all of a run's files
stand, they are moved into place and ``OUT/run.json`` is written last. A run killed anywhere leaves either no
``run.json``, or the one of the run before with all of that run's files. What a rerun of another shape no longer
writes is removed, files of the user's are left alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from schemas.errors import InputError

STAGING = ".incomplete"
MANIFEST = "run.json"
PREVIOUS = ".run.previous.json"

Written = tuple[str, str, int]  # path below the output folder, sha256, bytes


def join(folder: str, relative: str) -> str:
    """``folder/relative`` on any file system. Raises ValueError where ``relative`` would leave ``folder``."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ValueError(f"not a path below the output folder: {relative!r}")
    return str(FileSystems.join(folder, *parts))


def make_folder(path: str) -> None:
    """Makes a folder and its parents; one that is there already (or made by another worker meanwhile) is fine."""
    try:
        FileSystems.mkdirs(path)
    except (BeamIOError, OSError):
        if not FileSystems.exists(path):
            raise


def prepare(output: str, pipeline: str) -> None:
    """Makes the output folder and clears what a killed run left in staging.

    Raises:
      InputError: the folder cannot be written, holds the output of another pipeline, or a file in it was changed since
        it was written: a reviewer's work, perhaps, which a rerun would replace.
    """
    staging, previous = FileSystems.join(output, STAGING), join(output, PREVIOUS)
    ours = join(staging, PREVIOUS)
    for manifest in (join(output, MANIFEST), previous, ours):
        other = _read_manifest(manifest).get("pipeline", pipeline)
        if other != pipeline:
            raise InputError(f"holds what 'parapet {other}' made: choose another --output", output)
    if not FileSystems.exists(previous) and not FileSystems.exists(ours):
        _check_untouched(output)
    try:
        make_folder(output)
        if FileSystems.exists(ours):
            _replace(ours, previous)
        if FileSystems.exists(staging):
            FileSystems.delete([staging])
        make_folder(staging)
    except (BeamIOError, OSError) as error:
        raise InputError(f"cannot write here: {error}", output) from None


def _check_untouched(output: str) -> None:
    place = join(output, MANIFEST)
    files = _read_manifest(place).get("files", {})
    for relative in sorted(_files_of(place)):
        path = join(output, relative)
        if FileSystems.exists(path) and _digest(path) != (files[relative] or {}).get("sha256"):
            raise InputError("was changed since it was written: move it away, or this run would replace it", path)


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def staged(output: str, relative: str) -> Iterator[BinaryIO]:
    """Opens a file of the staging folder; it takes its name when the block ends well, and is gone when it does not."""
    target = join(FileSystems.join(output, STAGING), relative)
    make_folder(target.rsplit("/", 1)[0])
    temporary = f"{target}.tmp-{uuid.uuid4().hex}"
    try:
        # Uncompressed: Beam would gzip a name that ends in .gz.
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            yield handle
        _replace(temporary, target)
    except BaseException:
        if FileSystems.exists(temporary):
            FileSystems.delete([temporary])
        raise


def write_staged(output: str, relative: str, data: bytes) -> Written:
    """Writes one whole file into staging."""
    with staged(output, relative) as handle:
        handle.write(data)
    return relative, hashlib.sha256(data).hexdigest(), len(data)


class HashingWriter:
    """A file object that counts and hashes what goes through it."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle, self.sha256, self.size = handle, hashlib.sha256(), 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Writes bytes or a buffer."""
        data = bytes(data)
        self.sha256.update(data)
        self.size += len(data)
        self.handle.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back here."""

    def written(self, relative: str) -> Written:
        """What was written, for the manifest."""
        return relative, self.sha256.hexdigest(), self.size


class WriteFiles(beam.PTransform):
    """Writes (path below the output folder, bytes) into staging; gives what was written."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """PCollection of (str, bytes) to PCollection of Written."""
        return files | "Write file" >> beam.Map(_write, self.output)


def _write(file: tuple[str, bytes], output: str) -> Written:
    return write_staged(output, *file)


class Publish(beam.PTransform):
    """When all files of the run are staged: checks the counts, moves the files into place, writes ``run.json`` last.

    Args:
      output: the output folder.
      header: what ``run.json`` says besides files and counts: pipeline, version, options that shape the content.
      counts: PCollection of (name, n) to be summed into ``run.json``.
      check: called with the summed counts; raises where they do not balance, which fails the run unpublished, and
        gives those to record.
    """

    def __init__(
        self,
        output: str,
        header: Mapping[str, Any],
        counts: beam.PCollection | None = None,
        check: Callable[[dict[str, int]], dict[str, int]] | None = None,
    ) -> None:
        super().__init__()
        self.output, self.header, self.counts, self.check = output, dict(header), counts, check

    def expand(self, written: beam.PCollection) -> beam.PCollection:
        """PCollection of Written to one element, the manifest as a dict."""
        pipeline = written.pipeline
        counts = self.counts if self.counts is not None else pipeline | "No counts" >> beam.Create([], reshuffle=False)
        summed = counts | "Sum counts" >> beam.CombinePerKey(sum)
        return (
            pipeline
            | "Once" >> beam.Create([self.header], reshuffle=False)
            | "Publish"
            >> beam.Map(
                _publish,
                output=self.output,
                check=self.check,
                written=beam.pvalue.AsList(written),
                counts=beam.pvalue.AsList(summed),
            )
        )


def _publish(
    header: dict[str, Any],
    output: str,
    check: Callable[[dict[str, int]], dict[str, int]] | None,
    written: Iterable[Written],
    counts: Iterable[tuple[str, int]],
) -> dict[str, Any]:
    sums = dict(sorted(counts))
    if check is not None:
        sums = check(sums)
    files = {path: {"bytes": size, "sha256": digest} for path, digest, size in sorted(written)}
    manifest = {**header, "counts": sums, "files": files}
    publish(output, manifest)
    return manifest


def publish(output: str, manifest: dict[str, Any]) -> None:
    """Moves staged files into place; may be killed or repeated anywhere.

    The manifest in place goes aside first and comes back as the new one last: while files change, none stands. A list
    of all files of both runs stays in staging meanwhile, so that after a kill a rerun of any shape knows what is to go.
    """
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    both = join(FileSystems.join(output, STAGING), PREVIOUS)  # there already where a bundle is tried again
    stale = _files_of(place) | _files_of(previous) | _files_of(both)
    for relative in sorted(set(manifest["files"]) - stale):
        if FileSystems.exists(join(output, relative)):
            raise InputError("is not of an earlier run: move it, or choose another --output", join(output, relative))
    ours = {**manifest, "files": dict.fromkeys(stale | set(manifest["files"]))}
    write_staged(output, PREVIOUS, json.dumps(ours, sort_keys=True).encode())
    if FileSystems.exists(place):
        _replace(place, previous)
    for relative in manifest["files"]:
        source = join(FileSystems.join(output, STAGING), relative)
        target = join(output, relative)
        if FileSystems.exists(source):  # absent when a retried bundle has moved it already
            make_folder(target.rsplit("/", 1)[0])
            _replace(source, target)
        elif not FileSystems.exists(target):
            raise OSError(f"{target}: neither staged nor in place")
    gone = [join(output, relative) for relative in sorted(stale - set(manifest["files"]))]
    FileSystems.delete([path for path in gone if FileSystems.exists(path)])
    _remove_empty({path.rpartition("/")[0] for path in gone}, output)
    # Staged as well, so that it appears whole; then what is left of staging goes.
    write_staged(output, MANIFEST, (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
    _replace(join(FileSystems.join(output, STAGING), MANIFEST), place)
    FileSystems.delete([path for path in (previous, FileSystems.join(output, STAGING)) if FileSystems.exists(path)])


def _remove_empty(folders: set[str], output: str) -> None:
    """Removes local folders that are empty now, and their parents, below the output folder."""
    for folder in sorted(folders, reverse=True):
        while folder.startswith(f"{output}/"):
            try:
                os.rmdir(folder)
            except OSError:
                break
            folder = folder.rpartition("/")[0]


def read_written(output: str, relative: str) -> bytes:
    """A file of the output folder, whole."""
    with FileSystems.open(join(output, relative), compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        return bytes(handle.read())


def _read_manifest(path: str) -> dict[str, Any]:
    if not FileSystems.exists(path):
        return {}
    with FileSystems.open(path) as handle:
        try:
            manifest = json.loads(handle.read())
            if isinstance(manifest["files"], dict):
                return dict(manifest)
        except (ValueError, KeyError, TypeError):
            pass
    logging.warning("%s is not a manifest of ours; its files are left alone", path)
    return {}


def _files_of(manifest: str) -> set[str]:
    safe = set()
    for relative in _read_manifest(manifest).get("files", {}):
        try:
            join("x", relative)
            safe.add(relative)
        except ValueError:
            logging.warning("%s names a path outside the folder: %r", manifest, relative)
    return safe


def _replace(source: str, target: str) -> None:
    # Beam's local rename replaces a file atomically; other file systems refuse an existing target.
    if FileSystems.get_scheme(target) is not None and FileSystems.exists(target):
        FileSystems.delete([target])
    FileSystems.rename([source], [target])
