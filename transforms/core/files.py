"""Atomic output: files are staged below the output folder, local or gs://, then published, with the manifest last.

Everything is written to ``OUT/.incomplete/`` under a temporary name and renamed there. When all files of a run are
complete, they are moved into place, and ``OUT/run.json`` is written last. A run killed at any point leaves either no
``run.json``, or that of the previous run with all of its files. Files that a rerun with other options no longer writes
are removed; the user's own files are not touched.

A bucket has no folders, and renames an object by copying it and deleting the original: the copy appears complete, and a
kill between the two steps leaves the same bytes in both places, which is harmless. Existing files are determined by
listing, and files are moved a hundred at a time, because each request is slow.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import BETWEEN, CLOSING, EMPTY, OPENING
from parapet.schemas.errors import DiskError, InputError, NoRoomError
from parapet.schemas.layout import MANIFEST, OWNER, PREVIOUS, STAGING
from parapet.transforms.core.disk import is_disk
from parapet.transforms.core.inputs import read_bytes as read_bytes

_BATCHES = "batches"  # further output: files that a worker moves together
_BATCH = 100  # maximum of a bucket's client

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_tokens: dict[str, str] = {}  # output folder to the name of the file with which this process has begun there

Written = tuple[str, str, int]  # path below the output folder, sha256, bytes


def join(folder: str, relative: str) -> str:
    """Returns ``folder/relative`` on any file system. Raises ValueError if ``relative`` leaves ``folder``."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"not a path below the output folder: {relative!r}")
    return str(FileSystems.join(folder, *parts))


def make_folder(path: str) -> None:
    """Creates a folder and its parents, unless they exist or another worker creates them."""
    if is_disk(path):
        os.makedirs(path, exist_ok=True)


def prepare(output: str, pipeline: str) -> None:
    """Creates the output folder, clears the staging folder of a killed run, and marks there that this run has begun.

    Raises:
      InputError: the folder cannot be written, has the output of another pipeline, or a file in it has another size
        than when it was written, such as a reviewer's work, which a rerun would replace.
    """
    try:
        _prepare(output, pipeline)
    except (InputError, DiskError):
        raise
    except Exception as error:  # exceptions differ between storages
        raise InputError(f"cannot write here: {_cause(error)}", output) from None


def _cause(error: Any) -> Any:
    """Returns the innermost exception wrapped by Beam, which repeats all names at each level."""
    details = getattr(error, "exception_details", None)
    inner = next(iter(details.values())) if details else next(iter(error.args), None)
    is_wrapper = isinstance(error, OSError) and error.errno is None and isinstance(inner, Exception)
    return _cause(inner) if is_wrapper else error


def _prepare(output: str, pipeline: str) -> None:
    staging, previous = join(output, STAGING), join(output, PREVIOUS)
    ours = join(staging, PREVIOUS)
    for manifest in (join(output, MANIFEST), previous, ours):
        if (other := _read_manifest(manifest).get("pipeline", pipeline)) != pipeline:
            raise InputError(f"contains the output of 'parapet {other}': choose another --output", output)
    files = _read_manifest(join(output, MANIFEST)).get("files", {})
    for name, size in sorted(_sizes(output, files).items()):
        if files[name].get("bytes") != size:
            reason = "has been changed since it was written: move it elsewhere, because this run would replace it"
            raise InputError(reason, join(output, name))
    make_folder(output)
    if FileSystems.exists(ours):
        move([(ours, previous)])
    clear(staging)
    # Only a write shows whether a bucket accepts one, and folders can be created on a full disk.
    token = f"{OWNER}{uuid.uuid4().hex}"
    write_staged(output, token, json.dumps({"pipeline": pipeline}).encode())
    _tokens[output] = token


def _check_owner(output: str, token: str | None) -> None:
    """Raises InputError if another run has begun in the folder since, since its files would be mixed with these.

    Buckets have no locks, and those of some file systems do not work. The token is the name of this run's file; None
    if unknown, as for a template that is run many times.
    """
    if token is not None and not FileSystems.exists(join(output, f"{STAGING}/{token}")):
        raise InputError("another run has started to write here: wait until it ends, then run this again", output)


