"""Unseen entities as a perturbation: slot values that do not occur in training.

Its prerequisites are the training data and the kinds of slots. Each file is read by one worker, and the results are
merged. Only a vocabulary grows with the corpus: the distinct values of each slot and, for training, its words and pairs
of adjacent words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas import errors, layout, rows
from parapet.schemas.dialogue import DialogueFile, typed
from parapet.transforms.core import fence, progress
from parapet.transforms.core.counts import Balance, Counted, Invariant, Least, Zero
from parapet.transforms.perturb.base import REFUSED, Analysis, Perturbation, Perturbed, Place, Shared, share_of
from parapet.transforms.perturb.corpora import (
    ENGLISH,
    Corpus,
    check_language,
    in_languages,
    inlined,
    read_corpus,
    read_items,
)
from parapet.transforms.perturb.entities import choosing, kinds, mentions, names
from parapet.transforms.perturb.entities.choosing import GENERATED, Replacer, replaced
from parapet.transforms.perturb.entities.mentions import Slot, distinct_annotations
from parapet.transforms.report.numbers import Metric, Numbers

Values = dict[Slot, tuple[set[str], set[str]]]  # slot to (its values as said, its values known to be canonical)


class StudiedFile(NamedTuple):
    """A dialogue file, whether models are trained on it, and whether its values are to be replaced."""

    file: DialogueFile
    in_training: bool
    is_perturbed: bool


class Inputs(NamedTuple):
    """The inputs of the study, listed but not read yet.

    Attributes:
      seed: the seed of all choices.
      values: the source of new values: ``generated``, or a gazetteer's path.
      files: the dialogue files.
      schemas: the schemas of the splits to perturb.
      named: the values named in training's schemas.
      gazetteer: the rows of the gazetteer, if one is used.
    """

    seed: str
    values: str
    files: list[StudiedFile]
    schemas: list[layout.SplitSchemas]
    named: list[str]
    gazetteer: list[choosing.Row]


def inputs_of(corpus: Corpus, splits: Sequence[str], training: Corpus, root: object, seed: str, values: str) -> Inputs:
    """Lists what must be read before values can be replaced.

    Args:
      corpus: the corpus with all its splits.
      splits: the splits to perturb; if empty, all.
      training: the corpus whose split train models have seen; if it has no splits, all of it, and if it is the corpus
        itself and has no such split, too.
      root: the path of another training corpus, for messages; empty if it is the corpus itself.
      seed: the seed of all choices.
      values: the source of new values.

    Raises:
      InputError: training has no split train, or the gazetteer is invalid.
    """
    trained = inlined(training, ["" if {*training.folders} == {""} else "train"]) or ([] if root else inlined(training))
    if not trained:
        known = ", ".join(dict.fromkeys(file.split for file in training.files if file.split)) or "none"
        raise errors.InputError(
            "it is not known which values occur in training, because there are no dialogues in 'train' "
            f"(these splits have some: {known}): --training must be the corpus that models are trained on",
            root,
        )
    perturbed = inlined(corpus, splits)
    in_training, is_perturbed = set(trained), set(perturbed)
    files = [
        StudiedFile(in_languages(file, (ENGLISH,)), file in in_training, file in is_perturbed)
        for file in dict.fromkeys([*trained, *perturbed])
    ]
    services = [service for split in {file.split for file in trained} for service in training.folders[split].services]
    named = [value for service in services for slot in service.slots for value in slot.possible_values]
    gazetteer = [] if values == choosing.GENERATED else choosing.read_gazetteer(values)
    schemas = [schemas for name, schemas in corpus.folders.items() if not splits or name in splits]
    return Inputs(seed, values, files, schemas, named, gazetteer)


class Learned(msgspec.Struct):
    """The data of one file. Beam pickles it as a whole, since its own coders refuse the lone surrogates of some values.

    Attributes:
      grams: the words and pairs of adjacent words, for a file of training.
      perturbed: values by slot, for a file to perturb.
    """

    grams: set[str] = set()
    perturbed: Values = {}


def learn(studied: StudiedFile) -> Iterator[Learned | TaggedOutput]:
    """Collects the words of a file of training, and the values by slot of a file to perturb.

    Also yields (place, fault) for dialogues to perturb on which our code fails; the step that writes the set reports
    other errors itself.

    Raises:
      InputError: a file of training cannot be read, so that its content is unknown.
    """
    texts: set[str] = set()
    values: Values = {}
    file = studied.file
    try:
        for position, raw in enumerate(progress.tracked(read_items(file), "dialogues", progress.ANALYSIS)):
            if studied.in_training:
                if isinstance(raw, errors.InputError):
                    raise errors.InputError(raw.reason, file.path, f"[{position}] {raw.where}".strip())
                with fence.needed(file.path, f"[{position}]"):
                    texts.update(mentions.strings_of(raw))
            try:
                dialogue = check_language(typed(raw), file.languages) if studied.is_perturbed else None
                for slot, same, canonical in distinct_annotations(dialogue) if dialogue else ():
                    spoken, named = values.setdefault(slot, (set(), set()))
                    spoken.update(same)
                    named.update(() if canonical is None else (canonical,))
            except Exception as error:
                if isinstance(bad := fence.bad_record(error), fence.Fault):
                    yield TaggedOutput(REFUSED, ((file.relative, position), bad))
    except errors.InputError:
        if studied.in_training:
            raise
    yield Learned(mentions.grams_in(texts), values)


def kinds_of(values: Values, schemas: Iterable[layout.SplitSchemas]) -> dict[Slot, str]:
    """Infers the kind of every slot from its values in all dialogues.

    Args:
      values: the values of each slot.
      schemas: the schemas of the same splits.
    """
    seen_of = {name: sorted(named or spoken) for name, (spoken, named) in sorted(values.items())}
    about = {(s.service_name, slot.name): slot for split in schemas for s in split.services for slot in s.slots}
    return {
        name: "categorical"
        if name in about and about[name].is_categorical
        else kinds.kind_of(name[1], about[name].description if name in about else "", seen, name[0])
        for name, seen in seen_of.items()
    }


def study_of(inputs: Inputs, files: Iterable[Learned]) -> choosing.Replacer:
    """Merges the data of all files to n-grams of training and kinds of slots, with the values of any gazetteer."""
    grams = mentions.grams_in(inputs.named)
    values: Values = {}
    for file in files:
        grams.update(file.grams)
        for slot, (spoken, named) in file.perturbed.items():
            known = values.setdefault(slot, (set(), set()))
            known[0].update(spoken)
            known[1].update(named)
    of_slots = kinds_of(values, inputs.schemas)
    times = [slot for slot, kind in of_slots.items() if kind == "time"]
    quarters = frozenset(slot for slot in times if kinds.are_quarters(values[slot][1] or values[slot][0]))
    numbers = [text for slot, kind in of_slots.items() if kind in ("phone", "postcode") for text in values[slot][0]]
    return choosing.Replacer(
        inputs.seed,
        of_slots,
        frozenset(grams),
        choosing.pools_of(inputs.gazetteer, inputs.values, of_slots),
        names.country_of(numbers),
        quarters,
    )


def study_corpus(pipeline: beam.Pipeline, inputs: Inputs) -> tuple[beam.PCollection, beam.PCollection]:
    """Reads training and the dialogues to perturb.

    Returns PCollections of one Replacer, and of (place, error) for dialogues that raised exceptions.
    """
    progress.expect_dialogues([studied.file for studied in inputs.files], progress.ANALYSIS)
    read: Any = beam.FlatMap(learn).with_outputs(REFUSED, main="learned")
    results = pipeline | "Files" >> beam.Create(inputs.files) | "Read" >> read
    once = pipeline | "Once" >> beam.Create([inputs], reshuffle=False)
    return once | "Study" >> beam.Map(study_of, beam.pvalue.AsIter(results["learned"])), results[REFUSED]


_REPLACER = "replacer"


class UnseenEntities(Perturbation):
    """Dialogues whose slot values occur nowhere in training; states, spans and calls say the same as the turns.

    Args:
      seed: of everything that is drawn.
      values: where new values come from: ``generated``, or a CSV file with the columns ``slot_or_kind`` and ``value``.
      training: the corpus whose split train is what has been seen, or its place; by default the corpus itself, all of
        it if it has no such split.
      least_changed: the share of the dialogues with open slots that must change, or the command fails.
    """

    name = "unseen_entities"
    known_odd = (
        "Values are replaced one by one: an airport need not be that of the city. "
        '"Tomorrow" and "next Tuesday" stay as they are.'
    )
    languages = (ENGLISH,)
    needs_annotation = True
    row_schema = rows.REPLACEMENTS
    rows_folder = "replacements"
    tables = (
        Numbers("Dialogues and values", "sets/*", ("set",), (
            Metric("open", "dialogues with open slots", shown_first=True),
            Metric("open_changed", "of these changed", of="open", shown_first=True),
            Metric("turns", "turns"),
            Metric("turns_changed", "turns changed"),
            Metric("values", "values of open slots"),
            Metric("replaced", "values replaced", of="values", shown_first=True),
            Metric("leaks", "leaks", shown_first=True, meaning="New values of one word that occurs in training, or two "
                   "adjacent words of which are adjacent there (case and punctuation ignored)."))),
        *(
            Numbers(f"Values {label}", f"sets/*/{name}/*", ("set", label.rpartition(" ")[2]), (Metric("", "values"),))
            for name, label in (("replaced_by_kind", "replaced by kind"), ("kept_by_kind", "kept by kind"),
                                ("kept_by_reason", "kept by reason"))
        ),
    )  # fmt: skip
    in_folders = False
    analyzes_dialogues = False

    inputs: Inputs  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        values: str | Path = GENERATED,
        training: Corpus | str | Path | None = None,
        least_changed: float = 0.5,
    ) -> None:
        super().__init__(seed=seed)
        if training is not None and not isinstance(training, Corpus | str | Path):
            raise errors.InputError(f"expected a corpus or a path, found {type(training).__name__}", "--training")
        self.values = str(values)
        self.training = training
        self.least_changed = float(share_of(least_changed, "--least_changed"))

    def recorded_options(self) -> dict[str, object]:
        """Returns the options, without the paths of a gazetteer and of another training corpus."""
        return {
            "values": GENERATED if self.values == GENERATED else "file",
            "least_changed": self.least_changed,
            "seed": self.seed,
            "training": "elsewhere" if self.training else "",
        }

    def prepare(self, corpus: Corpus) -> None:
        """Lists what must be read: training, and the dialogues to perturb."""
        training = corpus if self.training is None else self.training
        if not isinstance(training, Corpus):
            training = read_corpus(training, None)
        self.inputs = inputs_of(corpus, self.splits, training, self.training or "", self.seed, self.values)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Learns the n-grams of training and the kinds of slots, which all dialogues share."""
        replacer, refused = study_corpus(files.pipeline, self.inputs)
        shared = replacer | "Shared" >> beam.Map(lambda found: ("", found))
        return Analysis(shared={_REPLACER: shared, REFUSED: refused})

    def state_of(self, place: Place, state: Any, shared: Shared) -> Replacer:
        """Returns the replacer, which all dialogues share."""
        replacer: Replacer = shared[_REPLACER][""]
        return replacer

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Replacer) -> Perturbed:
        """Returns the dialogue with other values, and a row for every value of an open slot."""
        result = replaced(dialogue, typed(dialogue), state)
        is_open, turns_changed = bool(result.rows), result.turns_changed
        counts: Counter[Counted] = Counter()
        counts["open"] = is_open
        counts["open_changed"] = is_open and turns_changed > 0
        counts["turns"] = len(dialogue["turns"])
        counts["turns_changed"] = turns_changed
        counts["values"] = len(result.rows)
        counts["leaks"] = result.leaks
        for row in result.rows:
            counts[row["status"]] += 1
            counts[f"{row['status']}_by_kind", row["kind"]] += 1
            if row["reason"]:
                counts["kept_by_reason", row["reason"]] += 1
        return Perturbed(result.dialogue, result.rows, counts=counts)

    def invariants(self) -> Sequence[Invariant]:
        """Checks that every value is replaced or kept, new values are unseen, and enough dialogues have changed."""
        return (
            *super().invariants(),
            Balance("values", ("replaced", "kept")),
            Zero("leaks", "new values that occur in training"),
            Least(
                *("open_changed", "open", self.least_changed, self.name, "dialogues with open slots changed"),
                needed=True,
            ),
        )
