"""Build of a release, and its upload to the Hugging Face Hub.

First the shards and copies of the corpora are written, then the manifest, documents and checksums; renaming comes last.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec
import orjson
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from msgspec import UNSET

from parapet.schemas import layout, tasks
from parapet.schemas import release as model
from parapet.schemas.errors import InputError, MissingExtra, code_sha256, parapet_version
from parapet.transforms.core import disk, progress
from parapet.transforms.core import files as storage
from parapet.transforms.release import documents, reading
from parapet.transforms.release.plan import OF_TASKS, Counts, Fault, Plan, Source, read_source, without_labels
from parapet.transforms.release.reading import compare
from parapet.transforms.report.report import page

SUMMARY = ".summary.json"
_STAGE = "writing Parquet"

ShardKey = tuple[str, str, int, int]  # configuration, split, number of the shard, and the number of shards


class SourceFacts(msgspec.Struct, frozen=True):
    """The summary of one file: its input, its copy in the release, its counts, its first problems."""

    input: int
    file: model.InputFile
    copy: model.File | None
    counts: Counts
    faults: list[Fault]


class Summary(msgspec.Struct):
    """The written files and their inputs.

    Attributes:
      files: shards and copies by path.
      inputs: the inputs by their position in the plan, sorted by path.
      counts: kind of count -> corpus -> split -> n.
      faults: the first problem of each kind in each file.
    """

    files: list[model.File]
    inputs: list[list[model.InputFile]]
    counts: dict[str, dict[str, dict[str, int]]]
    faults: list[Fault]

    def totals(self, what: str) -> dict[str, int]:
        """Returns counts without splits, such as ``fault``, ``disposition``, ``rejection``."""
        return {name: sum(splits.values()) for name, splits in self.counts.get(what, {}).items()}


class BuildData(beam.PTransform):
    """Writes the data of a release below a folder, and its summary last.

    Args:
      plan: the files to read.
      folder: the output folder.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.plan, self.folder = plan, folder

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Transforms a pipeline to the summary's path."""
        progress.expect(len(self.plan.sources), "files")
        shards = {(source.config, source.split): source.shards for source in self.plan.sources}
        progress.expect(sum(shards.values()), "files", _STAGE)
        read = (
            pipeline
            | "Files" >> beam.Create(self.plan.sources)
            | "Read" >> beam.FlatMap(_read, self.plan, self.folder).with_outputs("facts", main="rows")
        )
        written = (
            read.rows | "Group by shard" >> beam.GroupByKey() | "Write shard" >> beam.Map(_write_shard, self.folder)
        )
        return (
            pipeline
            | "Once" >> beam.Create([len(self.plan.inputs)], reshuffle=False)
            | "Summary"
            >> beam.Map(_write_summary, self.folder, beam.pvalue.AsList(written), beam.pvalue.AsList(read.facts))
        )


def _read(source: Source, plan: Plan, folder: str) -> Iterator[Any]:
    """Yields the packed rows of each shard, and tagged SourceFacts."""
    data = storage.read_bytes(source.path)
    file = model.InputFile(source.relative, len(data), hashlib.sha256(data).hexdigest())
    services = plan.services.get(source.corpus, {}).get(source.split, {})
    try:
        data = without_labels(data) if source.hidden else data
        table, counts, faults = read_source(source, data, services)
    except InputError as error:
        raise InputError(error.reason, error.path or source.path, error.where) from None
    except Exception as error:  # errors of a reader that it does not handle: the message must name the file
        raise InputError(f"cannot be read: {str(error) or type(error).__name__}", source.path) from error
    copy = _write(folder, source.copy, data) if source.record in ("dialogue", "service", *OF_TASKS) else None
    yield TaggedOutput("facts", SourceFacts(source.input, file, copy, counts, faults))
    for shard, packed in reading.parts(table, plan.configs[source.config].key, source.shards):
        yield (source.config, source.split, shard, source.shards), packed
    progress.advance(1, "files")
    Metrics.counter("parapet", "files").inc()
    Metrics.counter("parapet", "rows").inc(table.num_rows)


def _write_shard(shard: tuple[ShardKey, Iterable[bytes]], folder: str) -> model.File:
    key, packed = shard
    file = reading.write_shard(packed, folder, reading.shard_path(*key))
    progress.advance(1, "files", _STAGE)
    return file


