"""From dialogue files to what is injected where: corpus and source are read, utterances judged, places served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError, is_unicode, storable
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, Tally, dead_dialogue, dead_file, id_of, of_dialogues
from parapet.transforms.ood.language import Languages, Saying, Schemas, saying_of
from parapet.transforms.ood.plan import (
    Injection,
    Place,
    Recipe,
    check_places,
    places_of,
    plan,
    turns_with_place,
    user_turns_of,
)
from parapet.transforms.ood.pool import KEPT, Foreign, foreign, judged, merged
from parapet.transforms.ood.sources import SourceFile, read_source, source_id
from parapet.transforms.ood.statistics import check_foreign
from parapet.transforms.ood.texts import InDomain, key_of, stopwords
from parapet.transforms.touching import domains_of
from parapet.transforms.user_turns import user_turns

_PLANNED = "planned_turns/"
PLACES, TURNS, DEAD, COUNTS = "places", "turns", "dead", "counts"


def sound_dialogues(file: DialogueFile) -> Iterator[tuple[int, Any, bool, Dialogue | InputError]]:
    """As ``dialogues_of``; one that a table of turns cannot hold is an error too."""
    for position, raw, plain, dialogue in dialogues_of(file):
        error = check_unicode(raw) if isinstance(dialogue, Dialogue) and not plain else None
        yield position, raw, plain, error or dialogue


def check_unicode(raw: dict[str, Any]) -> InputError | None:
    """Why a table of turns cannot hold a dialogue; None where it can."""
    texts = [raw["dialogue_id"], *(turn["utterance"] for turn in raw["turns"])]
    return None if all(map(is_unicode, texts)) else InputError("not_unicode: half a surrogate pair")


def check_places_of(files: Iterable[DialogueFile], recipe: Recipe) -> None:
    """Raises InputError where a split has too few places for the highest rate, before anything else is done.

    Up to a half there are enough in any dialogues that go on for four turns or more; then it is left to the plan.
    """
    if float(recipe.rates[-1]) <= 0.5:
        return
    places: Counter[str] = Counter()
    turns: Counter[str] = Counter()
    for file in files:
        with suppress(InputError):  # reported where the file is written
            for *_, dialogue in dialogues_of(file):
                if isinstance(dialogue, Dialogue):
                    turns[file.split] += len(user_turns_of(dialogue))
                    places[file.split] += len(turns_with_place(dialogue, recipe.place))
    for split in recipe.splits:
        check_places(recipe, split, places[split], turns[split])


class ReadCorpus(beam.PTransform):
    """Reads all dialogue files of a corpus."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to Foreign (main; of ``own``), Place (PLACES), (key, domains, domains
        that the turn speaks of) (TURNS), (file, letters) (DEAD),
        (name, n) (COUNTS).

        What cannot be read of splits that are written is told by who writes them.
        """
        read = beam.FlatMap(read_file, self.recipe).with_outputs(PLACES, TURNS, DEAD, COUNTS, main="foreign")
        return files | "Spread" >> beam.Reshuffle() | "Read file" >> read


def read_file(file: DialogueFile, recipe: Recipe) -> Iterator[Foreign | TaggedOutput]:
    """What is found in one file; of a file that cannot be read to its end nothing."""
    listed = recipe.writes(file.split)
    letters: list[DeadLetter] = []
    found: list[Foreign | TaggedOutput] = []
    counts: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter(files_elsewhere=1)
    try:
        for position, raw, _, dialogue in sound_dialogues(file):
            elsewhere["dialogues_elsewhere"] += 1
            if isinstance(dialogue, InputError):
                elsewhere["left_out_elsewhere"] += 1
                letters.append(dead_dialogue(file, id_of(raw, position), dialogue))
                continue
            found += _found(file, position, dialogue, recipe, listed)
            if listed:
                counts[f"{_PLANNED}{file.split or 'all'}"] += len(user_turns_of(dialogue))
    except InputError as error:
        letters = [dead_file(file, error)]
        found, counts, elsewhere = [], Counter(), Counter(files_elsewhere=1, broken_files_elsewhere=1)
    yield from found
    for count in (counts if listed else elsewhere).items():
        yield TaggedOutput(COUNTS, count)
    if letters and not listed:
        yield TaggedOutput(DEAD, (file.relative, letters))


def _found(
    file: DialogueFile, position: int, dialogue: Dialogue, recipe: Recipe, listed: bool
) -> Iterator[Foreign | TaggedOutput]:
    domains = domains_of(dialogue)
    sayings: dict[int, Saying] = {}
    if recipe.own:
        sayings = {said.position: saying_of(said) for said in user_turns(dialogue)}
    for turn in user_turns_of(dialogue):
        text = dialogue.turns[turn].utterance
        said = sayings.get(turn)
        yield TaggedOutput(TURNS, (key_of(text), domains, said.domains if said else ()))
        if said:
            place = source_id(file.relative, dialogue.dialogue_id, turn)
            yield foreign(text, place, domains, (file.split,) if listed else (), said)
    if listed:
        places = places_of(dialogue, file.split, file.relative, position, recipe.place, recipe.seed)
        yield from (TaggedOutput(PLACES, place) for place in places)


class ReadSource(beam.PTransform):
    """Reads files of foreign utterances."""

    def expand(self, files: beam.PCollection) -> Any:
        """SourceFile to Foreign (main), (file, letters) (DEAD), (name, n) (COUNTS)."""
        read = beam.FlatMap(read_source_file).with_outputs(DEAD, COUNTS, main="foreign")
        return files | "Spread" >> beam.Reshuffle() | "Read source" >> read


def read_source_file(file: SourceFile) -> Iterator[Foreign | TaggedOutput]:
    """The utterances of a file; a letter for each row that is none."""
    letters: list[DeadLetter] = []
    try:
        for found in read_source(file):
            if isinstance(found, InputError):
                letters.append(DeadLetter("source", "", file.name, "", found.where, storable(found.reason)))
            else:
                yield found
    except InputError as error:
        letters.append(DeadLetter("source", "", file.name, "", error.where, storable(f"broken_file: {error.reason}")))
    if letters:
        yield TaggedOutput(COUNTS, ("source_rows_left_out", len(letters)))
        yield TaggedOutput(DEAD, (f"source/{file.name}", letters))


def tallies(counts: Mapping[str, int]) -> list[Tally]:
    """What is held against ``--max_bad``: of the splits that are written, of the others, and of the source."""
    of = Counter(counts)
    return [
        *of_dialogues(counts),
        Tally("file", of["files_elsewhere"], of["broken_files_elsewhere"], "other splits", is_needed=False),
        Tally("dialogue", of["dialogues_elsewhere"], of["left_out_elsewhere"], "other splits", is_needed=False),
        *of_source(counts),
    ]


def of_source(counts: Mapping[str, int]) -> list[Tally]:
    """The rows of the source."""
    rows = counts.get("source_rows_left_out", 0)
    return [Tally("source row", counts.get("source_rows", 0) + rows, rows)]


class Pool(beam.PTransform):
    """The different utterances that are foreign to the corpus.

    Args:
      turns: PCollection of (key, domains, domains that the turn speaks of) of in-domain turns.
      stops: words that say nothing of what an utterance is about.
      schemas: of the corpus, where the utterances are its own.
    """

    def __init__(self, turns: beam.PCollection, stops: frozenset[str], schemas: Schemas | None) -> None:
        super().__init__()
        self.turns, self.stops, self.schemas = turns, stops, schemas

    def expand(self, utterances: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """Foreign to those that are kept, and (name, n) to be summed."""
        turns = self.turns | "Different turns" >> beam.Distinct()
        rows = (
            utterances
            | "Count rows" >> beam.combiners.Count.Globally()
            | "Name" >> beam.Map(lambda n: ("source_rows", n))
        )
        found = (
            utterances
            | "By key" >> beam.Map(lambda one: (one.key, one))
            | "Same" >> beam.GroupByKey()
            | "Merge" >> beam.MapTuple(lambda _, same: merged(same))
            | "Spread" >> beam.Reshuffle()
            | "Filter"
            >> beam.ParDo(_Filter(self.stops, self.schemas), beam.pvalue.AsList(turns)).with_outputs(
                COUNTS, main="kept"
            )
        )
        return found.kept, (rows, found[COUNTS]) | "Counts" >> beam.Flatten()


class _Filter(beam.DoFn):
    """The index of in-domain turns is made once for each worker's copy."""

    def __init__(self, stops: frozenset[str], schemas: Schemas | None) -> None:
        super().__init__()
        self.stops, self.schemas = stops, schemas
        self.in_domain: InDomain | None = None
        self.languages: Languages | None = None

    def process(self, one: Foreign, turns: Iterable[Any]) -> Iterator[Foreign | TaggedOutput]:
        if self.in_domain is None:
            self.in_domain = InDomain(((key, domains) for key, domains, _ in turns), self.stops)
            if self.schemas is not None:
                speaking = sorted({(key, spoken_of) for key, _, spoken_of in turns})
                self.languages = Languages(speaking, self.schemas)
        status, one = judged(one, self.in_domain, self.languages)
        yield TaggedOutput(COUNTS, ("texts", 1))
        yield TaggedOutput(COUNTS, (f"pool/{status}", 1))
        if status == KEPT:
            yield one
            if self.languages is None and self.in_domain.is_familiar(one.key):
                yield TaggedOutput(COUNTS, ("familiar", 1))


