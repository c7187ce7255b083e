"""Atomic output: files are staged below the output folder, local or gs://, then published, with the manifest last.

Everything is written to ``OUT/.incomplete/`` under a temporary name and renamed there. When all files of a run are
complete, they are moved into place, and ``OUT/run.json`` is written last. A run killed at any point leaves either no
``run.json``, or that of the previous run with all of its files. Files that a rerun with other options no longer writes
are removed; the user's own files are not touched. The same holds after a power failure: contents are on disk before a
file is moved, and all names before the manifest that lists them (:mod:`parapet.transforms.storage.disk`).

A bucket has no folders, and renames an object by copying it and deleting the original: the copy appears complete, and a
kill between the two steps leaves the same bytes in both places, which is harmless. Existing files are determined by
listing, and files are moved a hundred at a time, because each request is slow.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.errors import DiskError, InputError, NoRoomError
from parapet.schemas.layout import MANIFEST, OWNER, PREVIOUS, STAGING, stays_within
from parapet.transforms.storage import disk
from parapet.transforms.storage.compressed import read_bytes as read_bytes

GONE = ".gone"  # below staging: files that the run no longer writes

_BATCHES = "batches"  # further output: files that a worker moves together
_BATCH = 100  # maximum of a bucket's client

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_tokens: dict[str, str] = {}  # output folder to the name of the file with which this process has begun there

Written = tuple[str, str, int]  # path below the output folder, sha256, bytes


def join(folder: str, relative: str) -> str:
    """Return ``folder/relative`` on any file system. Raises ValueError if ``relative`` leaves ``folder``."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ValueError(f"not a path below the output folder: {relative!r}")
    return str(FileSystems.join(folder, *parts))


def make_folder(path: str) -> None:
    """Create a folder and its parents, unless they exist or another worker creates them."""
    if disk.is_disk(path):
        disk.make_folder(path)
        return
    try:
        FileSystems.mkdirs(path)
    except (BeamIOError, OSError):
        if not FileSystems.exists(path):
            raise


def is_object_store(path: str) -> bool:
    """Whether a path is in a bucket, without folders and atomic renames."""
    return not FileSystems.get_filesystem(path).has_dirs()


def prepare(output: str, pipeline: str) -> None:
    """Create the output folder, clear the staging folder of a killed run, and mark there that this run has begun.

    Raises:
      InputError: the folder cannot be written, has the output of another pipeline, or a file in it was changed since it
        was written, such as a reviewer's work, which a rerun would replace.
    """
    try:
        _prepare(output, pipeline)
    except (InputError, DiskError):
        raise
    except Exception as error:  # exceptions differ between storages
        raise InputError(f"cannot write here: {_cause(error)}", output) from None


def _cause(error: Exception) -> object:
    """Return the innermost exception wrapped by Beam, which repeats all names at each level."""
    while isinstance(error, BeamIOError) and error.exception_details:
        error = next(iter(error.exception_details.values()))
    # Beam's wrapper for a local disk
    if isinstance(error, OSError) and error.args and isinstance(error.args[0], OSError):
        error = error.args[0]
    return error if len(error.args) < 3 else " ".join(map(str, error.args[:2]))


def _prepare(output: str, pipeline: str) -> None:
    staging, previous = FileSystems.join(output, STAGING), join(output, PREVIOUS)
    if os.path.islink(staging):
        raise InputError("is a link, but temporary files must not leave the output folder: remove the link", staging)
    ours = join(staging, PREVIOUS)
    for manifest in (join(output, MANIFEST), previous, ours):
        other = _read_manifest(manifest).get("pipeline", pipeline)
        if other != pipeline:
            raise InputError(f"contains the output of 'parapet {other}': choose another --output", output)
    if not FileSystems.exists(previous) and not FileSystems.exists(ours):
        _check_untouched(output)
    make_folder(output)
    if FileSystems.exists(ours):
        move([(ours, previous)])
        disk.sync(output)  # before staging is removed
    # Only a write shows whether a bucket accepts one, and folders can be created on a full disk.
    token = f"{OWNER}{uuid.uuid4().hex}"
    content = json.dumps({"pipeline": pipeline}).encode()
    write_staged(output, token, content)
    if disk.is_disk(output):
        for name in sorted(os.listdir(staging)):
            if name != token:
                clear(join(staging, name))
    elif is_object_store(output):
        (matches,) = FileSystems.match([f"{staging}/**"])
        others = [file.path for file in matches.metadata_list if file.path != join(staging, token)]
        FileSystems.delete(others) if others else None
    else:
        clear(staging)
        write_staged(output, token, content)
    _tokens[output] = token


