"""Builds a release: shards and copies of the corpora, then the manifest, the documents, the checksums, its name."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from msgspec import UNSET

from parapet.schemas.errors import InputError, code_sha256, parapet_version
from parapet.schemas.layout import as_path
from parapet.schemas.release import (
    CARD,
    CHANGELOG,
    CITATION,
    COUNTED,
    CROISSANT,
    FORMAT,
    LICENCE,
    MANIFEST,
    REPORT,
    SUMS,
    Column,
    Config,
    File,
    Input,
    InputFile,
    Manifest,
    Parent,
    ReleaseConfig,
    SplitInfo,
    in_order,
    manifest_bytes,
)
from parapet.transforms.release.card import card, changelog, release_report
from parapet.transforms.release.citation import citation_cff, licence_text
from parapet.transforms.release.croissant import Columns, croissant
from parapet.transforms.release.diff import changes_of, compare
from parapet.transforms.release.plan import Found, Plan, Source, described, read_source, without_labels
from parapet.transforms.release.reading import (
    LATEST,
    Release,
    parts,
    shard_path,
    split_sha256,
    versions_of,
    write_shard,
)
from parapet.transforms.reports.report import page
from parapet.transforms.running.progress import advance, expect
from parapet.transforms.storage import disk
from parapet.transforms.storage.files import (
    clear,
    is_object_store,
    join,
    make_folder,
    move,
    read_bytes,
    read_written,
    reporting,
    unpublished,
    whole,
)

SUMMARY = ".summary.json"
PARTS = ".parts"  # the folder in which rows wait for their shard

_COPIES = "copies"
_COUNTS = "counts"
_INPUTS = "inputs"
_FAULTS = "faults"
_STAGE = "writing Parquet"

ShardKey = tuple[str, str, int, int]  # configuration, split, number of the shard, and how many there are
Part = tuple[str, int, int]  # a file, and start and size of the packed rows in it


class Summary(msgspec.Struct):
    """What was written, and from what.

    Attributes:
      files: shards and copies, by path.
      inputs: by place in the plan, sorted by path.
      counts: what -> corpus -> split -> n.
      faults: the first of each kind of each file.
    """

    files: list[File]
    inputs: list[list[InputFile]]
    counts: dict[str, dict[str, dict[str, int]]]
    faults: list[Found]

    def totals(self, what: str) -> dict[str, int]:
        """Returns the counts of what has no splits: ``fault``, ``disposition``, ``rejection``."""
        return {name: sum(splits.values()) for name, splits in self.counts.get(what, {}).items()}


class BuildData(beam.PTransform):
    """Writes the data of a release below a folder, and its summary last.

    Args:
      plan: what there is to read.
      folder: where to write.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.plan, self.folder = plan, folder

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to the summary's path."""
        expect(len(self.plan.sources), "files")
        shards = {(source.config, source.split): source.shards for source in self.plan.sources}
        expect(sum(shards.values()), "files", _STAGE)
        read = (
            pipeline
            | "Files" >> beam.Create(self.plan.sources)
            | "Read"
            >> beam.ParDo(_Read(self.plan, self.folder)).with_outputs(_COPIES, _COUNTS, _INPUTS, _FAULTS, main="rows")
        )
        written = (
            read.rows | "Group by shard" >> beam.GroupByKey() | "Write shard" >> beam.Map(_write_shard, self.folder)
        )
        return (
            pipeline
            | "Once" >> beam.Create([len(self.plan.inputs)], reshuffle=False)
            | "Summary"
            >> beam.Map(
                _write_summary,
                folder=self.folder,
                files=beam.pvalue.AsList((written, read[_COPIES]) | "All files" >> beam.Flatten()),
                inputs=beam.pvalue.AsList(read[_INPUTS]),
                counts=beam.pvalue.AsList(read[_COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)),
                faults=beam.pvalue.AsList(read[_FAULTS]),
            )
        )


