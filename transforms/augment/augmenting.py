"""Dialogue files as training sets: a file is read once, and each dialogue is followed by its versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import apache_beam as beam
import msgspec
import orjson

from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import DialogueFile, dialogue_text, read_each
from parapet.schemas.errors import InputError
from parapet.transforms.augment.corrupting import counts_of
from parapet.transforms.augment.plan import ORIGINAL, Augmentation, Plan
from parapet.transforms.augment.tables import WriteShards, batch_of, row_of, write_parts
from parapet.transforms.corpora import read_file
from parapet.transforms.counts import Balance, Counts, Identities, Invariant
from parapet.transforms.dead_letters import Tally, dead_dialogue, id_of, of_variants
from parapet.transforms.digests import DigestFile, count_distinct, digest_of, write_digests
from parapet.transforms.fence import bad_record
from parapet.transforms.files import STAGING, read_written, write_staged
from parapet.transforms.progress import tracked
from parapet.transforms.report import Report, Table, Tile, card, page
from parapet.transforms.runs import FileResult, FinishRun, RunInfo, WriteEach
from parapet.transforms.set_files import SetFiles
from parapet.transforms.text import counted, number, percent
from parapet.transforms.variants.dialogues import Places, places_of, rename
from parapet.transforms.variants.folders import MAPPING, mapping_bytes
from parapet.transforms.variants.matching import Variant

CORRUPTIONS = "corruptions"
CHANGES = "changes.jsonl"

_LABELS = Identities("versions")  # what is added to the identity of a dialogue in a set of several versions


class Augment(beam.PTransform):
    """Makes the training sets and publishes them: dialogues as JSON and as Parquet, schemas, mappings, corruptions.

    Args:
      plan: the versions of each dialogue, and the sets that have them.
      info: the run.
    """

    def __init__(self, plan: Plan, info: RunInfo) -> None:
        super().__init__()
        self.plan, self.info = plan, info

    def expand(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection:
        """PCollection of dialogue files to one element, the manifest."""
        augmentation = self.plan.augmentation
        write = partial(augment_file, augmentation=augmentation, output=self.info.output)
        outputs = files | "Augment" >> WriteEach(write, shown=0, others=("rows", "ids"))
        shards = outputs.others["rows"] | "Parquet" >> WriteShards(
            self.info.output, augmentation.split, augmentation.sets
        )
        finish = FinishRun(
            self.info,
            partial(metadata_files, plan=self.plan, output=self.info.output),
            beam.pvalue.AsList(outputs.others["ids"]),
            tallies=partial(tallies_of, plan=self.plan),
            invariants=invariants_of(augmentation),
        )
        published: beam.PCollection = (
            outputs.with_more("Parquet", written=shards.written, counts=shards.counts) | "Finish" >> finish
        )
        return published


def tallies_of(counts: Counts, plan: Plan) -> list[Tally]:
    """The dialogues of each version that may be left out."""
    return of_variants(counts, plan.augmentation.labels)


def invariants_of(augmentation: Augmentation) -> list[Invariant]:
    """Every dialogue has every version or is left out; every set has its versions, in JSON and in Parquet."""
    return [
        Balance("dialogues", ("versions", "left_out"), augmentation.labels),
        *(_Complete(of.name, of.versions) for of in augmentation.sets),
    ]


class _Complete(msgspec.Struct, frozen=True):
    set: str
    versions: Sequence[str]

    def __call__(self, counts: Counts) -> Iterator[str]:
        numbers = {label: counts.sum("versions", set=label) for label in self.versions}
        for name in ("dialogues", "rows"):
            if counts.sum(name, set=self.set) != sum(numbers.values()):
                yield f"{name} of {self.set}"
        ids = sum(counts.ids("versions", set=label) + n * _LABELS.of(label) for label, n in numbers.items())
        if counts.has_ids("versions") and counts.ids("dialogues", set=self.set) != ids:
            yield f"dialogues of {self.set} (not those that were made)"


def augment_file(file: DialogueFile, augmentation: Augmentation, output: str) -> FileResult:
    """Writes one file of every set, into staging; none of a file that cannot be read, nor a file without dialogues."""
    result = FileResult(file.relative)
    with ExitStack() as stack:
        _augment(file, augmentation, output, result, stack)
    return result


def _augment(file: DialogueFile, augmentation: Augmentation, output: str, result: FileResult, stack: ExitStack) -> None:
    counts = result.counts
    counts.add("files")
    relative = f"{augmentation.split}/{file.name}"
    files = SetFiles(output, [of.name for of in augmentation.sets], relative, stack)
    sets_of = {label: [of.name for of in augmentation.sets if label in of.versions] for label in augmentation.labels}
    batches, ids, identities = [], [], Identities(file.relative)
    counts.add("dialogues", 0)
    for i, (dialogue, plain) in enumerate(tracked(read_each(read_file(file), file.path), "dialogues")):
        identity = identities.of(i)
        counts.add("dialogues", id=identity)
        name = id_of(dialogue, i)  # before the dialogue is given those of its versions
        versions, refused = make_versions(dialogue, plain, file.name, augmentation)
        for label, error in refused.items():
            result.dead_letters.append(dead_dialogue(file, name, error, label))
            counts.add("left_out", set=label, id=identity)
        if not versions:
            continue
        ids.append(versions.source)
        counts.add("unknown_intents", versions.unknown_intents)
        batches.append(versions.batch)
        for label, text in versions.texts.items():
            counts.add("versions", set=label, id=identity)
            for set_name in sets_of[label]:
                files.add(set_name, text, identity + _LABELS.of(label))
    files.close(keep_empty=not counts.sum("dialogues"))
    for set_name, n in files.dialogues.items():
        counts.add("dialogues", n, set=set_name, id=files.ids[set_name])
    result.written = files.written()
    result.others["rows"] = write_parts(batches, augmentation.sets, output, file.relative) if batches else []
    result.others["ids"] = [write_ids(output, file.relative, ids, augmentation.labels)]


class Versions(msgspec.Struct):
    """One dialogue under the names of all versions that can have it.

    Attributes:
      source: its id.
      texts: version to its text, as it is in a file.
      batch: the same as rows.
      unknown_intents: how many intents the schema lacks; they are unchanged.
    """

    source: str
    texts: dict[str, bytes]
    batch: Any
    unknown_intents: int


def version_id(source: str, label: str) -> str:
    """The id of a version: the original keeps its own."""
    return source if label == ORIGINAL else f"{source}_{label}"


def make_versions(
    dialogue: Any, plain: bool, file: str, augmentation: Augmentation
) -> tuple[Versions | None, dict[str, InputError]]:
    """A dialogue under every version's names; and the versions that cannot have it, with the reason."""
    texts: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    refused: dict[str, InputError] = {}
    try:
        places = places_of(dialogue, augmentation.known)
        if isinstance(places, InputError):
            raise places
        source = typed(dialogue).dialogue_id  # rows are made of no others
        for variant in augmentation.versions:
            try:
                texts[variant.name], row = _version(variant, places, plain, source, file)
                rows.append(row)
            except Exception as error:
                refused[variant.name] = bad_record(error)
        return Versions(source, texts, batch_of(rows), places.unknown_intents) if rows else None, refused
    except Exception as error:
        bad = bad_record(error)
        return None, {variant.name: bad for variant in augmentation.versions}