def withhold(output: str) -> None:
    """Keeps this process and its workers from publishing, unless they are about to write the manifest."""
    token, staging = _tokens.get(output), join(output, STAGING)
    if token is not None and is_disk(output):
        with suppress(OSError):
            os.replace(join(staging, token), join(staging, f"{OWNER}stopped"))


def clear(folder: str) -> None:
    """Deletes a folder with its content, if it exists."""
    if not is_disk(folder):
        FileSystems.delete([f"{folder}/"])  # deletes all names with this prefix, a hundred at a time
    elif os.path.isdir(folder):
        FileSystems.delete([folder])


def _sizes(folder: str, relatives: Iterable[str]) -> dict[str, int]:
    """Returns the sizes of the existing files among those below ``folder``."""
    paths = {relative: join(folder, relative) for relative in relatives}
    if is_disk(folder):
        return {relative: os.path.getsize(path) for relative, path in paths.items() if os.path.exists(path)}
    (matches,) = FileSystems.match([f"{folder}/**"])
    listed = {file.path: file.size_in_bytes for file in matches.metadata_list}
    return {relative: listed[path] for relative, path in paths.items() if path in listed}


@contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """Opens a new file that gets its name when the block succeeds, and is removed otherwise.

    Raises:
      DiskError: it cannot be written; NoRoomError if the disk is full.
    """
    temporary = f"{path}.tmp-{uuid.uuid4().hex}"
    with reporting(path):
        try:
            # uncompressed, since Beam would gzip names that end in .gz
            with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
                yield handle
            FileSystems.rename([temporary], [path])
        except BaseException:
            with suppress(Exception):  # the first error must be reported
                if FileSystems.exists(temporary):
                    FileSystems.delete([temporary])
            raise


@contextmanager
def reporting(path: str) -> Iterator[None]:
    """Converts the operating system's errors about a file, or a folder and its content, to DiskError."""
    try:
        yield
    except OSError as error:
        if (reported := _disk_error(error, path)) is not None:
            raise reported from None
        raise


def _disk_error(error: OSError, path: str) -> DiskError | None:
    """Returns the error to report while ``path`` is written; None if the cause is something else."""
    cause = _cause(error)
    if not isinstance(cause, OSError) or isinstance(cause, FileNotFoundError):
        return None
    if cause.errno in _NO_ROOM:
        return NoRoomError(f"{path}: there is no disk space left to write this file")
    at = str(cause.filename2 or cause.filename or path)
    if not is_disk(path) or not (at.startswith(path) or path.startswith(at)):
        return None
    return DiskError(f"{at.partition('.tmp-')[0]}: cannot be written: {cause.strerror}")


def staged(output: str, relative: str) -> AbstractContextManager[BinaryIO]:
    """Opens a file in the staging folder, see :func:`whole`."""
    return whole(join(join(output, STAGING), relative))