class _Read(beam.DoFn):
    """Source to the places of the packed rows of each shard; File, (input, InputFile), (what, n), Found beside them."""

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.keys = {name: kept.key for name, kept in plan.configs.items()}
        self.services, self.folder = plan.services, folder

    def process(self, source: Source) -> Iterator[Any]:
        table = yield from self._read(source)
        path, start = join(self.folder, f"{PARTS}/{source.input}/{source.relative}"), 0
        with whole(path) as handle:
            for shard, packed in parts(table, self.keys[source.config], source.shards):
                handle.write(packed)
                yield (source.config, source.split, shard, source.shards), (path, start, len(packed))
                start += len(packed)
        advance(1, "files")
        Metrics.counter("parapet", "files").inc()
        Metrics.counter("parapet", "rows").inc(table.num_rows)

    def _read(self, source: Source) -> Generator[Any, None, pa.Table]:
        data = read_bytes(source.path)
        yield TaggedOutput(_INPUTS, (source.input, InputFile(source.relative, len(data), _sha256(data))))
        if source.hidden:
            data = without_labels(data, source.path)
        if source.record in ("dialogue", "service"):
            with whole(join(self.folder, source.copy)) as handle:
                handle.write(data)
            yield TaggedOutput(_COPIES, File(source.copy, len(data), _sha256(data)))
        services = self.services.get(source.corpus, {}).get(source.split, {})
        try:
            table, counts, faults = read_source(source, data, services)
        except InputError as error:
            raise InputError(error.reason, error.path or source.path, error.where) from None
        except Exception as error:  # whatever a reader does not name: the file must be
            raise InputError(f"cannot be read: {str(error) or type(error).__name__}", source.path) from error
        yield from (TaggedOutput(_COUNTS, count) for count in counts.items())
        yield from (TaggedOutput(_FAULTS, found) for found in faults)
        return table


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_shard(shard: tuple[ShardKey, Iterable[Part]], folder: str) -> File:
    key, of_shard = shard
    file = write_shard(map(_read_part, of_shard), folder, shard_path(*key))
    advance(1, "files", _STAGE)
    return file


def _read_part(part: Part) -> bytes:
    path, start, size = part
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        handle.seek(start)
        return bytes(handle.read(size))


def _write_summary(
    n: int,
    folder: str,
    files: Iterable[File],
    inputs: Iterable[tuple[int, InputFile]],
    counts: Iterable[tuple[tuple[str, str, str], int]],
    faults: Iterable[Found],
) -> str:
    """Writes everything in one order, whatever the order of arrival."""
    of_input: list[list[InputFile]] = [[] for _ in range(n)]
    for i, file in sorted(inputs, key=lambda pair: pair[1].path):
        of_input[i].append(file)
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (what, corpus, split), count in sorted(counts):
        nested.setdefault(what, {}).setdefault(corpus, {})[split] = count
    faults = sorted(faults, key=lambda found: (found.path, found.dialogue_id, found.fault))
    summary = Summary(sorted(files, key=lambda file: file.path), of_input, nested, faults)
    with whole(join(folder, SUMMARY)) as handle:
        handle.write(msgspec.json.encode(summary))
    return SUMMARY


def read_summary(folder: str) -> Summary:
    """Reads the summary of a run that has ended."""
    return msgspec.json.decode(read_written(folder, SUMMARY), type=Summary)


_LIBRARIES = ("apache-beam", "msgspec", "orjson", "pyarrow")
_SHOWN = 10


def check_faults(summary: Summary, allowed: list[str]) -> None:
    """Raises InputError where the data has faults of a kind that is not allowed, with counts and the first of them."""
    totals = {kind: n for kind, n in summary.totals("fault").items() if kind not in allowed}
    if not totals:
        return
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in totals.items())
    shown = [str(found) for found in summary.faults if found.fault.kind in totals][:_SHOWN]
    more = sum(totals.values()) - len(shown)
    hint = "mend them, or name the kind in 'allow_problems' to publish them as they are, counted"
    lines = [f"the dialogues have faults ({kinds}), so nothing was published: {hint}", *shown]
    raise InputError("\n  ".join([*lines, f"and {more:,} more"] if more else lines))