def _version(variant: Variant, places: Places, plain: bool, source: str, file: str) -> tuple[bytes, dict[str, Any]]:
    places.dialogue["dialogue_id"] = version_id(source, variant.name)
    text = dialogue_text(rename(variant, places), plain)
    return text, row_of(places.dialogue, file, variant.name, source)


class Ids(msgspec.Struct, frozen=True):
    """The ids of one dialogue file, which wait in a file of the staging folder.

    Attributes:
      file: the dialogue file, below the root.
      number: of the ids of all versions.
      digests: of the same.
    """

    file: str
    number: int
    digests: DigestFile


def write_ids(output: str, file: str, ids: Sequence[str], labels: Sequence[str]) -> Ids:
    """Writes the ids of a file into staging, and the digests of those of all versions; ``labels`` are all of these."""
    write_staged(output, _ids_path(file), msgspec.json.encode(ids))
    digests = (digest_of(version_id(dialogue_id, label)) for dialogue_id in ids for label in labels)
    return Ids(file, len(ids) * len(labels), write_digests(output, f"digests/{file}", digests))


def _ids_path(file: str) -> str:
    return f"ids/{file}"


def check_ids(ids: Sequence[Ids], labels: Sequence[str], output: str) -> None:
    """Checks that no two versions have the same id.

    Args:
      ids: of each dialogue file.
      labels: the versions but the original.
      output: the output folder.

    Raises:
      InputError: an id occurs twice, or is the id of another dialogue's version.
    """
    if count_distinct([of_file.digests for of_file in ids], output) == sum(of_file.number for of_file in ids):
        return
    # Only now all of them are read, to say which it is.
    places: dict[str, str] = {}
    for file in sorted(of_file.file for of_file in ids):
        for dialogue_id in msgspec.json.decode(read_written(output, f"{STAGING}/{_ids_path(file)}"), type=list[str]):
            if dialogue_id in places:
                where = " and ".join(dict.fromkeys([places[dialogue_id], file]))
                raise InputError(f"dialogue id {dialogue_id!r} occurs twice, so nothing was published", where)
            places[dialogue_id] = file
    for dialogue_id, file in places.items():
        for label in labels:
            if (other := version_id(dialogue_id, label)) in places:
                reason = f"dialogue id {other!r} is also that of {dialogue_id!r} in variant {label!r}"
                raise InputError(f"{reason}; nothing was published", places[other] or file)