def write_staged(output: str, relative: str, data: bytes | Iterable[bytes]) -> Written:
    """Writes a complete file into staging; large data may come in pieces."""
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
        """Writes bytes or a buffer."""
        data = bytes(data)
        self.sha256.update(data)
        self.size += len(data)
        self.handle.write(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing: there is no buffer."""

    def written(self, relative: str) -> Written:
        """Returns the entry for the manifest."""
        return relative, self.sha256.hexdigest(), self.size


class WriteFiles(beam.PTransform):
    """Writes (path below the output folder, bytes) into staging; returns entries for the manifest."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """Converts a PCollection of (str, bytes) to a PCollection of Written."""
        return files | "Write file" >> beam.MapTuple(partial(write_staged, self.output))


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
        """Converts a PCollection of Written to one element, the manifest as a dict."""
        pipeline = written.pipeline
        counts = self.counts if self.counts is not None else pipeline | "No counts" >> beam.Create([], reshuffle=False)
        summed = counts | "Sum counts" >> beam.CombinePerKey(sum)
        return (
            pipeline
            | "Once" >> beam.Create([self.header], reshuffle=False)
            | "Publish"
            >> beam.Map(
                _manifest, check=self.check, written=beam.pvalue.AsList(written), counts=beam.pvalue.AsList(summed)
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
    """Returns the content of ``run.json``."""
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
        """Returns the PCollection of the manifest after it is published."""
        is_template = manifests.pipeline.options.get_all_options().get("template_location")
        token = None if is_template else _tokens.get(self.output)
        if is_disk(self.output):
            return manifests | "At once" >> beam.Map(_publish_all, self.output, token)
        begun = manifests | "Begin" >> beam.FlatMap(_begin, self.output, token).with_outputs(_BATCHES, main="manifest")
        moved = (
            begun[_BATCHES] | "Spread files" >> beam.Reshuffle() | "Move files" >> beam.Map(move_staged, self.output)
        )
        return begun.manifest | "Finish" >> beam.Map(_finish, self.output, token, beam.pvalue.AsList(moved))


def _begin(manifest: dict[str, Any], output: str, token: str | None) -> Iterator[Any]:
    yield manifest
    yield from (TaggedOutput(_BATCHES, batch) for batch in begin_publishing(output, manifest, token))


def _finish(manifest: dict[str, Any], output: str, token: str | None, moved: Sequence[None]) -> dict[str, Any]:
    finish_publishing(output, manifest, token)
    return manifest


def publish(output: str, manifest: dict[str, Any]) -> None:
    """Moves staged files into place; can be killed or repeated at any point.

    The old manifest is moved aside first, and the new one written last, so that there is none while files change.
    Meanwhile, staging has a list of all files of both runs, so that a rerun with any options can remove them after a
    kill.
    """
    _publish_all(manifest, output, _tokens.get(output))


def _publish_all(manifest: dict[str, Any], output: str, token: str | None) -> dict[str, Any]:
    for batch in begin_publishing(output, manifest, token):
        move_staged(batch, output)
    return _finish(manifest, output, token, ())


def begin_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> list[list[str]]:
    """Checks that all files exist, and moves the old manifest aside. Returns the files to move, in batches.

    Raises:
      InputError: a file that is not from an earlier run would be replaced, or another run has begun here.
      OSError: a file was never written.
    """
    staging, files = join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    # The last one exists if a bundle is retried.
    stale = {name for each in (place, previous, join(staging, PREVIOUS)) for name in _read_manifest(each)["files"]}
    ready = _sizes(staging, files).keys()
    if not ready and _read_manifest(place) == manifest:  # another attempt has published it
        return []
    _check_owner(output, token)
    existing = _sizes(output, stale | files).keys()
    for relative in sorted(existing & files - stale):
        raise InputError(
            "was not written by an earlier run: move it elsewhere, or choose another --output", join(output, relative)
        )
    for relative in sorted(files - ready - existing):
        raise OSError(f"{join(output, relative)}: neither staged nor in place")
    with reporting(output):
        both = {**manifest, "files": {name: {} for name in stale | files}}
        with whole(join(staging, PREVIOUS)) as handle:
            handle.write(json.dumps(both, sort_keys=True).encode())
        if FileSystems.exists(place):
            move([(place, previous)])
    # Files that are not ready were moved by an earlier attempt.
    moved = sorted(ready)
    return [moved[i : i + _BATCH] for i in range(0, len(moved), _BATCH)]


def move_staged(batch: Sequence[str], output: str) -> None:
    """Moves staged files into place; files moved by an earlier attempt are skipped."""
    staging = join(output, STAGING)
    pairs = [(join(staging, relative), join(output, relative)) for relative in batch]
    with reporting(output):
        try:
            move(pairs)
        except BeamIOError:
            if not all(FileSystems.exists(target) and not FileSystems.exists(source) for source, target in pairs):
                raise


def finish_publishing(output: str, manifest: dict[str, Any], token: str | None = None) -> None:
    """Removes files that are no longer written, and writes the manifest. Raises InputError if another run has begun."""
    staging, files = join(output, STAGING), set(manifest["files"])
    place, previous = join(output, MANIFEST), join(output, PREVIOUS)
    if _read_manifest(place) != manifest:  # otherwise an earlier attempt has published it
        _check_owner(output, token)
        stale = {name for each in (previous, join(staging, PREVIOUS)) for name in _read_manifest(each)["files"]} - files
        with reporting(output):
            if gone := [join(output, name) for name in _sizes(output, stale)]:
                FileSystems.delete(gone)
            for folder in sorted({join(output, name).rpartition("/")[0] for name in stale}, reverse=True):
                with suppress(OSError):  # not empty, as the output folder is, or in a bucket
                    os.removedirs(folder)
            # staged, too, so that it appears atomically; then staging is removed
            with whole(join(staging, MANIFEST)) as handle:
                handle.write((json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
            move([(join(staging, MANIFEST), place)])
    try:
        if FileSystems.exists(previous):
            FileSystems.delete([previous])
        clear(staging)
    except OSError as error:  # the output stands
        logging.warning("%s: cannot be deleted, the next run will do so: %s", staging, _cause(error))


def move(pairs: Sequence[tuple[str, str]]) -> None:
    """Renames files, (from, to), replacing existing ones."""
    for folder in sorted({target.rpartition("/")[0] for _, target in pairs}):
        make_folder(folder)
    FileSystems.rename([source for source, _ in pairs], [target for _, target in pairs])


def read_written(output: str, relative: str) -> bytes:
    """Reads a file of the output folder."""
    return read_bytes(join(output, relative))


def _read_manifest(path: str) -> dict[str, Any]:
    """Reads a manifest; one without files if there is none, or it is of another program."""
    if FileSystems.exists(path):
        with suppress(ValueError, AttributeError, KeyError, TypeError):
            manifest = json.loads(read_bytes(path))
            if all(isinstance(facts, dict) and join("x", name) for name, facts in manifest["files"].items()):
                return dict(manifest)
        logging.warning("%s is not a manifest of Parapet's; its files are left unchanged", path)
    return {"files": {}}


class SetFiles:
    """The files in a run's sets made from one dialogue file. A file is opened when its first dialogue is added.

    Args:
      output: the output folder.
      sets: the folder of each set below it; empty if the set is the output folder itself.
      relative: the path of the dialogue file below each set.
      stack: closes the files; where it ends by an exception none of them is there.
      lines: whether a file is the texts alone, one after another, and not a list of them.

    Attributes:
      dialogues: the number of dialogues by set.
    """

    def __init__(self, output: str, sets: Iterable[str], relative: str, stack: ExitStack, lines: bool = False) -> None:
        self.dialogues = dict.fromkeys(sets, 0)
        self._output, self._relative, self._stack = output, relative, stack
        self._framing = (b"", b"", b"", b"") if lines else (OPENING, BETWEEN, CLOSING, EMPTY)
        self._writers: dict[str, HashingWriter] = {}

    def add(self, name: str, text: bytes) -> None:
        """Adds a dialogue to a set, as formatted by ``dialogue_text``."""
        writer = self._writers.get(name) or self._open(name)
        opening, between, _, _ = self._framing
        writer.write((between if self.dialogues[name] else opening) + text)
        self.dialogues[name] += 1

    def close(self, keep_empty: bool = True) -> None:
        """Finishes the files. A set without dialogues has an empty list, or no file unless ``keep_empty``."""
        _, _, closing, empty = self._framing
        for name, n in self.dialogues.items():
            if n:
                self._writers[name].write(closing)
            elif keep_empty:
                self._open(name).write(empty)

    def written(self) -> list[Written]:
        """Returns the written files after the stack is closed."""
        return [self._writers[name].written(self._path(name)) for name in self.dialogues if name in self._writers]

    def _open(self, name: str) -> HashingWriter:
        self._writers[name] = HashingWriter(self._stack.enter_context(staged(self._output, self._path(name))))
        return self._writers[name]

    def _path(self, name: str) -> str:
        return f"{name}/{self._relative}" if name else self._relative