def make_manifest(config: ReleaseConfig, plan: Plan, summary: Summary, statistics: Mapping[str, Any]) -> Manifest:
    """Returns the manifest of the data, before there are documents, and before it is compared with its parent."""
    configuration = _configuration(config)
    return Manifest(
        format=FORMAT,
        name=config.name,
        version=config.version,
        title=config.title or config.name,
        description=config.description.strip(),
        licence=config.licence,
        language=config.language,
        created=_created(config),
        homepage=config.homepage,
        authors=config.authors,
        sources=config.sources,
        release_notes=config.changes.strip(),
        parent=None,
        changes=None,
        code={"parapet": parapet_version(), "sha256": code_sha256()},
        libraries={name: metadata.version(name) for name in _LIBRARIES},
        configuration=configuration,
        configuration_sha256=hashlib.sha256(orjson.dumps(configuration, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        inputs=[Input(name, kind, files) for (name, kind), files in zip(plan.inputs, summary.inputs, strict=True)],
        configs=_configs(plan, summary.files),
        counts={what: summary.counts[what] for what in COUNTED if what in summary.counts},
        statistics=dict(statistics),
        dispositions=summary.totals("disposition"),
        rejections=summary.totals("rejection"),
        known_problems=summary.totals("fault"),
        files=summary.files,
        signing=config.signing or UNSET,
    )


def _configuration(config: ReleaseConfig) -> dict[str, Any]:
    """Returns ``release.toml`` with only the last part of each path: the others are of a machine, or a person."""
    raw: dict[str, Any] = msgspec.to_builtins(config)
    for key in ("corpora", "audits", "tables", "statistics"):
        for table in raw.get(key, ()):
            table["path"] = Path(table["path"]).name
    return raw


def _created(config: ReleaseConfig) -> str:
    if config.date is not None:
        return config.date.isoformat()
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return ""
    try:
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{epoch!r} is no number of seconds", "SOURCE_DATE_EPOCH") from None


def _configs(plan: Plan, files: list[File]) -> dict[str, Config]:
    shards: dict[str, dict[str, list[File]]] = {}
    for file in files:
        if file.rows is not None:
            _, name, shard = file.path.split("/")
            shards.setdefault(name, {}).setdefault(shard.partition("-")[0], []).append(file)
    return {
        name: Config(
            kept.kind,
            kept.record,
            kept.key,
            [Column(**column) for column in described(kept.columns)],
            {
                split: SplitInfo(
                    sum(file.rows or 0 for file in shards[name][split]),
                    [file.path for file in shards[name][split]],
                    split_sha256(file.logical_sha256 for file in shards[name][split]),
                )
                for split in in_order(shards[name])
            },
        )
        for name, kept in plan.configs.items()
        if name in shards
    }


def follow(manifest: Manifest, staging: str, parent: Release) -> None:
    """Compares the release with its parent, and enters the difference into the manifest.

    Raises:
      InputError: the version number does not say what has changed.
    """
    sha256 = hashlib.sha256(parent.read(MANIFEST)).hexdigest()
    manifest.parent = Parent(parent.manifest.version, sha256)
    difference = compare(parent, Release(as_path(staging), manifest))
    manifest.changes = changes_of(difference)
    if difference.contradiction:
        what = "; ".join(
            f"{change.config}/{change.split}: {change.added:,} added, {change.removed:,} removed, "
            f"{change.changed:,} changed"
            for change in manifest.changes.splits[:_SHOWN]
        )
        hint = f"the next version is {difference.suggested}" + (f" ({what})" if what else "")
        raise InputError(f"{difference.contradiction}: {hint}", "release.toml", "version")


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
            disk.sync_files(join(staging, path) for path in [*paths, SUMS])
            disk.sync_folders(staging, paths)
            disk.replace(staging, folder)
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