def _check_owner(output: str, token: str | None, manifest: Mapping[str, Any]) -> None:
    """Raise InputError if another run has begun in the folder since, since its files would be mixed with these.

    Buckets have no locks, and those of some file systems do not work.

    Args:
      output: the output folder.
      token: the name of this run's file; None if unknown, as for a template that is run many times.
      manifest: the manifest to publish: if a bundle is retried after publishing, the file is gone.
    """
    staging = FileSystems.join(output, STAGING)
    if token is None or FileSystems.exists(join(staging, token)):
        return
    if is_object_store(output):
        is_lost = _read_manifest(join(output, MANIFEST)) != manifest
    else:  # a worker without access to the command's disk has no such file at all, which the command reports
        is_lost = os.path.isdir(staging) and any(name.startswith(OWNER) for name in os.listdir(staging))
    if is_lost:
        raise InputError("another run has started to write here: wait until it ends, then run this again", output)


def withhold(output: str) -> None:
    """Keep this process and its workers from publishing, unless they are about to write the manifest."""
    token, staging = _tokens.get(output), FileSystems.join(output, STAGING)
    if token is not None and disk.is_disk(output):
        with suppress(OSError):
            os.replace(join(staging, token), join(staging, f"{OWNER}stopped"))


def clear(folder: str) -> None:
    """Delete a folder with its content, if it exists; of a link only the link."""
    if is_object_store(folder):
        FileSystems.delete([f"{folder}/"])  # deletes all names with this prefix, a hundred at a time
    elif os.path.islink(folder):
        os.unlink(folder)
    elif FileSystems.exists(folder):
        FileSystems.delete([folder])


def _check_untouched(output: str) -> None:
    """Raise InputError if a file of the previous run was changed. Only files that may have changed are hashed."""
    place = join(output, MANIFEST)
    files = _read_manifest(place).get("files", {})
    existing = _standing(output, _files_of(place, output) | {MANIFEST}) if files else {}
    clashes = sorted(existing.keys() & files.keys())
    if not clashes:
        return
    manifest = existing[MANIFEST]
    # A newer file was changed, or the folder is a copy, whose times are meaningless.
    is_ours = is_object_store(output) or all(existing[name].changed <= manifest.written for name in clashes)
    doubtful = [
        name
        for name in clashes
        if not (is_ours and existing[name].is_left_as(manifest, (files[name] or {}).get("bytes")))
    ]
    for name in doubtful if "://" not in output else ():
        if not os.path.isfile(join(output, name)):  # a FIFO would wait for ever
            raise InputError("is no longer a file: move it elsewhere", join(output, name))
    with ThreadPoolExecutor() as threads:  # hashing leaves the others free to read
        digests = list(threads.map(_digest, [join(output, name) for name in doubtful]))
    for name, digest in zip(doubtful, digests, strict=True):
        if digest != (files[name] or {}).get("sha256"):
            reason = "has been changed since it was written: move it elsewhere, because this run would replace it"
            raise InputError(reason, join(output, name))


class _Standing(NamedTuple):
    """An existing file.

    Attributes:
      size: size in bytes.
      written: the time when its content was written.
      changed: the time when its content, name or permissions were last changed.
      is_moved: whether it got its name after its content, as our files do, in contrast to files edited in place or
        copied. Always True in a bucket, where it is unknown.
    """

    size: int
    written: float
    changed: float
    is_moved: bool

    def is_left_as(self, manifest: _Standing, size: object) -> bool:
        """Whether the file is unchanged since the manifest was written, as the last file of the run."""
        return self.size == size and self.is_moved and self.changed < manifest.written


def _standing(folder: str, relatives: Iterable[str]) -> dict[str, _Standing]:
    """Return the existing files among those below ``folder``."""
    paths = {relative: join(folder, relative) for relative in relatives}
    if is_object_store(folder):
        (matches,) = FileSystems.match([f"{folder}/**"])
        listed = {
            file.path: _Standing(file.size_in_bytes, file.last_updated_in_seconds, file.last_updated_in_seconds, True)
            for file in matches.metadata_list
        }
        return {relative: listed[path] for relative, path in paths.items() if path in listed}
    if "://" in folder:  # HDFS
        return {name: _Standing(-1, 0, math.inf, False) for name, path in paths.items() if FileSystems.exists(path)}
    existing = {}
    for relative, path in paths.items():
        with suppress(OSError):
            status = os.stat(path)
            written, changed = status.st_mtime_ns, status.st_ctime_ns
            existing[relative] = _Standing(status.st_size, written, changed, written < changed)
    return existing


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """Open a new file that gets its name when the block succeeds, and is removed otherwise.

    The file and its name are durable afterwards, even after a power failure.

    Raises:
      DiskError: it cannot be written; NoRoomError if the disk is full.
    """
    with _whole(path, is_durable=disk.is_disk(path)) as handle:
        yield handle


