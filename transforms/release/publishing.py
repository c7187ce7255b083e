"""From the data of a release to the release: documents, checksums, and the name that it is published under."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.release import (
    CARD,
    CHANGELOG,
    CITATION,
    CROISSANT,
    LICENCE,
    MANIFEST,
    REPORT,
    SUMS,
    File,
    Manifest,
    ReleaseConfig,
    manifest_bytes,
)
from parapet.transforms import durable
from parapet.transforms.files import (
    clear,
    is_object_store,
    join,
    make_folder,
    move,
    read_written,
    reporting,
    unpublished,
    whole,
)
from parapet.transforms.release.building import PARTS, SUMMARY
from parapet.transforms.release.documents.card import card, changelog
from parapet.transforms.release.documents.citation import citation_cff, licence_text
from parapet.transforms.release.documents.columns import Columns
from parapet.transforms.release.documents.croissant import croissant
from parapet.transforms.release.documents.report import release_report
from parapet.transforms.release.opening import LATEST, Release, versions_of
from parapet.transforms.report import page

_AT_ONCE = 100  # files a request to a bucket


def folder_of(output: str, config: ReleaseConfig) -> str:
    """The folder of the release."""
    return join(join(output, config.name), config.version)


def staging_of(output: str, config: ReleaseConfig) -> str:
    """Where it is built."""
    return join(join(output, config.name), f".{config.version}.incomplete")


def prepare(output: str, config: ReleaseConfig) -> None:
    """Clears what a killed run left.

    Raises:
      InputError: the version exists, its place is taken by something else, or nothing can be written.
    """
    folder, staging = folder_of(output, config), staging_of(output, config)
    if not is_object_store(folder):
        for left in Path(folder).parent.glob(f"{LATEST}.tmp-*"):
            left.unlink(missing_ok=True)
    if (as_path(folder) / SUMS).is_file():
        update_latest(output, config.name)  # a run may have been killed just before it did so
        raise InputError("already exists, and a release never changes: raise 'version'", folder)
    if as_path(folder).exists():
        # Only a bucket can hold half a release: a folder is renamed in one step.
        if not is_object_store(folder) or not as_path(staging).exists():
            raise InputError("is not a release, and takes its place: move it", folder)
        clear(folder)
    try:
        clear(staging)
        make_folder(staging)
    except (BeamIOError, OSError) as error:
        raise InputError(f"cannot write here: {error}", output) from None


def write_documents(
    manifest: Manifest, columns: Columns, staging: str, parent: Release | None, own_licence: str
) -> None:
    """Writes documents, manifest and, last, checksums beside the data.

    Args:
      manifest: with the files of the data; the documents are added.
      columns: of the configurations, with their types.
      staging: the release's folder, while it is built.
      parent: the release that it follows, if any.
      own_licence: the licence's text if the release brings its own, or nothing.
    """
    previous = parent.read(CHANGELOG).decode() if parent is not None else ""
    texts = {
        CARD: card(manifest, columns),
        CHANGELOG: changelog(manifest, previous),
        CITATION: citation_cff(manifest),
        CROISSANT: croissant(manifest, columns),
        LICENCE: licence_text(manifest, own_licence),
        REPORT: page(release_report(manifest)),
    }
    written = [_write(staging, path, text.encode()) for path, text in texts.items()]
    manifest.files = sorted([*manifest.files, *written], key=lambda file: file.path)
    every = [*manifest.files, _write(staging, MANIFEST, manifest_bytes(manifest))]
    sums = "".join(f"{file.sha256}  {file.path}\n" for file in sorted(every, key=lambda file: file.path))
    _write(staging, SUMS, sums.encode())


def _write(folder: str, relative: str, data: bytes) -> File:
    with unpublished(join(folder, relative)) as handle:
        handle.write(data)
    return File(relative, len(data), hashlib.sha256(data).hexdigest())


def publish(staging: str, folder: str) -> None:
    """Gives the release its name: in one step, once all is on the disk; in a bucket file by file, checksums last."""
    with reporting(staging):
        FileSystems.delete([join(staging, SUMMARY)])
        clear(join(staging, PARTS))
    sums = read_written(staging, SUMS).decode()
    paths = [line.partition("  ")[2] for line in sums.splitlines()]
    if not is_object_store(folder):
        try:
            durable.sync_files(join(staging, path) for path in [*paths, SUMS])
            durable.sync_folders(staging, paths)
            durable.replace(staging, folder)
        except OSError as error:
            raise InputError(f"cannot be published: {error.strerror}", folder) from None
        return
    move([(join(staging, MANIFEST), join(folder, MANIFEST))])  # without checksums it says that this is half a release
    paths.remove(MANIFEST)
    for i in range(0, len(paths), _AT_ONCE):
        move([(join(staging, path), join(folder, path)) for path in paths[i : i + _AT_ONCE]])
    move([(join(staging, SUMS), join(folder, SUMS))])
    clear(staging)


def update_latest(output: str, name: str) -> None:
    """``latest.json``, the one file of a dataset that changes: the highest of its versions."""
    place = join(output, name)
    data = orjson.dumps(
        {"name": name, "version": versions_of(as_path(place), SUMS)[-1]},
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )
    if not FileSystems.exists(join(place, LATEST)) or read_written(place, LATEST) != data:
        with whole(join(place, LATEST)) as handle:
            handle.write(data)