def _write_summary(n: int, folder: str, shards: Iterable[model.File], facts: Iterable[SourceFacts]) -> str:
    """Writes everything in a fixed order, independent of the order of arrival."""
    facts = sorted(facts, key=lambda of: (of.input, of.file.path))
    counts: Counts = Counter()
    for of in facts:
        counts.update(of.counts)
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (unit, corpus, split), count in sorted(counts.items()):
        nested.setdefault(unit, {}).setdefault(corpus, {})[split] = count
    files = sorted([*shards, *(of.copy for of in facts if of.copy)], key=lambda file: file.path)
    inputs = [[of.file for of in facts if of.input == i] for i in range(n)]
    faults = sorted(
        (x for of in facts for x in of.faults), key=lambda x: (x.path, x.dialogue_id, x.kind, x.where, x.reason)
    )
    summary = Summary(files, inputs, nested, faults)
    with storage.whole(storage.join(folder, SUMMARY)) as handle:
        handle.write(msgspec.json.encode(summary))
    return SUMMARY


def read_summary(folder: str) -> Summary:
    """Reads the summary of a completed run."""
    return msgspec.json.decode(storage.read_written(folder, SUMMARY), type=Summary)


_LIBRARIES = ("apache-beam", "msgspec", "orjson", "pyarrow")
_SHOWN = 10


def check_faults(summary: Summary, allowed: list[str]) -> None:
    """Raises InputError if the data has problems of a kind that is not allowed, with counts and the first problems.

    Tasks that contradict themselves are always allowed: a release may be a benchmark of others, as it is.
    """
    totals = {kind: n for kind, n in summary.totals("fault").items() if kind not in (*allowed, *tasks.CONTRADICTIONS)}
    if not totals:
        return
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in totals.items())
    shown = [str(fault) for fault in summary.faults if fault.kind in totals][:_SHOWN]
    more = sum(totals.values()) - len(shown)
    hint = "correct them, or name the kind in 'allow_problems' to publish them unchanged, with their number"
    lines = [f"the dialogues have problems ({kinds}), so nothing was published: {hint}", *shown]
    raise InputError("\n  ".join([*lines, f"and {more:,} more"] if more else lines))