def unpublished(path: str) -> AbstractContextManager[BinaryIO]:
    """Open a file like :func:`whole`, but for staging: publishing makes many files durable at once, which is faster."""
    return _whole(path, is_durable=False)


@contextmanager
def _whole(path: str, is_durable: bool) -> Iterator[BinaryIO]:
    temporary = f"{path}.tmp-{uuid.uuid4().hex}"
    try:
        if is_durable:
            disk.make_folder(os.path.dirname(os.path.abspath(path)))
        # uncompressed, since Beam would gzip names that end in .gz
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            yield handle
        if is_durable:
            disk.sync(temporary)
            disk.replace(temporary, path)
        else:
            FileSystems.rename([temporary], [path])
    except BaseException as error:
        with suppress(Exception):  # the first error must be reported
            if FileSystems.exists(temporary):
                FileSystems.delete([temporary])
        if isinstance(error, OSError) and (reported := _disk_error(error, path)) is not None:
            raise reported from None
        raise


@contextmanager
def reporting(folder: str) -> Iterator[None]:
    """Convert the operating system's errors about a folder or its content to DiskError."""
    try:
        yield
    except OSError as error:
        if (reported := _disk_error(error, folder)) is not None:
            raise reported from None
        raise


def _disk_error(error: OSError, path: str) -> DiskError | None:
    """Return the error to report while ``path`` is written; None if the cause is something else."""
    cause: Any = error
    while isinstance(cause, OSError) and cause.errno is None:  # Beam's wrappers around the operating system's error
        details = getattr(cause, "exception_details", None)
        cause = next(iter(details.values())) if details else next(iter(cause.args), None)
    if not isinstance(cause, OSError) or isinstance(cause, FileNotFoundError):
        return None
    if cause.errno in _NO_ROOM:
        return NoRoomError(f"{path}: there is no disk space left to write this file")
    at = str(cause.filename2 or cause.filename or path)
    if not disk.is_disk(path) or not (at.startswith(path) or path.startswith(at)):
        return None
    return DiskError(f"{at.partition('.tmp-')[0]}: cannot be written: {cause.strerror}")


@contextmanager
def staged(output: str, relative: str) -> Iterator[BinaryIO]:
    """Open a file in the staging folder, see :func:`unpublished`."""
    with unpublished(join(FileSystems.join(output, STAGING), relative)) as handle:
        yield handle


def write_staged(output: str, relative: str, data: bytes | Iterable[bytes]) -> Written:
    """Write a complete file into staging; large data may come in pieces."""
    with staged(output, relative) as handle:
        writer = HashingWriter(handle)
        for piece in (data,) if isinstance(data, bytes) else data:
            writer.write(piece)
    return writer.written(relative)


class HashingWriter:
    """A file object that counts and hashes the data written to it."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle, self.sha256, self.size = handle, hashlib.sha256(), 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes or a buffer."""
        data = bytes(data)
        self.sha256.update(data)
        self.size += len(data)
        self.handle.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def written(self, relative: str) -> Written:
        """Return the entry for the manifest."""
        return relative, self.sha256.hexdigest(), self.size


class WriteFiles(beam.PTransform):
    """Writes (path below the output folder, bytes) into staging; returns entries for the manifest."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """Convert a PCollection of (str, bytes) to a PCollection of Written."""
        return files | "Write file" >> beam.Map(_write, self.output)


def _write(file: tuple[str, bytes], output: str) -> Written:
    return write_staged(output, *file)


class Publish(beam.PTransform):
    """Checks the counts, moves all staged files into place, and writes ``run.json`` last.

    Args:
      output: the output folder.
      header: the entries of ``run.json`` besides files and counts: pipeline, version, options that affect the content.
      counts: PCollection of (name, n), summed for ``run.json``.
      check: called with the summed counts; returns those to record, or raises an exception if they do not balance, so
        that nothing is published.
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
        """Convert a PCollection of Written to one element, the manifest as a dict."""
        pipeline = written.pipeline
        counts = self.counts if self.counts is not None else pipeline | "No counts" >> beam.Create([], reshuffle=False)
        summed = counts | "Sum counts" >> beam.CombinePerKey(sum)
        return (
            pipeline
            | "Once" >> beam.Create([self.header], reshuffle=False)
            | "Publish"
            >> beam.Map(
                _manifest,
                check=self.check,
                written=beam.pvalue.AsList(written),
                counts=beam.pvalue.AsList(summed),
            )
            | "Move" >> PublishStaged(self.output)
        )