class Planned(NamedTuple):
    """PCollections of what was planned.

    Attributes:
      injections: (dialogue file, Injection).
      counts: (name, n), to be summed.
      dead: (file, letters) of what could not be read of splits that are not written, and of the source.
    """

    injections: beam.PCollection
    counts: beam.PCollection
    dead: beam.PCollection


class PlanInjections(beam.PTransform):
    """Plans what is injected into the dialogues of a corpus, at exact rates.

    Args:
      recipe: how.
      sources: files of foreign utterances; none where they are the corpus's own.
      schemas: of the corpus, where they are its own.
    """

    def __init__(self, recipe: Recipe, sources: Sequence[SourceFile], schemas: Schemas | None) -> None:
        super().__init__()
        self.recipe, self.sources, self.schemas = recipe, list(sources), schemas

    def expand(self, files: beam.PCollection) -> Planned:
        """All DialogueFiles of the corpus, those of splits that are not written as well, to what is planned."""
        corpus = files | "Corpus" >> ReadCorpus(self.recipe)
        source = files.pipeline | "Source files" >> beam.Create(self.sources) | "Source" >> ReadSource()
        utterances = (corpus.foreign, source.foreign) | "Utterances" >> beam.Flatten()
        pool, of_pool = utterances | "Pool" >> Pool(corpus[TURNS], stopwords(), self.schemas)
        counts = (corpus[COUNTS], source[COUNTS], of_pool) | "Counts" >> beam.Flatten()
        once = files.pipeline | "Once" >> beam.Create([self.recipe], reshuffle=False)
        injections = once | "Plan" >> beam.FlatMap(
            planned,
            beam.pvalue.AsIter(corpus[PLACES]),
            beam.pvalue.AsIter(pool),
            beam.pvalue.AsList(counts | "Sum counts" >> beam.CombinePerKey(sum)),
        )
        return Planned(injections, counts, (corpus[DEAD], source[DEAD]) | "Dead" >> beam.Flatten())


def planned(
    recipe: Recipe, places: Iterable[Place], pool: Iterable[Foreign], sums: Iterable[tuple[str, int]]
) -> list[tuple[str, Injection]]:
    """:func:`~parapet.transforms.ood.plan.plan`, given the summed counts; checks first that the source is foreign."""
    counts = dict(sums)
    if not recipe.own:
        check_foreign(counts)
    turns = {name.removeprefix(_PLANNED): n for name, n in counts.items() if name.startswith(_PLANNED)}
    turns = {"" if split == "all" else split: n for split, n in turns.items()}
    if not recipe.splits:
        recipe = msgspec.structs.replace(recipe, splits=tuple(sorted(turns)))
    return plan(recipe, places, pool, turns)
