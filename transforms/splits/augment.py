"""Training sets with the same dialogues under the original schemas and under alternate ones.

The plan has the names of the sets, the schemas of their variants, and corrupted schemas, in which words of names and
descriptions are replaced by other words of the corpus, or reordered. They resemble the corpus but mean something else,
or nothing: they are a baseline for schema augmentation. All random choices are hashes of the seed and a key, so they do
not depend on the worker or the order of the services. Then each dialogue file is read once, and each dialogue is
followed by its versions.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import apache_beam as beam
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from parapet.schemas import layout
from parapet.schemas.dialogue import MARKERS, DialogueFile, dialogue_folders, dialogue_text, list_files, typed
from parapet.schemas.errors import InputError
from parapet.schemas.rows import DIALOGUES, dialogue_row, parquet_bytes
from parapet.schemas.service import Element, Service, elements_of, parse_service
from parapet.transforms.core import fence, progress, runs
from parapet.transforms.core.counts import Balance, Counts, Invariant, Tally, dead_dialogue, id_of, of_variants
from parapet.transforms.core.files import SetFiles, write_staged
from parapet.transforms.perturb.corpora import read_items
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Report, Tile, report_files
from parapet.transforms.report.text import (
    Convention,
    Conventions,
    conventions_of,
    counted,
    join_words,
    name_words,
    number,
)
from parapet.transforms.variants import matching, perturbation
from parapet.transforms.variants.matching import MAPPING, mapping_bytes

_ATTEMPTS = 20

Operation = Literal["replace", "order", "both"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# A word with its apostrophes and hyphens: "driver's", "drop-off".
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


class Rates(msgspec.Struct, frozen=True):
    """How much to corrupt. The defaults are our own (docs/variants.md shows their effect on SGD).

    Attributes:
      replace: the probability of replacing a word.
      order: the expected share of words that change places.
    """

    replace: float = 0.2
    order: float = 0.3


class Vocabulary(msgspec.Struct, frozen=True):
    """The words of a corpus by where they occur, each tuple sorted and without duplicates."""

    slots: tuple[str, ...]
    intents: tuple[str, ...]
    descriptions: tuple[str, ...]


def vocabulary_of(services: Iterable[Service], conventions: Conventions) -> Vocabulary:
    """Collects the words of slot names, of intent names, and of all descriptions including the services'."""
    slots, intents, descriptions = set[str](), set[str](), set[str]()
    for service in services:
        descriptions.update(description_words(service.description))
        for slot in service.slots:
            slots.update(split_name(slot.name, conventions.slots)[1])
            descriptions.update(description_words(slot.description))
        for intent in service.intents:
            intents.update(split_name(intent.name, conventions.intents)[1])
            descriptions.update(description_words(intent.description))
    return Vocabulary(*(tuple(sorted(words)) for words in (slots, intents, descriptions)))


def corrupt_words(
    words: Sequence[str], operation: Operation, vocabulary: Sequence[str], rates: Rates, key: Sequence[str]
) -> list[str]:
    """Corrupts words without changing their number: replace some, move some, or first replace and then move.

    Args:
      words: the words.
      operation: the kind of corruption.
      vocabulary: the replacements, sorted and without duplicates.
      rates: how much to corrupt.
      key: the key of the random choices: seed, element, field, operation.
    """
    words = list(words)
    if operation != "order":
        words = replace_words(words, vocabulary, rates.replace, key)
    return words if operation == "replace" else reorder_words(words, rates.order, key)


def replace_words(words: Sequence[str], vocabulary: Sequence[str], rate: float, key: Sequence[str]) -> list[str]:
    """Replaces each word with probability ``rate`` by another word of the vocabulary, drawn uniformly."""
    return [
        _another(word, vocabulary, (*key, "word", str(i))) if _share(*key, "replaced", str(i)) < rate else word
        for i, word in enumerate(words)
    ]