def _manifest(
    header: dict[str, Any],
    check: Callable[[dict[str, int]], dict[str, int]] | None,
    written: Iterable[Written],
    counts: Iterable[tuple[str, int]],
) -> dict[str, Any]:
    sums = dict(sorted(counts))
    if check is not None:
        sums = check(sums)
    return manifest_of(header, sums, written)


def manifest_of(header: Mapping[str, Any], counts: Mapping[str, int], written: Iterable[Written]) -> dict[str, Any]:
    """Return the content of ``run.json``."""
    files = {path: {"bytes": size, "sha256": digest} for path, digest, size in sorted(written)}
    return {**header, "counts": counts, "files": files}


class PublishStaged(beam.PTransform):
    """Moves the staged files of a manifest into place, see :func:`publish`.

    In a bucket, where each file is copied, all workers move files; otherwise, renaming all of them takes less time than
    a Beam step.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def expand(self, manifests: beam.PCollection) -> beam.PCollection:
        """Return the PCollection of the manifest after it is published."""
        is_template = manifests.pipeline.options.get_all_options().get("template_location")
        token = None if is_template else _tokens.get(self.output)
        if not is_object_store(self.output):
            return manifests | "At once" >> beam.Map(_publish, self.output, token)
        begun = manifests | "Begin" >> beam.FlatMap(_begin, self.output, token).with_outputs(_BATCHES, main="manifest")
        moved = (
            begun[_BATCHES] | "Spread files" >> beam.Reshuffle() | "Move files" >> beam.Map(move_staged, self.output)
        )
        return begun.manifest | "Finish" >> beam.Map(_finish, self.output, token, beam.pvalue.AsList(moved))


def _publish(manifest: dict[str, Any], output: str, token: str | None) -> dict[str, Any]:
    _publish_all(output, manifest, token)
    return manifest


def _begin(manifest: dict[str, Any], output: str, token: str | None) -> Iterator[Any]:
    yield manifest
    yield from (TaggedOutput(_BATCHES, batch) for batch in begin_publishing(output, manifest, token))


def _finish(manifest: dict[str, Any], output: str, token: str | None, moved: Sequence[None]) -> dict[str, Any]:
    finish_publishing(output, manifest, token)
    return manifest


def publish(output: str, manifest: dict[str, Any]) -> None:
    """Move staged files into place; can be killed or repeated at any point.

    The old manifest is moved aside first, and the new one written last, so that there is none while files change.
    Meanwhile, staging has a list of all files of both runs, so that a rerun with any options can remove them after a
    kill. Each of these steps is on the disk before the next one begins.
    """
    _publish_all(output, manifest, _tokens.get(output))


def _publish_all(output: str, manifest: dict[str, Any], token: str | None) -> None:
    for batch in begin_publishing(output, manifest, token):
        move_staged(batch, output)
    finish_publishing(output, manifest, token)


def begin_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> list[list[str]]:
    """Check that all files exist, and move the old manifest aside. Return the files to move, in batches.

    Raises:
      InputError: a file that is not from an earlier run would be replaced, a link leads outside of the folder, or
        another run has begun here.
      OSError: a file was never written.
    """
    staging, files = FileSystems.join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    # The last one exists if a bundle is retried.
    stale = {name for each in (place, previous, join(staging, PREVIOUS)) for name in _files_of(each, output)}
    ready = _standing(staging, files)
    if not ready and _read_manifest(place) == manifest:  # another attempt has published it
        return []
    _check_owner(output, token, manifest)
    for relative in sorted(_leading_outside(output, files)):
        reason = "leads outside of the output folder by a link: remove the link"
        raise InputError(reason, join(output, relative).rpartition("/")[0])
    existing = _standing(output, stale | files)
    for relative in sorted(existing.keys() & files - stale):
        raise InputError(
            "was not written by an earlier run: move it elsewhere, or choose another --output", join(output, relative)
        )
    for relative in sorted(files - ready.keys() - existing.keys()):
        raise OSError(f"{join(output, relative)}: neither staged nor in place")
    with reporting(output):
        disk.sync_files(join(staging, relative) for relative in sorted(ready))
        with whole(join(staging, PREVIOUS)) as handle:
            handle.write(json.dumps({**manifest, "files": dict.fromkeys(stale | files)}, sort_keys=True).encode())
        if FileSystems.exists(place):
            move([(place, previous)])
        disk.sync(output)  # its manifest is removed, and the list in staging is durable
    # Files that are not ready were moved by an earlier attempt.
    moved = sorted(ready)
    return [moved[i : i + _BATCH] for i in range(0, len(moved), _BATCH)]


def move_staged(batch: Sequence[str], output: str) -> None:
    """Move staged files into place; files moved by an earlier attempt are skipped."""
    staging = FileSystems.join(output, STAGING)
    pairs = [(join(staging, relative), join(output, relative)) for relative in batch]
    with reporting(output):
        try:
            move(pairs)
        except BeamIOError:
            if not all(FileSystems.exists(target) and not FileSystems.exists(source) for source, target in pairs):
                raise


def finish_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> None:
    """Remove files that are no longer written, and write the manifest. Raises InputError if another run has begun."""
    _check_owner(output, token, manifest)
    staging, files = FileSystems.join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    stale = (_files_of(previous, output) | _files_of(join(staging, PREVIOUS), output)) - files
    gone = sorted(_standing(output, stale)) if stale else []
    with reporting(output):
        move([(join(output, relative), join(FileSystems.join(staging, GONE), relative)) for relative in gone])
        _remove_empty({join(output, relative).rpartition("/")[0] for relative in stale}, output)
        disk.sync_folders(output, files | stale)
        # staged, too, so that it appears atomically; then staging is removed
        with whole(join(staging, MANIFEST)) as handle:
            handle.write((json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
        _check_owner(output, token, manifest)
        move([(join(staging, MANIFEST), place)])
        disk.sync(output)
    try:
        if FileSystems.exists(previous):
            FileSystems.delete([previous])
        clear(staging)
    except OSError as error:  # the output stands
        logging.warning("%s: cannot be deleted, the next run will do so: %s", staging, _cause(error))


def move(pairs: Sequence[tuple[str, str]]) -> None:
    """Rename files, (from, to), replacing existing ones."""
    for folder in sorted({target.rpartition("/")[0] for _, target in pairs}):
        make_folder(folder)
    FileSystems.rename([source for source, _ in pairs], [target for _, target in pairs])


def _remove_empty(folders: set[str], output: str) -> None:
    """Remove local folders that have become empty, and their parents, below the output folder."""
    for folder in sorted(folders, reverse=True):
        while folder.startswith(f"{output}/"):
            try:
                os.rmdir(folder)
            except OSError:
                break
            folder = folder.rpartition("/")[0]


def read_written(output: str, relative: str) -> bytes:
    """Read a file of the output folder."""
    return read_bytes(join(output, relative))


def _read_manifest(path: str) -> dict[str, Any]:
    manifest = _read_json(path)
    if isinstance(manifest.get("files"), dict):
        return manifest
    if FileSystems.exists(path):
        logging.warning("%s is not a manifest of Parapet's; its files are left unchanged", path)
    return {}


def _read_json(path: str) -> dict[str, Any]:
    """Read a JSON object; empty if there is none."""
    if FileSystems.exists(path) and ("://" in path or os.path.isfile(path)):  # opening a FIFO would block forever
        with FileSystems.open(path) as handle, suppress(ValueError, RecursionError):
            value = json.loads(handle.read())
            return value if isinstance(value, dict) else {}
    return {}


def _files_of(manifest: str, output: str) -> set[str]:
    """Return the files of a manifest below the output folder; others are not touched."""
    safe = set()
    for relative in _read_manifest(manifest).get("files", {}):
        try:
            join("x", relative)
            safe.add(relative)
        except ValueError:
            logging.warning("%s names a path outside of the folder: %r", manifest, relative)
    outside = _leading_outside(output, safe)
    for relative in sorted(outside):
        logging.warning("%s names a path that leads outside of the folder by a link: %r", manifest, relative)
    return safe - outside


def _leading_outside(output: str, relatives: Iterable[str]) -> set[str]:
    """Return the paths on which a link leads out of a local folder."""
    if "://" in output:
        return set()
    of_folder: dict[str, list[str]] = {}
    for relative in relatives:
        of_folder.setdefault(relative.rpartition("/")[0], []).append(relative)
    leading = [names for names in of_folder.values() if not stays_within(output, names[0])]
    return {name for names in leading for name in names}