def metadata_files(counts: Counts, _: object, ids: Sequence[Ids], plan: Plan, output: str) -> dict[str, bytes]:
    """The schemas, ``mapping.json``, the changes of the corruptions, ``statistics.json``, the card and the page."""
    check_ids(ids, plan.augmentation.labels[1:], output)
    statistics = statistics_of(counts, plan)
    report = report_of(statistics, plan)
    files = {
        **dict(plan.schemas),
        MAPPING: mapping_bytes(plan.mapped),
        "statistics.json": (json.dumps(statistics, indent=2) + "\n").encode(),
        "README.md": card(report).encode(),
        "report.html": page(report).encode(),
    }
    if plan.corruptions:
        rows = [orjson.dumps(msgspec.to_builtins(change)) + b"\n" for change in plan.changes]
        files[f"{CORRUPTIONS}/{MAPPING}"] = mapping_bytes(plan.corruptions)
        files[f"{CORRUPTIONS}/{CHANGES}"] = b"".join(rows)
    return files


def statistics_of(counts: Counts, plan: Plan) -> dict[str, Any]:
    """The content of ``statistics.json``: dialogues by set and by version; the changes of each corruption."""
    versions = {
        label: {"dialogues": counts.sum("versions", set=label), "left_out": counts.sum("left_out", set=label)}
        for label in plan.augmentation.labels
    }
    return {
        "files": counts.sum("files"),
        "dialogues": counts.sum("dialogues", set=""),
        "unknown_intents": counts.sum("unknown_intents"),
        "sets": {
            of.name: {"dialogues": counts.sum("dialogues", set=of.name), "versions": of.versions}
            for of in plan.augmentation.sets
        },
        "versions": versions,
        "corruptions": counts_of(plan.changes),
    }


def report_of(statistics: Mapping[str, Any], plan: Plan) -> Report:
    """The page and the card."""
    sets = [[name, number(of["dialogues"]), ", ".join(of["versions"])] for name, of in statistics["sets"].items()]
    versions = [[name, number(of["dialogues"]), number(of["left_out"])] for name, of in statistics["versions"].items()]
    changes = [
        [operation, field, number(of["total"]), percent(of["changed"] / of["total"], 0)]
        for operation, fields in statistics["corruptions"].items()
        for field, of in fields.items()
    ]
    intents = statistics["unknown_intents"]
    rates = plan.corrupting.rates
    return Report(
        command="augment",
        title="Training sets",
        headline=counted(len(sets), "training set"),
        lead="The same dialogues under the original schemas and under alternate ones: schema augmentation (SGD-X, Lee "
        f"et al. 2022). The dialogues are those of the split `{plan.augmentation.split}`.",
        tiles=[Tile("original dialogues", number(statistics["dialogues"])), Tile("versions", number(len(versions)))],
        notes=[f"{counted(intents, 'intent')} that no schema has: unchanged."] if intents else [],
        sections=[
            Table(title="Sets", columns=["set", "dialogues", "versions"], rows=sets, text_columns=1),
            Table(title="Versions", columns=["version", "dialogues", "left out"], rows=versions),
            *(
                [
                    Table(
                        title="Corrupted names and descriptions",
                        columns=["corruption", "of", "number", "changed"],
                        rows=changes,
                        text_columns=2,
                        note=f"A word is replaced with probability {rates.replace:g}; a share of {rates.order:g} of "
                        "the words changes places. Why each of the others is unchanged is in "
                        f"`{CORRUPTIONS}/{CHANGES}`.",
                    )
                ]
                if changes
                else []
            ),
        ],
        links={
            MAPPING: "the names of each variant",
            "statistics.json": "all numbers",
            "dead_letters.jsonl": "dialogues that were left out",
        },
    )


def lines_of(statistics: Mapping[str, Any]) -> Iterator[str]:
    """What the command prints: the sets, and how much the corruptions changed."""
    yield f"{counted(statistics['dialogues'], 'dialogue')} in {counted(statistics['files'], 'file')}"
    for name, of_set in statistics["sets"].items():
        yield f"{name}: {counted(of_set['dialogues'], 'dialogue')}: {', '.join(of_set['versions'])}"
    for operation, fields in statistics["corruptions"].items():
        names, descriptions = (
            f"{of['changed'] / max(1, of['total']):.0%} of {field}"
            for field in ("names", "descriptions")
            for of in (fields.get(field, {"changed": 0, "total": 0}),)
        )
        yield f"{operation}: {names} and {descriptions} changed"
