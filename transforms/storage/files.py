"""Whole files only: staged below the output folder, local or gs://, then published, the manifest last.

Everything is written to ``OUT/.incomplete/`` under a temporary name and renamed there; when all of a run's files
stand, they are moved into place and ``OUT/run.json`` is written last. A run killed anywhere leaves either no
``run.json``, or the one of the run before with all of that run's files. What a rerun of another shape no longer
writes is removed, files of the user's are left alone. The same holds after a power failure: contents are on the disk
before a file is moved, and every name is before the manifest that lists it (:mod:`parapet.transforms.storage.disk`).

A bucket has no folders, and renames an object by copying it and deleting the first: the copy appears whole, and a kill
between the two leaves the same bytes in both places, which is as good as one before the two. What is there is asked by
listing, and files are moved a hundred at a time: each question takes a while.
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

GONE = ".gone"  # below staging: what the run no longer writes

_BATCHES = "batches"  # further output: files that a worker moves at once
_BATCH = 100  # as many as a bucket's client takes

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_tokens: dict[str, str] = {}  # output folder to the name of the file by which this process has begun there

Written = tuple[str, str, int]  # path below the output folder, sha256, bytes


def join(folder: str, relative: str) -> str:
    """``folder/relative`` on any file system. Raises ValueError where ``relative`` would leave ``folder``."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ValueError(f"not a path below the output folder: {relative!r}")
    return str(FileSystems.join(folder, *parts))


def make_folder(path: str) -> None:
    """Makes a folder and its parents; one that is there already (or made by another worker meanwhile) is fine."""
    if disk.is_disk(path):
        disk.make_folder(path)
        return
    try:
        FileSystems.mkdirs(path)
    except (BeamIOError, OSError):
        if not FileSystems.exists(path):
            raise


def is_object_store(path: str) -> bool:
    """Whether a path is in a bucket, where there are no folders and no renaming in one step."""
    return not FileSystems.get_filesystem(path).has_dirs()


def prepare(output: str, pipeline: str) -> None:
    """Makes the output folder, clears what a killed run left in staging, and says there which run has begun.

    Raises:
      InputError: the folder cannot be written, holds the output of another pipeline, or a file in it was changed since
        it was written: a reviewer's work, perhaps, which a rerun would replace.
    """
    try:
        _prepare(output, pipeline)
    except (InputError, DiskError):
        raise
    except Exception as error:  # a file system's or a bucket's own
        raise InputError(f"cannot write here: {_cause(error)}", output) from None


def _cause(error: Exception) -> object:
    """What Beam wraps, each time with all the names again; of an upload's, not what its client had hoped for."""
    while isinstance(error, BeamIOError) and error.exception_details:
        error = next(iter(error.exception_details.values()))
    if isinstance(error, OSError) and error.args and isinstance(error.args[0], OSError):  # Beam's for a local disk
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
        disk.sync(output)  # before staging goes
    # Only a write shows whether a bucket takes one, and a full disk still makes folders.
    token = f"{OWNER}{uuid.uuid4().hex}"
    content = json.dumps({"pipeline": pipeline}).encode()
    write_staged(output, token, content)
    if disk.is_disk(output):
        for name in sorted(os.listdir(staging)):
            if name != token:
                clear(join(staging, name))
    elif is_object_store(output):
        (found,) = FileSystems.match([f"{staging}/**"])
        others = [file.path for file in found.metadata_list if file.path != join(staging, token)]
        FileSystems.delete(others) if others else None
    else:
        clear(staging)
        write_staged(output, token, content)
    _tokens[output] = token


def _check_owner(output: str, token: str | None, manifest: Mapping[str, Any]) -> None:
    """Raises InputError where another run has begun in the folder since: its files would be mixed with these.

    A bucket has no locks, and some file systems have none that hold.

    Args:
      output: the folder.
      token: of this run; None where it is not known, as for a template that is run many times.
      manifest: what it publishes: when a try is repeated after that, its token is gone.
    """
    staging = FileSystems.join(output, STAGING)
    if token is None or FileSystems.exists(join(staging, token)):
        return
    if is_object_store(output):
        is_lost = _read_manifest(join(output, MANIFEST)) != manifest
    else:  # a worker that sees another disk than the command has no token at all, which the command reports
        is_lost = os.path.isdir(staging) and any(name.startswith(OWNER) for name in os.listdir(staging))
    if is_lost:
        raise InputError("another run has started to write here: wait until it ends, then run this again", output)


def clear(folder: str) -> None:
    """Deletes a folder and all that is in it, where there is one; of a link only the link."""
    if is_object_store(folder):
        FileSystems.delete([f"{folder}/"])  # all whose names begin so, a hundred at a time
    elif os.path.islink(folder):
        os.unlink(folder)
    elif FileSystems.exists(folder):
        FileSystems.delete([folder])