def _another(word: str, vocabulary: Sequence[str], key: Sequence[str]) -> str:
    at = bisect_left(vocabulary, word)
    known = at < len(vocabulary) and vocabulary[at] == word
    others = len(vocabulary) - known
    if not others:
        return word
    drawn = _number(*key) % others
    return vocabulary[drawn + (known and drawn >= at)]


def reorder_words(words: Sequence[str], rate: float, key: Sequence[str]) -> list[str]:
    """Moves an expected share ``rate`` of the words; each takes the place of the next word drawn.

    At least two words must move, so of two words either both move or neither. With rate 1 every word moves, but an
    equal one may take its place. A single word cannot move.
    """
    expected = rate * len(words)
    if expected < 2:
        moved = 2 if _share(*key, "moved") < expected / 2 else 0
    else:
        moved = int(expected) + (_share(*key, "moved") < expected % 1)
    if len(words) < 2 or not moved:
        return list(words)
    places = sorted(range(len(words)), key=lambda i: (_number(*key, "place", str(i)), i))[:moved]
    reordered = list(words)
    for source, target in zip(places, places[1:] + places[:1], strict=True):
        reordered[target] = words[source]
    return reordered


def _number(*key: str) -> int:
    # Lengths are included, so that no two keys are joined to the same text.
    text = "".join(f"{len(part)}:{part}" for part in key)
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big")


def _share(*key: str) -> float:
    return (_number(*key) >> 11) / 2**53  # 53 bits: always below 1


def split_name(name: str, convention: Convention) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits a name into the domain's words of a ``domain-slot`` name, which are kept, and the words to corrupt."""
    domain, hyphen, rest = name.partition("-")
    if convention is Convention.DOMAIN_SLOT and hyphen:
        return name_words(domain), name_words(rest)
    return (), name_words(name.rpartition(".")[2])  # the prefix of a tool is kept


def name_of(words: Sequence[str], original: str, convention: Convention) -> str:
    """Joins words to a name in the corpus's convention; the original, unchanged, if the words are its own."""
    domain, own = split_name(original, convention)
    return original if tuple(words) == own else join_words([*domain, *words], convention, original)


def description_words(text: str) -> list[str]:
    """Returns the words of a description; the first one without the capital letter of a sentence."""
    words = _WORD.findall(text)
    if words and words[0][1:] == words[0][1:].lower():  # "ATM" keeps its capitals
        words[0] = words[0].lower()
    return words


def description_of(words: Sequence[str], original: str) -> str:
    """Replaces the words of a description. Punctuation is kept, and a capital letter at the beginning."""
    if list(words) == description_words(original):
        return original
    first = _WORD.findall(original)[0]
    new = iter([words[0][:1].upper() + words[0][1:] if first[0].isupper() else words[0], *words[1:]])
    return _WORD.sub(lambda _: next(new), original)


class Corruption(msgspec.Struct, frozen=True):
    """How schemas are corrupted.

    Attributes:
      operation: the kind of corruption; also the name of the variant.
      rates: how much to corrupt.
      seed: the random seed.
      vocabulary: the replacements.
      conventions: the naming conventions of the corpus.
    """

    operation: Operation
    rates: Rates
    seed: str
    vocabulary: Vocabulary
    conventions: Conventions

    def words_of(self, words: tuple[str, ...], element: str, kind: str, field: str, attempt: int = 0) -> list[str]:
        """Corrupts words; each attempt makes different random choices."""
        vocabulary = self.vocabulary.descriptions if field == "description" else self.vocabulary.slots
        if field == "name" and kind == "intent":
            vocabulary = self.vocabulary.intents
        # The id of an element begins with its service. With the operation, "both" differs from the other two.
        key = [self.seed, element, field, self.operation, str(attempt)]
        return corrupt_words(words, self.operation, vocabulary, self.rates, key)