def make_manifest(
    config: model.ReleaseConfig, plan: Plan, summary: Summary, statistics: Mapping[str, Any]
) -> model.Manifest:
    """Creates the manifest of the data, without documents and before the comparison with its parent."""
    configuration = _configuration(config)
    taken = ("name", "version", "licence", "language", "homepage", "authors", "sources")
    same: dict[str, Any] = {field: getattr(config, field) for field in taken}
    return model.Manifest(
        **same,
        format=model.FORMAT,
        title=config.title or config.name,
        description=config.description.strip(),
        created=config.date.isoformat() if config.date else "",
        release_notes=config.changes.strip(),
        parent=None,
        changes=None,
        code={"parapet": parapet_version(), "sha256": code_sha256()},
        libraries={name: metadata.version(name) for name in _LIBRARIES},
        configuration=configuration,
        configuration_sha256=hashlib.sha256(orjson.dumps(configuration, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        inputs=[
            model.Input(name, kind, files) for (name, kind), files in zip(plan.inputs, summary.inputs, strict=True)
        ],
        configs=_configs(plan, summary.files),
        counts={unit: summary.counts[unit] for unit in model.COUNTED if unit in summary.counts},
        statistics=dict(statistics),
        dispositions=summary.totals("disposition"),
        rejections=summary.totals("rejection"),
        known_problems=summary.totals("fault"),
        files=summary.files,
        answer_sources=summary.totals("source"),
        is_blind=UNSET if plan.is_blind else False,
    )


def _configuration(config: model.ReleaseConfig) -> dict[str, Any]:
    """Returns ``release.toml`` with only the last part of each path.

    The rest may identify a machine or a person.
    """
    raw: dict[str, Any] = msgspec.to_builtins(config)
    for key in ("corpora", "tasks", "audits", "tables", "statistics"):
        for table in raw.get(key, ()):
            table["path"] = Path(table["path"]).name
    return raw


def _configs(plan: Plan, files: list[model.File]) -> dict[str, model.Config]:
    """Returns the configurations that have rows, with their splits."""
    shards: dict[str, dict[str, list[model.File]]] = {}
    for file in files:
        if file.rows is not None:
            _, name, shard = file.path.split("/")
            shards.setdefault(name, {}).setdefault(shard.partition("-")[0], []).append(file)
    configs = {name: config for name, config in plan.configs.items() if name in shards}
    for name, config in configs.items():
        for split in model.in_order(shards[name]):
            of_split = shards[name][split]
            sha256 = reading.split_sha256(file.logical_sha256 for file in of_split)
            paths = [file.path for file in of_split]
            config.splits[split] = model.SplitInfo(sum(file.rows or 0 for file in of_split), paths, sha256)
    return configs


def follow(manifest: model.Manifest, staging: str, parent: reading.Release) -> None:
    """Compares the release with its parent, and adds the difference to the manifest.

    Raises:
      InputError: the version number does not match the changes.
    """
    manifest.parent = model.Parent(parent.manifest.version, hashlib.sha256(parent.read(model.MANIFEST)).hexdigest())
    difference = compare(parent, reading.Release(layout.as_path(staging), manifest))
    manifest.changes = model.Changes(difference.level, difference.splits)
    if difference.contradiction:
        changed = ", ".join(f"{change.config}/{change.split}" for change in manifest.changes.splits[:_SHOWN])
        hint = f"the next version is {difference.suggested}" + (f" (changed: {changed})" if changed else "")
        raise InputError(f"{difference.contradiction}: {hint}", "release.toml", "version")


def folder_of(output: str, config: model.ReleaseConfig) -> str:
    """Returns the folder of the release."""
    return storage.join(storage.join(output, config.name), config.version)


def staging_of(output: str, config: model.ReleaseConfig) -> str:
    """Returns the folder in which the release is built."""
    return storage.join(storage.join(output, config.name), f".{config.version}.incomplete")


def prepare(output: str, config: model.ReleaseConfig) -> None:
    """Removes the leftovers of a killed run.

    Raises:
      InputError: the version exists, its path is taken, or nothing can be written.
    """
    folder, staging = folder_of(output, config), staging_of(output, config)
    if disk.is_disk(folder):
        for left in Path(folder).parent.glob(f"{reading.LATEST}.tmp-*"):
            left.unlink(missing_ok=True)
    if (layout.as_path(folder) / model.SUMS).is_file():
        update_latest(output, config.name)  # a run may have been killed just before it did so
        raise InputError("exists already, and a release never changes: raise 'version' in release.toml", folder)
    if layout.as_path(folder).exists():
        # Only a bucket can contain half a release, because a folder is renamed in one step.
        if disk.is_disk(folder) or not layout.as_path(staging).exists():
            raise InputError("is not a release, but is where the release belongs: move it elsewhere", folder)
        storage.clear(folder)
    try:
        storage.clear(staging)
        storage.make_folder(staging)
    except (BeamIOError, OSError) as error:
        raise InputError(f"cannot write here: {error}", output) from None


def write_documents(
    manifest: model.Manifest, columns: documents.Columns, staging: str, parent: reading.Release | None, own_licence: str
) -> None:
    """Writes documents, manifest and, last, checksums beside the data.

    Args:
      manifest: the manifest with the files of the data; the documents are added to it.
      columns: the columns of the configurations with their types.
      staging: the folder in which the release is built.
      parent: the previous release, if any.
      own_licence: the text of the release's own licence, or empty.
    """
    previous = parent.read(model.CHANGELOG).decode() if parent is not None else ""
    texts = {
        model.CARD: documents.card(manifest, columns),
        model.CHANGELOG: documents.changelog(manifest, previous),
        model.CITATION: documents.citation_cff(manifest),
        model.CROISSANT: documents.croissant(manifest, columns),
        model.LICENCE: documents.licence_text(manifest, own_licence),
        model.REPORT: page(documents.release_report(manifest, columns)),
    }
    written = [_write(staging, path, text.encode()) for path, text in texts.items()]
    manifest.files = sorted([*manifest.files, *written], key=lambda file: file.path)
    every = [*manifest.files, _write(staging, model.MANIFEST, model.manifest_bytes(manifest))]
    sums = "".join(f"{file.sha256}  {file.path}\n" for file in sorted(every, key=lambda file: file.path))
    _write(staging, model.SUMS, sums.encode())


def _write(folder: str, relative: str, data: bytes) -> model.File:
    with storage.whole(storage.join(folder, relative)) as handle:
        handle.write(data)
    return model.File(relative, len(data), hashlib.sha256(data).hexdigest())


def publish(staging: str, folder: str) -> None:
    """Renames the release to its final name.

    A folder is renamed in one step; in a bucket, files are moved one by one, checksums last.
    """
    with storage.reporting(staging):
        FileSystems.delete([storage.join(staging, SUMMARY)])
    paths = [line.partition("  ")[2] for line in storage.read_written(staging, model.SUMS).decode().splitlines()]
    if disk.is_disk(folder):
        try:
            os.replace(staging, folder)
        except OSError as error:
            raise InputError(f"cannot be published: {error.strerror}", folder) from None
        return
    # the manifest without checksums marks half a release
    storage.move([(storage.join(staging, model.MANIFEST), storage.join(folder, model.MANIFEST))])
    paths.remove(model.MANIFEST)
    for batch in (paths, [model.SUMS]):
        storage.move([(storage.join(staging, path), storage.join(folder, path)) for path in batch])
    storage.clear(staging)


def update_latest(output: str, name: str) -> None:
    """Updates ``latest.json``, the only file of a dataset that changes, with its highest version."""
    place = storage.join(output, name)
    data = orjson.dumps(
        {"name": name, "version": reading.versions_of(layout.as_path(place), model.SUMS)[-1]},
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )
    with storage.whole(storage.join(place, reading.LATEST)) as handle:
        handle.write(data)


# Files below these that the release does not have are deleted: 'datasets' would load those of an older version, too.
_FOLDERS = ("bfcl/*", "data/*", "report/*", "sgd/*")


def find_token() -> str:
    """Returns the token from HF_TOKEN, or from the file written by ``hf auth login``.

    Raises:
      MissingExtra: huggingface_hub is not installed.
      InputError: there is no token.
    """
    try:
        from huggingface_hub import get_token
    except ImportError:
        raise MissingExtra("huggingface_hub", "hub") from None
    if not (token := get_token()):
        reason = "no token for the Hugging Face Hub: set HF_TOKEN to a token that can write, or run: hf auth login"
        raise InputError(reason)
    return token


def push(root: Path, version: str, repo: str, private: bool, token: str) -> str:
    """Uploads a release to a dataset repository, and tags it with the version.

    Args:
      root: the folder of the release.
      version: the version of the release.
      repo: OWNER/NAME; the repository is created if it does not exist.
      private: whether it must be private.
      token: a token that can write.

    Returns:
      The address of the repository.

    Raises:
      InputError: the repository is public, but must be private; it has the version already; or the Hub refuses the
        request or does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx, or of its successor
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    for name in ("httpx", "httpx2"):  # they log each request
        logging.getLogger(name).setLevel(logging.WARNING)
    disable_progress_bars()
    api = HfApi(os.environ.get("HF_ENDPOINT"), token=token)
    try:
        # None means public, unless the organization has another default.
        api.create_repo(repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not api.dataset_info(repo).private:
            raise InputError("is public: make it private in its settings, or leave out --private", repo)
        if version in {ref.name for ref in api.list_repo_refs(repo, repo_type="dataset").tags}:
            raise InputError(
                f"has version {version} already, and a release never changes: build the next version", repo
            )
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=root,
            repo_type="dataset",
            commit_message=f"Version {version}",
            ignore_patterns=[".gitattributes", ".cache/**"],  # created by downloads, and not part of the release
            delete_patterns=list(_FOLDERS),
        )
        api.create_tag(repo, tag=version, revision=commit.oid, repo_type="dataset")
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        raise InputError(_reason(error), repo) from None
    return f"{api.endpoint}/datasets/{repo}"


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    if not isinstance(error, HfHubHTTPError):
        message = " ".join(str(error).split())[:300] or type(error).__name__
        return f"the upload failed: {message}: check the network, and run the same command again"
    if error.response.status_code in (401, 403):
        advice = "the token cannot write to it: set HF_TOKEN to a token that can, or give another --repo"
    else:
        advice = "the Hub refused the request: run the same command again later"
    return f"{advice} (status {error.response.status_code}: {error.server_message})"