def _check_untouched(output: str) -> None:
    """Raises InputError where a file of the run before is another now. Only those that may be are hashed."""
    place = join(output, MANIFEST)
    files = _read_manifest(place).get("files", {})
    standing = _standing(output, _files_of(place, output) | {MANIFEST}) if files else {}
    there = sorted(standing.keys() & files.keys())
    if not there:
        return
    manifest = standing[MANIFEST]
    # A younger file was changed, or the folder is a copy: the times then say nothing of the other files.
    is_ours = is_object_store(output) or all(standing[name].changed <= manifest.written for name in there)
    doubtful = [
        name
        for name in there
        if not (is_ours and standing[name].is_left_as(manifest, (files[name] or {}).get("bytes")))
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
    """A file that is there.

    Attributes:
      size: bytes.
      written: when its content was written.
      changed: when its content, its name or its rights last changed.
      is_moved: whether it got its name after its content, as files of ours do: one that was edited in place, or copied,
        did not. In a bucket nobody knows.
    """

    size: int
    written: float
    changed: float
    is_moved: bool

    def is_left_as(self, manifest: _Standing, size: object) -> bool:
        """Whether the file is as it was when the manifest was written, the last of the run's files."""
        return self.size == size and self.is_moved and self.changed < manifest.written


def _standing(folder: str, relatives: Iterable[str]) -> dict[str, _Standing]:
    """Those of the files below ``folder`` that are there."""
    paths = {relative: join(folder, relative) for relative in relatives}
    if is_object_store(folder):
        (found,) = FileSystems.match([f"{folder}/**"])
        listed = {
            file.path: _Standing(file.size_in_bytes, file.last_updated_in_seconds, file.last_updated_in_seconds, True)
            for file in found.metadata_list
        }
        return {relative: listed[path] for relative, path in paths.items() if path in listed}
    if "://" in folder:  # HDFS
        return {name: _Standing(-1, 0, math.inf, False) for name, path in paths.items() if FileSystems.exists(path)}
    standing = {}
    for relative, path in paths.items():
        with suppress(OSError):
            status = os.stat(path)
            written, changed = status.st_mtime_ns, status.st_ctime_ns
            standing[relative] = _Standing(status.st_size, written, changed, written < changed)
    return standing


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """Opens a new file; it takes its name when the block ends well, and is gone when it does not.

    It is then on the disk, its name too, and outlasts a power failure.

    Raises:
      DiskError: it cannot be written; NoRoomError where the disk is full.
    """
    with _whole(path, is_durable=disk.is_disk(path)) as handle:
        yield handle


def unpublished(path: str) -> AbstractContextManager[BinaryIO]:
    """:func:`whole` for a file of staging, which only publishing forces onto the disk: many at once take less time."""
    return _whole(path, is_durable=False)


@contextmanager
def _whole(path: str, is_durable: bool) -> Iterator[BinaryIO]:
    temporary = f"{path}.tmp-{uuid.uuid4().hex}"
    try:
        if is_durable:
            disk.make_folder(os.path.dirname(os.path.abspath(path)))
        # Uncompressed: Beam would gzip a name that ends in .gz.
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
            yield handle
        if is_durable:
            disk.sync(temporary)
            disk.replace(temporary, path)
        else:
            FileSystems.rename([temporary], [path])
    except BaseException as error:
        with suppress(Exception):  # what went wrong first is what is to be told
            if FileSystems.exists(temporary):
                FileSystems.delete([temporary])
        if isinstance(error, OSError) and (reported := _disk_error(error, path)) is not None:
            raise reported from None
        raise


@contextmanager
def reporting(folder: str) -> Iterator[None]:
    """Raises DiskError in place of what the operating system says of a folder, or of what is in it."""
    try:
        yield
    except OSError as error:
        if (reported := _disk_error(error, folder)) is not None:
            raise reported from None
        raise


def _disk_error(error: OSError, path: str) -> DiskError | None:
    """What is to be reported of an error while ``path`` is written; None for an error of something else."""
    cause: Any = error
    while isinstance(cause, OSError) and cause.errno is None:  # Beam's, around that of the operating system
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
    """Opens a file of the staging folder, see :func:`unpublished`."""
    with unpublished(join(FileSystems.join(output, STAGING), relative)) as handle:
        yield handle


def write_staged(output: str, relative: str, data: bytes | Iterable[bytes]) -> Written:
    """Writes one whole file into staging; what is large comes in pieces."""
    with staged(output, relative) as handle:
        writer = HashingWriter(handle)
        for piece in (data,) if isinstance(data, bytes) else data:
            writer.write(piece)
    return writer.written(relative)


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
    """The content of ``run.json``."""
    files = {path: {"bytes": size, "sha256": digest} for path, digest, size in sorted(written)}
    return {**header, "counts": counts, "files": files}


class PublishStaged(beam.PTransform):
    """Moves the staged files of a manifest into place, see :func:`publish`.

    In a bucket, where each file is copied, all workers move; elsewhere renaming them all takes less than a step of
    Beam's.
    """

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def expand(self, manifests: beam.PCollection) -> beam.PCollection:
        """PCollection of the one manifest to the same, once it is published."""
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
    """Moves staged files into place; may be killed or repeated anywhere.

    The manifest in place goes aside first and comes back as the new one last: while files change, none stands. A list
    of all files of both runs stays in staging meanwhile, so that after a kill a rerun of any shape knows what is to go.
    Each of these steps is on the disk before the next begins.
    """
    _publish_all(output, manifest, _tokens.get(output))


def _publish_all(output: str, manifest: dict[str, Any], token: str | None) -> None:
    for batch in begin_publishing(output, manifest, token):
        move_staged(batch, output)
    finish_publishing(output, manifest, token)


def begin_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> list[list[str]]:
    """Checks that all files are there, and puts the manifest in place aside. Gives the files to be moved, in batches.

    Raises:
      InputError: a file that is not of an earlier run would be replaced, a link leads outside of the folder, or another
        run has begun here.
      OSError: a file was never written.
    """
    staging, files = FileSystems.join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    # The last is there already where a bundle is tried again.
    stale = {name for each in (place, previous, join(staging, PREVIOUS)) for name in _files_of(each, output)}
    ready = _standing(staging, files)
    if not ready and _read_manifest(place) == manifest:  # another try has published it meanwhile
        return []
    _check_owner(output, token, manifest)
    for relative in sorted(_leading_outside(output, files)):
        reason = "leads outside of the output folder by a link: remove the link"
        raise InputError(reason, join(output, relative).rpartition("/")[0])
    standing = _standing(output, stale | files)
    for relative in sorted(standing.keys() & files - stale):
        raise InputError(
            "was not written by an earlier run: move it elsewhere, or choose another --output", join(output, relative)
        )
    for relative in sorted(files - ready.keys() - standing.keys()):
        raise OSError(f"{join(output, relative)}: neither staged nor in place")
    with reporting(output):
        disk.sync_files(join(staging, relative) for relative in sorted(ready))
        with whole(join(staging, PREVIOUS)) as handle:
            handle.write(json.dumps({**manifest, "files": dict.fromkeys(stale | files)}, sort_keys=True).encode())
        if FileSystems.exists(place):
            move([(place, previous)])
        disk.sync(output)  # the manifest is gone from it, and the list in staging can be found
    # Those that are not ready were moved by an earlier try.
    moved = sorted(ready)
    return [moved[i : i + _BATCH] for i in range(0, len(moved), _BATCH)]


def move_staged(batch: Sequence[str], output: str) -> None:
    """Moves staged files into place; those that an earlier try has moved stay there."""
    staging = FileSystems.join(output, STAGING)
    pairs = [(join(staging, relative), join(output, relative)) for relative in batch]
    with reporting(output):
        try:
            move(pairs)
        except BeamIOError:
            if not all(FileSystems.exists(target) and not FileSystems.exists(source) for source, target in pairs):
                raise


def finish_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> None:
    """Removes what the run no longer writes, and writes the manifest. Raises InputError where another run has begun."""
    _check_owner(output, token, manifest)
    staging, files = FileSystems.join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    stale = (_files_of(previous, output) | _files_of(join(staging, PREVIOUS), output)) - files
    gone = sorted(_standing(output, stale)) if stale else []
    with reporting(output):
        move([(join(output, relative), join(FileSystems.join(staging, GONE), relative)) for relative in gone])
        _remove_empty({join(output, relative).rpartition("/")[0] for relative in stale}, output)
        disk.sync_folders(output, files | stale)
        # Staged as well, so that it appears whole; then what is left of staging goes.
        with whole(join(staging, MANIFEST)) as handle:
            handle.write((json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
        move([(join(staging, MANIFEST), place)])
        disk.sync(output)
    try:
        if FileSystems.exists(previous):
            FileSystems.delete([previous])
        clear(staging)
    except OSError as error:  # the output stands
        logging.warning("%s: cannot be deleted, the next run will do so: %s", staging, _cause(error))


def move(pairs: Sequence[tuple[str, str]]) -> None:
    """Renames files, (from, to), replacing what is there."""
    for folder in sorted({target.rpartition("/")[0] for _, target in pairs}):
        make_folder(folder)
    FileSystems.rename([source for source, _ in pairs], [target for _, target in pairs])


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
    return read_bytes(join(output, relative))


def _read_manifest(path: str) -> dict[str, Any]:
    manifest = _read_json(path)
    if isinstance(manifest.get("files"), dict):
        return manifest
    if FileSystems.exists(path):
        logging.warning("%s is not a manifest of Parapet's; its files are left unchanged", path)
    return {}


def _read_json(path: str) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    if FileSystems.exists(path) and ("://" in path or os.path.isfile(path)):  # a FIFO would wait for ever
        with FileSystems.open(path) as handle, suppress(ValueError, RecursionError):
            found = json.loads(handle.read())
            return found if isinstance(found, dict) else {}
    return {}


def _files_of(manifest: str, output: str) -> set[str]:
    """The files of a manifest that are below the output folder: what any other names is not ours to touch."""
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
    """Those of the paths on which a link leads out of a local folder."""
    if "://" in output:
        return set()
    of_folder: dict[str, list[str]] = {}
    for relative in relatives:
        of_folder.setdefault(relative.rpartition("/")[0], []).append(relative)
    leading = [names for names in of_folder.values() if not stays_within(output, names[0])]
    return {name for names in leading for name in names}