def corrupted(raw: Mapping[str, Any], corruption: Corruption) -> dict[str, Any]:
    """Corrupts a service, and renames it to ``SERVICEreplace``, ``SERVICEorder`` or ``SERVICEboth``.

    The order of elements is kept.

    Args:
      raw: the service in its file, validated.
      corruption: the kind of corruption.
    """
    service = parse_service(dict(raw))
    corruption = msgspec.structs.replace(corruption, conventions=corruption.conventions.within(service))
    named, described = elements_of(service, "names"), elements_of(service, "descriptions")
    # Original names are never used, even corrupted ones: in a dialogue they would mean another element.
    taken = {kind: {element.name for element in named if element.kind == kind} for kind in ("intent", "slot")}
    names = {}
    for element in named:
        names[element.field] = _corrupted_name(element, corruption, taken[element.kind])
        taken[element.kind].add(names[element.field])
    descriptions = {element.field: _corrupted_description(element, corruption) for element in described}
    return matching.compose_variant(raw, corruption.operation, names, descriptions)


def _corrupted_name(element: Element, corruption: Corruption, taken: Collection[str]) -> str:
    """Returns a corrupted name that no element of the service has; the original if no word was drawn or is free."""
    convention = corruption.conventions.of(element.kind, element.name)
    words = split_name(element.name, convention)[1]
    for attempt in range(_ATTEMPTS):
        name = name_of(corruption.words_of(words, element.id, element.kind, "name", attempt), element.name, convention)
        if name == element.name and not attempt:
            break
        if name not in taken and not (element.kind == "slot" and name in MARKERS):
            return name
    return element.name


def _corrupted_description(element: Element, corruption: Corruption) -> str:
    words = tuple(description_words(element.description))
    return description_of(corruption.words_of(words, element.id, element.kind, "description"), element.description)


