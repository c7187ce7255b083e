"""Writing of training sets: each dialogue file is read once, and each dialogue is followed by its versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from parapet.schemas.dialogue import DialogueFile, dialogue_text, typed
from parapet.schemas.dialogue_table import DIALOGUES, dialogue_row
from parapet.schemas.errors import InputError
from parapet.schemas.rows import parquet_bytes
from parapet.transforms.core.counts import (
    Balance,
    Counts,
    Invariant,
    dead_dialogue,
    id_of,
    of_variants,
)
from parapet.transforms.core.fence import bad_record
from parapet.transforms.core.files import write_staged
from parapet.transforms.core.progress import tracked
from parapet.transforms.core.runs import FileResult, FinishRun, RunInfo, WriteEach
from parapet.transforms.core.set_files import SetFiles
from parapet.transforms.perturb.corpora import read_items
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Report, Tile, report_files
from parapet.transforms.report.text import counted, number
from parapet.transforms.splits.augment.plan import ORIGINAL, Augmentation, Plan, TrainingSet
from parapet.transforms.variants.matching import MAPPING, mapping_bytes
from parapet.transforms.variants.perturbation import Places

CORRUPTIONS = "corruptions"

AUGMENTED = pa.schema(
    [
        *DIALOGUES,
        pa.field("variant", pa.string(), nullable=False),
        pa.field("source_dialogue_id", pa.string(), nullable=False),
    ]
)


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
        outputs = files | "Augment" >> WriteEach(write, shown=0)
        finish = FinishRun(
            self.info,
            partial(metadata_files, plan=self.plan),
            tallies=partial(of_variants, variants=augmentation.labels),
            invariants=invariants_of(augmentation),
        )
        published: beam.PCollection = outputs | "Finish" >> finish
        return published


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
    counts = result.counts
    counts.add("files")
    counts.add("dialogues", 0)
    relative = f"{augmentation.split}/{file.name}"
    sets_of = {
        label: [training_set.name for training_set in augmentation.sets if label in training_set.versions]
        for label in augmentation.labels
    }
    rows: list[pa.RecordBatch] = []
    with ExitStack() as stack:
        files = SetFiles(output, [training_set.name for training_set in augmentation.sets], relative, stack)
        for i, dialogue in enumerate(tracked(read_items(file), "dialogues")):
            counts.add("dialogues")
            name = id_of(dialogue, i)  # before the dialogue's id is replaced by those of its versions
            versions = make_versions(dialogue, file.name, augmentation)
            for label, error in versions.refused.items():
                result.dead_letters.append(dead_dialogue(file, name, error, label))
                counts.add("left_out", set=label)
            rows += versions.rows
            for label, text in versions.texts.items():
                counts.add("versions", set=label)
                for set_name in sets_of[label]:
                    files.add(set_name, text)
        files.close(keep_empty=not counts.sum("dialogues"))
    for set_name, n in files.dialogues.items():
        counts.add("dialogues", n, set=set_name)
    result.written = files.written()
    for training_set in augmentation.sets if rows else ():
        table = pa.Table.from_batches(rows)
        table = table.filter(pc.is_in(table["variant"], pa.array(training_set.versions)))
        positions = pa.array(range(table.num_rows), pa.int32())
        table = table.set_column(AUGMENTED.get_field_index("position"), AUGMENTED.field("position"), positions)
        path = f"{training_set.name}/parquet/{relative.removesuffix('.json')}.parquet"
        result.written.append(write_staged(output, path, parquet_bytes(table)))
        counts.add("rows", table.num_rows, set=training_set.name)
    return result


class Versions(msgspec.Struct):
    """A dialogue under the names of all its possible versions.

    Attributes:
      texts: version to its text in the file.
      rows: a batch with the row of each version.
      refused: version to the reason why it cannot be created.
    """

    texts: dict[str, bytes] = {}
    rows: list[pa.RecordBatch] = []
    refused: dict[str, InputError] = {}


def make_versions(dialogue: Any, file: str, augmentation: Augmentation) -> Versions:
    """Rename a dialogue for every version. The original keeps its id, the others append their name."""
    versions = Versions()
    try:
        places = Places(dialogue, augmentation.known)
        source = typed(dialogue).dialogue_id  # rows need a valid dialogue
    except Exception as error:
        bad = bad_record(error)
        versions.refused = {variant.name: bad for variant in augmentation.versions}
        return versions
    for variant in augmentation.versions:
        try:
            dialogue["dialogue_id"] = source if variant.name == ORIGINAL else f"{source}_{variant.name}"
            text = dialogue_text(places.rename(variant))
            row = row_of(dialogue, file, variant.name, source)
        except Exception as error:
            versions.refused[variant.name] = bad_record(error)
        else:
            versions.texts[variant.name] = text
            versions.rows.append(row)
    return versions


def row_of(dialogue: Mapping[str, Any], file: str, variant: str, source: str) -> pa.RecordBatch:
    """Convert a version of a dialogue to a row; its position in its set is written later.

    Raises:
      InputError: the dialogue does not fit the columns.
    """
    try:
        row = {**dialogue_row(dialogue, file, 0), "variant": variant, "source_dialogue_id": source}
        return pa.RecordBatch.from_pylist([row], AUGMENTED)
    except (TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise InputError(f"not_parquet: contains a value that Parquet cannot store: {error}") from None


def metadata_files(counts: Counts, _: object, plan: Plan) -> dict[str, bytes]:
    """Return the schemas, ``mapping.json``, ``statistics.json``, the card and the page."""
    statistics = statistics_of(counts, plan)
    files = {
        **dict(plan.schemas),
        MAPPING: mapping_bytes(plan.mapped),
        **report_files(statistics, report_of(statistics, plan)),
    }
    if plan.corruptions:
        files[f"{CORRUPTIONS}/{MAPPING}"] = mapping_bytes(plan.corruptions)
    return files


def statistics_of(counts: Counts, plan: Plan) -> dict[str, Any]:
    """Return the content of ``statistics.json``: dialogues by set and by version."""
    versions = {
        label: {"dialogues": counts.sum("versions", set=label), "left_out": counts.sum("left_out", set=label)}
        for label in plan.augmentation.labels
    }
    return {
        "files": counts.sum("files"),
        "dialogues": counts.sum("dialogues", set=""),
        "sets": {
            training_set.name: {
                "dialogues": counts.sum("dialogues", set=training_set.name),
                "versions": training_set.versions,
            }
            for training_set in plan.augmentation.sets
        },
        "versions": versions,
    }


def report_of(statistics: Mapping[str, Any], plan: Plan) -> Report:
    """Create the report for the page and the card."""
    tables = [
        Numbers("Dialogues by set", "sets/*", ("set",), metrics_named("dialogues", "versions"), chart="bars"),
        Numbers("Versions", "versions/*", ("version",), metrics_named("dialogues", "left_out")),
    ]
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
        sections=sections_of(statistics, *tables),
        links={
            MAPPING: "the names of each variant",
            "statistics.json": "all numbers",
            "dead_letters.jsonl": "dialogues that were left out",
        },
    )


def lines_of(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that the command prints: the sets with their versions."""
    yield f"{counted(statistics['dialogues'], 'dialogue')} in {counted(statistics['files'], 'file')}"
    for name, of_set in statistics["sets"].items():
        yield f"{name}: {counted(of_set['dialogues'], 'dialogue')}: {', '.join(of_set['versions'])}"
