"""Writing of training sets: each dialogue file is read once, and each dialogue is followed by its versions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile, dialogue_text, typed
from parapet.schemas.dialogue_table import DIALOGUES, dialogue_row
from parapet.schemas.errors import InputError
from parapet.schemas.layout import STAGING
from parapet.transforms.perturbation.corpora import read_items
from parapet.transforms.reports.report import Report, Table, Tile, report_files
from parapet.transforms.reports.text import counted, number, percent
from parapet.transforms.running.counts import (
    Balance,
    CountKey,
    Counts,
    Invariant,
    Tally,
    dead_dialogue,
    id_of,
    of_variants,
)
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.progress import tracked
from parapet.transforms.running.runs import FileResult, FinishRun, RunInfo, WriteEach
from parapet.transforms.splits.augment.plan import ORIGINAL, Augmentation, Plan, TrainingSet, counts_of
from parapet.transforms.storage.compressed import open_plain
from parapet.transforms.storage.files import HashingWriter, join, staged
from parapet.transforms.storage.set_files import SetFiles
from parapet.transforms.variants.matching import MAPPING, Variant, mapping_bytes
from parapet.transforms.variants.perturbation import Places, places_of, rename

CORRUPTIONS = "corruptions"
CHANGES = "changes.jsonl"

AUGMENTED = pa.schema(
    [
        *DIALOGUES,
        pa.field("variant", pa.string(), nullable=False),
        pa.field("source_dialogue_id", pa.string(), nullable=False),
    ]
)
_ROWS_OF_A_GROUP = 1000
_COUNTS = "counts"

ShardKey = tuple[str, int, int]  # set, shard, shards
Part = tuple[str, int]  # a file in the staging folder, and the index of a batch in it


class Augment(beam.PTransform):
    """Creates training sets and publishes them: dialogues as JSON and as Parquet, schemas, mappings, corruptions.

    Args:
      plan: the versions of each dialogue, and the sets that contain them.
      info: the metadata of the run.
    """

    def __init__(self, plan: Plan, info: RunInfo) -> None:
        super().__init__()
        self.plan, self.info = plan, info

    def expand(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection:
        """Transform a PCollection of dialogue files to a single element, the manifest."""
        augmentation = self.plan.augmentation
        write = partial(augment_file, augmentation=augmentation, output=self.info.output)
        outputs = files | "Augment" >> WriteEach(write, shown=0, others=("rows", "ids"))
        every = [
            ((training_set.name, shard, training_set.shards), None)
            for training_set in augmentation.sets
            for shard in range(training_set.shards)
        ]
        shards = (
            (outputs.others["rows"], files.pipeline | "Every shard" >> beam.Create(every))
            | "Rows and shards" >> beam.Flatten()
            | "Group by shard" >> beam.GroupByKey()
            | "Parquet"
            >> beam.FlatMap(write_shard, self.info.output, augmentation.split).with_outputs(_COUNTS, main="written")
        )
        finish = FinishRun(
            self.info,
            partial(metadata_files, plan=self.plan),
            beam.pvalue.AsList(outputs.others["ids"]),
            tallies=partial(tallies_of, plan=self.plan),
            invariants=invariants_of(augmentation),
        )
        published: beam.PCollection = (
            outputs.with_more("Parquet", written=shards.written, counts=shards.counts) | "Finish" >> finish
        )
        return published


def tallies_of(counts: Counts, plan: Plan) -> list[Tally]:
    """Return how many dialogues of each version were left out, for the limit of bad records."""
    return of_variants(counts, plan.augmentation.labels)


def invariants_of(augmentation: Augmentation) -> list[Invariant]:
    """Every dialogue has every version or is left out; every set has its versions, in JSON and in Parquet."""
    complete = [partial(_incomplete, of=training_set) for training_set in augmentation.sets]
    return [Balance("dialogues", ("versions", "left_out"), augmentation.labels), *complete]


def _incomplete(counts: Counts, of: TrainingSet) -> Iterator[str]:
    versions = sum(counts.sum("versions", set=label) for label in of.versions)
    yield from (f"{name} of {of.name}" for name in ("dialogues", "rows") if counts.sum(name, set=of.name) != versions)


def augment_file(file: DialogueFile, augmentation: Augmentation, output: str) -> FileResult:
    """Write one file of every set into staging; nothing if the file cannot be read, and no file without dialogues."""
    result = FileResult(file.relative)
    with ExitStack() as stack:
        _augment(file, augmentation, output, result, stack)
    return result


def _augment(file: DialogueFile, augmentation: Augmentation, output: str, result: FileResult, stack: ExitStack) -> None:
    counts = result.counts
    counts.add("files")
    relative = f"{augmentation.split}/{file.name}"
    files = SetFiles(output, [training_set.name for training_set in augmentation.sets], relative, stack)
    sets_of = {
        label: [training_set.name for training_set in augmentation.sets if label in training_set.versions]
        for label in augmentation.labels
    }
    batches, ids = [], []
    counts.add("dialogues", 0)
    for i, dialogue in enumerate(tracked(read_items(file), "dialogues")):
        counts.add("dialogues")
        name = id_of(dialogue, i)  # before the dialogue's id is replaced by those of its versions
        versions, refused = make_versions(dialogue, file.name, augmentation)
        for label, error in refused.items():
            result.dead_letters.append(dead_dialogue(file, name, error, label))
            counts.add("left_out", set=label)
        if not versions:
            continue
        ids.append(versions.source)
        counts.add("unknown_intents", versions.unknown_intents)
        batches.append(versions.batch)
        for label, text in versions.texts.items():
            counts.add("versions", set=label)
            for set_name in sets_of[label]:
                files.add(set_name, text)
    files.close(keep_empty=not counts.sum("dialogues"))
    for set_name, n in files.dialogues.items():
        counts.add("dialogues", n, set=set_name)
    result.written = files.written()
    result.others["rows"] = write_parts(batches, augmentation.sets, output, file.relative) if batches else []
    result.others["ids"] = [(file.relative, ids)]


class Versions(msgspec.Struct):
    """A dialogue under the names of all its possible versions.

    Attributes:
      source: the id of the dialogue.
      texts: version to its text in the file.
      batch: the versions as rows.
      unknown_intents: how many intents are missing from the schema; they are unchanged.
    """

    source: str
    texts: dict[str, bytes]
    batch: Any
    unknown_intents: int


def version_id(source: str, label: str) -> str:
    """Return the id of a version; the original keeps its id."""
    return source if label == ORIGINAL else f"{source}_{label}"


def make_versions(
    dialogue: Any, file: str, augmentation: Augmentation
) -> tuple[Versions | None, dict[str, InputError]]:
    """Rename a dialogue for every version.

    Returns the versions, and the error of each version that cannot be created.
    """
    texts: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    refused: dict[str, InputError] = {}
    try:
        places = places_of(dialogue, augmentation.known)
        if isinstance(places, InputError):
            raise places
        source = typed(dialogue).dialogue_id  # rows need a valid dialogue
        for variant in augmentation.versions:
            try:
                texts[variant.name], row = _version(variant, places, source, file)
                rows.append(row)
            except Exception as error:
                refused[variant.name] = bad_record(error)
        return Versions(source, texts, batch_of(rows), places.unknown_intents) if rows else None, refused
    except Exception as error:
        bad = bad_record(error)
        return None, {variant.name: bad for variant in augmentation.versions}


def _version(variant: Variant, places: Places, source: str, file: str) -> tuple[bytes, dict[str, Any]]:
    places.dialogue["dialogue_id"] = version_id(source, variant.name)
    text = dialogue_text(rename(variant, places))
    return text, row_of(places.dialogue, file, variant.name, source)


def row_of(dialogue: Mapping[str, Any], file: str, variant: str, source: str) -> dict[str, Any]:
    """Convert a version of a dialogue to a row; its position in its set is written later."""
    with _parquet():
        row = dialogue_row(dialogue, file, 0)
        if row["source_json"] is not None:
            orjson.loads(row["source_json"])
    return {**row, "variant": variant, "source_dialogue_id": source}


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Convert rows to Arrow."""
    with _parquet():
        return pa.RecordBatch.from_pylist(rows, AUGMENTED)