Kind = Literal["backtrans", "oracle", "corrupted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NONE = "none"  # the original dialogues alone
ORIGINAL = "original"

Raw = dict[str, dict[str, Any]]  # original service to a variant's service as in its file


class CorruptionConfig(msgspec.Struct, frozen=True):
    """The corruptions to create and their parameters."""

    operations: Sequence[Operation]
    rates: Rates
    seed: str


class TrainingSet(msgspec.Struct, frozen=True):
    """A training set: its folder, and its versions with the original first."""

    name: str
    versions: list[str]


class Augmentation(msgspec.Struct, frozen=True):
    """The versions of every dialogue, and the sets that contain them.

    Attributes:
      split: the folder below each set.
      known: the slots and intents of the original services.
      versions: the original and every variant.
      sets: the training sets.
    """

    split: str
    known: matching.Known
    versions: list[matching.Variant]
    sets: list[TrainingSet]

    @property
    def labels(self) -> list[str]:
        """The names of the versions, the original first."""
        return [variant.name for variant in self.versions]


class Plan(msgspec.Struct, frozen=True):
    """The complete input of a run.

    Attributes:
      augmentation: the part that workers need.
      files: the dialogue files, the largest first.
      schemas: (path below the output, bytes) of every schema file.
      mapped: the names of every version except the original, for the split's services.
      corruptions: the same for the corruptions, for the services of all splits.
      corrupting: the parameters of the corruptions.
      problems: mismatches, one line each.
    """

    augmentation: Augmentation
    files: list[DialogueFile]
    schemas: list[tuple[str, bytes]]
    mapped: matching.Mapped
    corruptions: matching.Mapped
    corrupting: CorruptionConfig
    problems: list[str]

    def options(self) -> dict[str, Any]:
        """Returns the options that affect the content, for ``run.json``."""
        sets = {training_set.name: training_set.versions for training_set in self.augmentation.sets}
        options: dict[str, Any] = {"split": self.augmentation.split, "sets": sets}
        if self.corruptions:
            rates = self.corrupting.rates
            options |= {"replace_rate": rates.replace, "order_rate": rates.order, "seed": self.corrupting.seed}
        return options

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of the dialogues that may be left out of each version."""
        return of_variants(counts, self.augmentation.labels)


class _Version(msgspec.Struct):
    """A version of the split's services: their names, and the services as in the variant's file."""

    variant: matching.Variant
    raw: Raw
    problems: list[str] = []


def make_plan(
    root: str | Path,
    split: str,
    sets: Mapping[str, tuple[Kind, ...]],
    folders: Mapping[str, str],
    requested: Sequence[str],
    corrupting: CorruptionConfig,
) -> Plan:
    """Reads and matches the schemas, corrupts them, and lists the dialogue files.

    Args:
      root: the folder of the original corpus.
      split: the split of the dialogues.
      sets: the training sets with their kinds of variants.
      folders: kind to the folder of its variants, for kinds that have one.
      requested: the names of variants to use from these folders; all if empty.
      corrupting: the corruptions, for sets that contain them.

    Raises:
      InputError: files cannot be read, there are no dialogues, a variant does not exist, or a run has two with the same
        name.
    """
    originals = layout.read_root(root, leave_out_bad=True)
    folder, original = _folder_of(layout.as_path(root), originals, split)
    if not folder:
        split = layout.split_of_folder(root) or split
    files = list_files(layout.as_path(root), [folder])
    kinds = _matched(folders, requested, original, originals)
    if not any("corrupted" in versions for versions in sets.values()):
        corrupting = msgspec.structs.replace(corrupting, operations=[])
    by_operation = corrupt(originals, original, corrupting)
    kinds["corrupted"] = [_version(name, raw, original.services) for name, raw in by_operation.items()]
    kinds[ORIGINAL] = [_version(ORIGINAL, layout.raw_by_name([original]), original.services)]
    every = [
        *kinds[ORIGINAL],
        *(version for kind, versions in kinds.items() if kind != ORIGINAL for version in versions),
    ]
    labels = [version.variant.name for version in every]
    if repeated := [name for name in labels if labels.count(name) > 1]:
        raise InputError(f"two variants are called {repeated[0]!r}: rename a folder, or leave one out", "", "--variant")
    chosen = {
        name: [*kinds[ORIGINAL], *(v for kind in versions for v in kinds[kind])] for name, versions in sets.items()
    }
    return Plan(
        augmentation=Augmentation(
            split,
            matching.known_names(original.services),
            [version.variant for version in every],
            [TrainingSet(name, [v.variant.name for v in versions]) for name, versions in chosen.items()],
        ),
        files=files,
        schemas=[(f"{name}/{split}/schema.json", _schema(name, versions)) for name, versions in chosen.items()]
        + [
            (
                f"corruptions/{name}/{schemas.relative_path}",
                layout.schema_bytes([raw[s.service_name] for s in schemas.services]),
            )
            for name, raw in by_operation.items()
            for schemas in originals
            if schemas.services
        ],
        mapped={version.variant.name: version.variant.names for version in every[1:]},
        corruptions={
            name: _version(name, raw, layout.services_by_name(originals).values()).variant.names
            for name, raw in by_operation.items()
        },
        corrupting=corrupting,
        problems=[str(bad.error) for schemas in originals for bad in schemas.bad]
        + [line for version in every for line in version.problems],
    )


def _folder_of(root: Path, originals: Sequence[layout.SplitSchemas], split: str) -> tuple[str, layout.SplitSchemas]:
    """Returns the folder of the dialogues and its schema; the root may be the folder of a split."""
    folders = dialogue_folders(root, originals)
    folder = split if split in folders or originals[0].split != layout.SINGLE else ""
    if folder not in folders:
        others = ", ".join(name for name in folders if name) or "none"
        raise InputError(
            f"contains no dialogues of {split!r}, such as {split}/dialogues_001.json (found: {others})", root
        )
    return folder, folders[folder]


def _matched(
    folders: Mapping[str, str],
    requested: Sequence[str],
    original: layout.SplitSchemas,
    originals: Sequence[layout.SplitSchemas],
) -> dict[str, list[_Version]]:
    """Returns the versions of each kind from variants in folders."""
    variants_of = {kind: matching.find_variants(folder, (), f"--{kind}") for kind, folder in folders.items()}
    every = [name for variants in variants_of.values() for name in variants]
    if missing := [name for name in requested if name not in every]:
        raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(every) or 'none'})", "--variant")
    versions: dict[str, list[_Version]] = {}
    for kind, variants in variants_of.items():
        taken = {name: path for name, path in variants.items() if not requested or name in requested}
        matches = matching.match_folders(taken, originals, [original])
        matching.check_matched(matches)
        versions[kind] = []
        for matched in matches.values():
            variant, raw = matched.splits[original.split], layout.raw_by_name(list(matched.targets.values()))
            of_services = {service: raw[names.service] for service, names in variant.names.items()}
            versions[kind].append(_Version(variant, of_services, matched.problems))
        if not versions[kind]:
            raise InputError(f"must name at least one of {', '.join(variants)}", folders[kind], "--variant")
    return versions


def corrupt(
    originals: Sequence[layout.SplitSchemas], original: layout.SplitSchemas, corrupting: CorruptionConfig
) -> dict[str, Raw]:
    """Corrupts every service of the corpus, using the words of the split to augment.

    With words of other splits, training would contain words of the test schemas.
    """
    conventions = conventions_of(layout.services_by_name(list(originals)).values())
    vocabulary = vocabulary_of(original.services, conventions)
    by_operation: dict[str, Raw] = {}
    for operation in corrupting.operations:
        corruption = Corruption(operation, corrupting.rates, corrupting.seed, vocabulary, conventions)
        services = layout.raw_by_name(list(originals)).items()
        by_operation[operation] = {service: corrupted(raw, corruption) for service, raw in services}
    return by_operation


def _version(name: str, raw: Raw, services: Iterable[Service]) -> _Version:
    """Creates a version of some services whose elements are in the original order."""
    of_services = {service.service_name: raw[service.service_name] for service in services}
    names = {
        service.service_name: matching.by_position(service, parse_service(dict(of_services[service.service_name])))
        for service in services
    }
    return _Version(matching.Variant(name, names, {}), of_services)


def _schema(name: str, versions: Sequence[_Version]) -> bytes:
    """Formats the schema file of a set: first the original's services, then each variant's.

    Raises InputError for duplicate names.
    """
    schema_of: dict[str, str] = {}
    for version in versions:
        for raw in version.raw.values():
            service = str(raw["service_name"])
            # The reader of schema files also ignores case.
            if (other := schema_of.setdefault(service.casefold(), version.variant.name)) != version.variant.name:
                reason = f"service {service!r} is in {other} and in {version.variant.name}: they cannot be in one set"
                raise InputError(reason, f"set {name!r}", "--sets")
    return layout.schema_bytes([raw for version in versions for raw in version.raw.values()])


def parse_sets(names: Iterable[str]) -> dict[str, tuple[Kind, ...]]:
    """Parses the names of sets into their kinds of variants.

    Raises InputError if a set is unknown or occurs twice (``a+b`` is ``b+a``), or ``none`` is mixed with others.
    """
    sets: dict[str, tuple[Kind, ...]] = {}
    for name in names:
        words = [] if name == NONE else name.split("+")
        if not set(words) <= set(KINDS) or len(set(words)) < len(words):
            raise InputError(f"{name!r} is not a set: {NONE}, {', '.join(KINDS)}, or a+b", "--sets")
        if (kinds := tuple(kind for kind in KINDS if kind in words)) in sets.values():
            raise InputError(f"{name!r} appears twice", "--sets")
        sets[name] = kinds
    return sets


def default_sets(folders: Collection[str]) -> list[str]:
    """Returns the default of ``--sets``: one set for each available kind; ``folders`` are the kinds with a folder."""
    return [NONE, *(kind for kind in KINDS if kind == "corrupted" or kind in folders)]


def check_folders(sets: Mapping[str, tuple[Kind, ...]], folders: Collection[str]) -> None:
    """Raises InputError if a set needs a folder that is missing, or no set needs a folder."""
    for name, kinds in sets.items():
        for kind in kinds:
            if kind != "corrupted" and kind not in folders:
                raise InputError(f"the set {name!r} requires --{kind} DIR", "--sets")
    for folder in sorted(folders):
        if not any(folder in kinds for kinds in sets.values()):
            raise InputError(f"is not used by any set of --sets ({', '.join(sets)})", f"--{folder}")


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

    def __init__(self, plan: Plan, info: runs.RunInfo) -> None:
        super().__init__()
        self.plan, self.info = plan, info

    def expand(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection:
        """Transforms a PCollection of dialogue files to a single element, the manifest."""
        augmentation = self.plan.augmentation
        write = partial(augment_file, augmentation=augmentation, output=self.info.output)
        outputs = files | "Augment" >> runs.WriteEach(write, shown=0)
        published: beam.PCollection = outputs | "Finish" >> runs.FinishRun(
            self.info,
            partial(metadata_files, plan=self.plan),
            tallies=self.plan.tallies,
            invariants=invariants_of(augmentation),
        )
        return published


def invariants_of(augmentation: Augmentation) -> list[Invariant]:
    """Every dialogue has every version or is left out; every set has its versions, in JSON and in Parquet."""
    complete = [partial(_incomplete, of=training_set) for training_set in augmentation.sets]
    return [Balance("dialogues", ("versions", "left_out"), augmentation.labels), *complete]


def _incomplete(counts: Counts, of: TrainingSet) -> Iterator[str]:
    versions = sum(counts.sum("versions", set=label) for label in of.versions)
    yield from (f"{name} of {of.name}" for name in ("dialogues", "rows") if counts.sum(name, set=of.name) != versions)


def augment_file(file: DialogueFile, augmentation: Augmentation, output: str) -> runs.FileResult:
    """Writes one file of every set into staging; nothing if the file cannot be read, and no file without dialogues."""
    result = runs.FileResult(file.relative)
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
        for i, dialogue in enumerate(progress.tracked(read_items(file), "dialogues")):
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
    """Renames a dialogue for every version. The original keeps its id, the others append their name."""
    versions = Versions()
    try:
        places = perturbation.Places(dialogue, augmentation.known)
        source = typed(dialogue).dialogue_id  # rows need a valid dialogue
    except Exception as error:
        versions.refused = dict.fromkeys(augmentation.labels, fence.bad_record(error))
        return versions
    for variant in augmentation.versions:
        try:
            dialogue["dialogue_id"] = source if variant.name == ORIGINAL else f"{source}_{variant.name}"
            text = dialogue_text(places.rename(variant))
            row = row_of(dialogue, file, variant.name, source)
        except Exception as error:
            versions.refused[variant.name] = fence.bad_record(error)
        else:
            versions.texts[variant.name] = text
            versions.rows.append(row)
    return versions


def row_of(dialogue: Mapping[str, Any], file: str, variant: str, source: str) -> pa.RecordBatch:
    """Converts a version of a dialogue to a row; its position in its set is written later.

    Raises:
      InputError: the dialogue does not fit the columns.
    """
    try:
        row = {**dialogue_row(dialogue, file, 0), "variant": variant, "source_dialogue_id": source}
        return pa.RecordBatch.from_pylist([row], AUGMENTED)
    except (TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise InputError(f"not_parquet: contains a value that Parquet cannot store: {error}") from None


def metadata_files(counts: Counts, _: object, plan: Plan) -> dict[str, bytes]:
    """Returns the schemas, ``mapping.json``, ``statistics.json``, the card and the page."""
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
    """Returns the content of ``statistics.json``: dialogues by set and by version."""
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
        "versions": {
            label: {"dialogues": counts.sum("versions", set=label), "left_out": counts.sum("left_out", set=label)}
            for label in plan.augmentation.labels
        },
    }


def report_of(statistics: Mapping[str, Any], plan: Plan) -> Report:
    """Creates the report for the page and the card."""
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
    """Yields the lines that the command prints: the sets with their versions."""
    yield f"{counted(statistics['dialogues'], 'dialogue')} in {counted(statistics['files'], 'file')}"
    for name, of_set in statistics["sets"].items():
        yield f"{name}: {counted(of_set['dialogues'], 'dialogue')}: {', '.join(of_set['versions'])}"