@contextmanager
def _parquet() -> Iterator[None]:
    """Raise InputError if a dialogue does not fit the columns."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise InputError(f"not_parquet: contains a value that Parquet cannot store: {error}") from None


def write_parts(
    batches: Iterable[pa.RecordBatch], sets: Iterable[TrainingSet], output: str, relative: str
) -> list[tuple[ShardKey, Part]]:
    """Write the rows of each set and shard as a batch of one staged file, until the shard is written.

    All versions of a dialogue are in one shard, because they have the same utterances and compress well together.

    Args:
      batches: the rows of one dialogue file, in its order.
      sets: the training sets.
      output: the output folder.
      relative: the path of the dialogue file below its root.
    """
    path = f"parts/{relative}"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    written: list[tuple[ShardKey, Part]] = []
    with staged(output, path) as handle, pa.ipc.new_file(handle, AUGMENTED, options=options) as parts:
        for key, rows in _by_shard(pa.Table.from_batches(batches, AUGMENTED), sets):
            parts.write_batch(rows.combine_chunks().to_batches()[0])
            written.append((key, (path, len(written))))
    return written


def _by_shard(table: pa.Table, sets: Iterable[TrainingSet]) -> Iterator[tuple[ShardKey, pa.Table]]:
    at = AUGMENTED.get_field_index("position")
    for training_set in sets:
        chosen = table.filter(pc.is_in(table["variant"], pa.array(training_set.versions, pa.string())))
        chosen = chosen.set_column(at, AUGMENTED.field(at), pa.array(range(chosen.num_rows), pa.int32()))
        by_shard: dict[int, list[int]] = {}
        for i, source in enumerate(chosen["source_dialogue_id"].to_pylist()):
            shard = int(hashlib.sha256(source.encode()).hexdigest(), 16) % training_set.shards
            by_shard.setdefault(shard, []).append(i)
        for shard, rows in sorted(by_shard.items()):
            yield (training_set.name, shard, training_set.shards), chosen.take(rows)


def write_shard(shard: tuple[ShardKey, Iterable[Part | None]], output: str, split: str) -> Iterator[Any]:
    """Write one shard, sorted by source and id. Yields the written file, and the tagged number of rows."""
    (name, n, shards), parts = shard
    batches = []
    for staged_part in parts:
        if staged_part is not None:
            with open_plain(join(output, f"{STAGING}/{staged_part[0]}")) as handle:
                batches.append(pa.ipc.open_file(handle).get_batch(staged_part[1]))
    order = [("source_dialogue_id", "ascending"), ("dialogue_id", "ascending")]
    table = pa.Table.from_batches(batches, AUGMENTED).sort_by(order).combine_chunks()
    path = f"{name}/parquet/{split}-{n:05}-of-{shards:05}.parquet"
    with staged(output, path) as handle:
        writer = HashingWriter(handle)
        pq.write_table(table, writer, compression="zstd", row_group_size=_ROWS_OF_A_GROUP)
    yield writer.written(path)
    yield TaggedOutput(_COUNTS, (tuple(CountKey("rows", name)), table.num_rows))


def check_ids(ids: Iterable[tuple[str, Sequence[str]]], labels: Sequence[str]) -> None:
    """Check that all versions have different ids.

    Args:
      ids: (dialogue file, ids of its dialogues).
      labels: the versions except the original.

    Raises:
      InputError: an id occurs twice, or is the id of another dialogue's version.
    """
    places: dict[str, str] = {}
    for file, of_file in sorted(ids):
        for dialogue_id in of_file:
            if dialogue_id in places:
                where = " and ".join(dict.fromkeys([places[dialogue_id], file]))
                raise InputError(f"dialogue id {dialogue_id!r} appears twice, so nothing was published", where)
            places[dialogue_id] = file
    for dialogue_id, file in places.items():
        for label in labels:
            if (other := version_id(dialogue_id, label)) in places:
                reason = f"dialogue id {other!r} is also the id of {dialogue_id!r} in variant {label!r}"
                raise InputError(f"{reason}; nothing was published", places[other] or file)


def metadata_files(counts: Counts, _: object, ids: Sequence[tuple[str, list[str]]], plan: Plan) -> dict[str, bytes]:
    """Return the schemas, ``mapping.json``, the changes of corruptions, ``statistics.json``, the card and the page."""
    check_ids(ids, plan.augmentation.labels[1:])
    statistics = statistics_of(counts, plan)
    files = {
        **dict(plan.schemas),
        MAPPING: mapping_bytes(plan.mapped),
        **report_files(statistics, report_of(statistics, plan)),
    }
    if plan.corruptions:
        rows = [orjson.dumps(msgspec.to_builtins(change)) + b"\n" for change in plan.changes]
        files[f"{CORRUPTIONS}/{MAPPING}"] = mapping_bytes(plan.corruptions)
        files[f"{CORRUPTIONS}/{CHANGES}"] = b"".join(rows)
    return files


def statistics_of(counts: Counts, plan: Plan) -> dict[str, Any]:
    """Return the content of ``statistics.json``: dialogues by set and by version; the changes of each corruption."""
    versions = {
        label: {"dialogues": counts.sum("versions", set=label), "left_out": counts.sum("left_out", set=label)}
        for label in plan.augmentation.labels
    }
    return {
        "files": counts.sum("files"),
        "dialogues": counts.sum("dialogues", set=""),
        "unknown_intents": counts.sum("unknown_intents"),
        "sets": {
            training_set.name: {
                "dialogues": counts.sum("dialogues", set=training_set.name),
                "versions": training_set.versions,
            }
            for training_set in plan.augmentation.sets
        },
        "versions": versions,
        "corruptions": counts_of(plan.changes),
    }


def report_of(statistics: Mapping[str, Any], plan: Plan) -> Report:
    """Create the report for the page and the card."""
    rates = plan.corrupting.rates
    tables = [
        Table(
            title="Sets",
            columns=["set", "dialogues", "versions"],
            rows=[
                [name, number(numbers["dialogues"]), ", ".join(numbers["versions"])]
                for name, numbers in statistics["sets"].items()
            ],
        ),
        Table(
            title="Versions",
            columns=["version", "dialogues", "left out"],
            rows=[
                [name, number(numbers["dialogues"]), number(numbers["left_out"])]
                for name, numbers in statistics["versions"].items()
            ],
        ),
        Table(
            title="Corrupted names and descriptions",
            columns=["corruption", "of", "number", "changed"],
            rows=[
                [operation, field, number(numbers["total"]), percent(numbers["changed"] / numbers["total"], 0)]
                for operation, fields in statistics["corruptions"].items()
                for field, numbers in fields.items()
            ],
            text_columns=2,
            note=f"A word is replaced with probability {rates.replace:g}; a share of {rates.order:g} of the words "
            f"changes places. Why each of the others is unchanged is in `{CORRUPTIONS}/{CHANGES}`.",
        ),
    ]
    intents = statistics["unknown_intents"]
    return Report(
        command="augment",
        title="Training sets",
        headline=counted(len(statistics["sets"]), "training set"),
        lead="The same dialogues under the original schemas and under alternate ones: schema augmentation (SGD-X, Lee "
        f"et al. 2022). The dialogues are those of the split `{plan.augmentation.split}`.",
        tiles=[
            Tile("original dialogues", number(statistics["dialogues"])),
            Tile("versions", number(len(statistics["versions"]))),
        ],
        notes=[f"{counted(intents, 'intent')} that no schema has: unchanged."] if intents else [],
        sections=[table for table in tables if table.rows],
        links={
            MAPPING: "the names of each variant",
            "statistics.json": "all numbers",
            "dead_letters.jsonl": "dialogues that were left out",
        },
    )


def lines_of(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that the command prints: the sets, and how much the corruptions changed."""
    yield f"{counted(statistics['dialogues'], 'dialogue')} in {counted(statistics['files'], 'file')}"
    for name, of_set in statistics["sets"].items():
        yield f"{name}: {counted(of_set['dialogues'], 'dialogue')}: {', '.join(of_set['versions'])}"
    for operation, fields in statistics["corruptions"].items():
        names, descriptions = (
            f"{numbers['changed'] / max(1, numbers['total']):.0%} of {field}"
            for field in ("names", "descriptions")
            for numbers in (fields.get(field, {"changed": 0, "total": 0}),)
        )
        yield f"{operation}: {names} and {descriptions} changed"
