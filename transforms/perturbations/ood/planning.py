"""Read dialogue files and sources for the plan: distinct texts, places, dead letters and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.transforms.perturbation.base import REFUSED, Analysis
from parapet.transforms.perturbation.corpora import dialogues_of, domains_of
from parapet.transforms.perturbation.languages import OtherLanguage
from parapet.transforms.perturbation.user_turns import user_turns
from parapet.transforms.perturbations.ood.language import (
    DomainCounts,
    Domains,
    Languages,
    Schemas,
    TurnContent,
    Vocabulary,
    WordCounts,
    content_of_turn,
    key_of,
)
from parapet.transforms.perturbations.ood.plan import (
    Config,
    Injection,
    Place,
    places_of,
    plan,
    user_turns_of,
)
from parapet.transforms.perturbations.ood.pool import (
    KEPT,
    Compared,
    Judgement,
    Utterance,
    check_foreign,
    judged,
    merged,
    near_duplicates,
    tokens_of,
)
from parapet.transforms.perturbations.ood.sources import SourceFile, read_source, source_id
from parapet.transforms.running.counts import CountKey, Counts, DeadLetter, Tally, dead_dialogue, dead_file, id_of
from parapet.transforms.running.fence import Fault, bad_record
from parapet.transforms.running.progress import ANALYSIS, tracked

_pack = msgspec.msgpack.encode  # records as one element, since Beam handles elements individually

PLACES, DEAD_LETTERS, COUNTS = "places", "dead_letters", "counts"


class Text(msgspec.Struct, array_like=True):
    """A text of in-domain turns, of utterances in the pool, or both.

    Attributes:
      key: its words.
      spoken_in: the domains of each dialogue with an in-domain turn of this text.
      spoken_of: the domains each such turn is about; only used if utterances are the corpus's own.
      utterance: the utterance that may be injected.
    """

    key: str
    spoken_in: tuple[Domains, ...] = ()
    spoken_of: tuple[Domains, ...] = ()
    utterance: Utterance | None = None


class Texts:
    """Distinct texts: those with the same words are merged."""

    def __init__(self) -> None:
        self._in_domain: dict[str, tuple[set[Domains], set[Domains]]] = {}
        self._utterances: dict[str, list[Utterance]] = {}

    def add(self, text: Text) -> None:
        """Add the turns and the utterance of a text."""
        if text.spoken_in:
            spoken_in, spoken_of = self._in_domain.setdefault(text.key, (set(), set()))
            spoken_in.update(text.spoken_in)
            spoken_of.update(text.spoken_of)
        if text.utterance is not None:
            self._utterances.setdefault(text.key, []).append(text.utterance)

    def __iter__(self) -> Iterator[Text]:
        """Yield each text once, in arbitrary order."""
        for key in self._in_domain.keys() | self._utterances.keys():
            spoken_in, spoken_of = self._in_domain.get(key, ((), ()))
            same = self._utterances.get(key)
            yield Text(key, tuple(spoken_in), tuple(spoken_of), merged(same) if same else None)


def read_file(file: DialogueFile, config: Config) -> Iterator[Any]:
    """Read the turns and places of one file; nothing if it cannot be read to its end.

    Yields packed lists of Text (main) and of Place (PLACES), (file, dead letters) (DEAD_LETTERS), (count key, n)
    (COUNTS), and ((file, position), error) for exceptions (REFUSED). Errors in splits that are written are reported by
    the step that writes them.
    """
    is_written = config.writes(file.split)
    dead_letters: list[DeadLetter] = []
    refused: list[tuple[tuple[str, int], InputError]] = []
    texts = Texts()
    places: list[Place] = []
    counts, elsewhere, rows = Counts(), Counts(), 0
    elsewhere.add("files_elsewhere")
    try:
        for position, raw, dialogue in tracked(dialogues_of(file), "dialogues", ANALYSIS):
            if isinstance(dialogue, OtherLanguage):
                continue
            elsewhere.add("dialogues_elsewhere")
            if isinstance(dialogue, InputError):
                elsewhere.add("left_out_elsewhere")
                dead_letters.append(dead_dialogue(file, id_of(raw, position), dialogue))
                continue
            try:
                users, domains = user_turns_of(dialogue), domains_of(dialogue)
                of_turns = _read_turns(file, dialogue, users, domains, config, is_written)
                of_dialogue = places_of(dialogue, file, position, domains, config) if is_written else []
            except Exception as error:
                bad = bad_record(error)
                elsewhere.add("left_out_elsewhere")
                dead_letters.append(dead_dialogue(file, dialogue.dialogue_id, bad))
                refused.append(((file.relative, position), bad))
                continue
            for text in of_turns:
                texts.add(text)
            counts.add("planned_turns", len(users), split=file.split)
            rows += len(users) if config.own else 0
            places += of_dialogue
    except Exception as error:
        dead_letters, refused = [dead_file(file, bad_record(error))], []
        texts, counts, elsewhere = Texts(), Counts(), Counts()
        places.clear()
        rows = 0
        elsewhere.add("files_elsewhere")
        elsewhere.add("broken_files_elsewhere")
    yield _pack(list(texts))
    if places:
        yield TaggedOutput(PLACES, _pack(places))
    of_file = counts if is_written else elsewhere
    if rows:
        of_file.add("source_rows", rows)
    for key, n in of_file.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))
    if is_written:
        yield from (TaggedOutput(REFUSED, pair) for pair in refused)
    elif dead_letters:
        yield TaggedOutput(DEAD_LETTERS, (file.relative, dead_letters))


def _read_turns(
    file: DialogueFile,
    dialogue: Dialogue,
    users: Iterable[int],
    domains: Domains,
    config: Config,
    is_written: bool,
) -> list[Text]:
    """Return the texts of a dialogue's user turns."""
    texts = []
    contents: dict[int, TurnContent] = {}
    if config.own:
        contents = {turn.position: content_of_turn(turn) for turn in user_turns(dialogue)}
    for turn in users:
        text = dialogue.turns[turn].utterance
        key = key_of(text)
        content = contents.get(turn)
        utterance = None
        if content:
            source = source_id(file.relative, dialogue.dialogue_id, turn)
            splits = (file.split,) if is_written else ()
            utterance = Utterance(key, source, " ".join(text.split()), domains, splits, content=content)
        texts.append(Text(key, (domains,), (content.domains,) if content else (), utterance))
    return texts


def read_source_file(file: SourceFile) -> Iterator[Any]:
    """Read the utterances of a file, with a dead letter for each bad row."""
    dead_letters: list[DeadLetter] = []
    texts, rows = Texts(), 0
    try:
        for row in read_source(file):
            if isinstance(row, InputError):
                dead_letters.append(_dead_row(file, row.where, row.reason))
                continue
            texts.add(Text(row.key, utterance=row))
            rows += 1
    except Exception as error:
        bad = bad_record(error)
        reason = bad.reason if isinstance(bad, Fault) else f"broken_file: {bad.reason}"
        dead_letters.append(_dead_row(file, bad.where, reason))
    yield _pack(list(texts))
    if rows:
        yield TaggedOutput(COUNTS, (CountKey("source_rows"), rows))
    if dead_letters:
        yield TaggedOutput(COUNTS, (CountKey("source_rows_left_out"), len(dead_letters)))
        yield TaggedOutput(DEAD_LETTERS, (f"source/{file.name}", dead_letters))


def _dead_row(file: SourceFile, where: str, reason: str) -> DeadLetter:
    return DeadLetter("source", "", file.name, "", where, storable(reason))


def tallies_of_sources(counts: Counts) -> list[Tally]:
    """Return tallies of records that are only read for the plan, in splits that are not written and in the source."""
    files, dialogues = counts.sum("files_elsewhere"), counts.sum("dialogues_elsewhere")
    rows = counts.sum("source_rows_left_out")
    return [
        Tally("file", files, counts.sum("broken_files_elsewhere"), "other splits", is_needed=False),
        Tally("dialogue", dialogues, counts.sum("left_out_elsewhere"), "other splits", is_needed=False),
        Tally("source row", counts.sum("source_rows") + rows, rows),
    ]


Sums = Iterable[tuple[tuple[str, str, str, str], int]]


def plan_injections(
    files: beam.PCollection, config: Config, sources: Sequence[SourceFile], schemas: Schemas | None
) -> Analysis:
    """Plan the injections into the dialogues of a corpus, at exact rates.

    Args:
      files: all DialogueFiles of the corpus, including splits that are not written.
      config: the options.
      sources: files of foreign utterances; empty if these are the corpus's own.
      schemas: the schemas of the corpus, if the utterances are its own.
    """
    read = beam.FlatMap(read_file, config).with_outputs(PLACES, DEAD_LETTERS, COUNTS, REFUSED, main="texts")
    corpus = files | "Spread" >> beam.Reshuffle() | "Read file" >> read
    read_sources = beam.FlatMap(read_source_file).with_outputs(DEAD_LETTERS, COUNTS, main="texts")
    source_files = files.pipeline | "Source files" >> beam.Create(list(sources))
    source = source_files | "Spread sources" >> beam.Reshuffle() | "Read source" >> read_sources
    texts = (corpus.texts, source.texts) | "Texts" >> beam.Flatten()
    counts = (corpus[COUNTS], source[COUNTS]) | "Counts" >> beam.Flatten()
    sides = (texts, corpus[PLACES], counts | "Sum counts" >> beam.CombinePerKey(sum))
    planned = (
        files.pipeline
        | "Once" >> beam.Create([config], reshuffle=False)
        | "Plan"
        >> beam.FlatMap(injections, schemas, *map(beam.pvalue.AsIter, sides)).with_outputs(COUNTS, main="states")
    )
    all_counts = (counts, planned[COUNTS]) | "With counts of the pool" >> beam.Flatten()
    dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
    return Analysis(planned.states, counts=all_counts, dead_letters=dead_letters, refused=corpus[REFUSED])


def injections(
    config: Config, schemas: Schemas | None, texts: Iterable[bytes], places: Iterable[bytes], sums: Sums
) -> Iterator[Any]:
    """Yield the injections of each dialogue, ((file, position), list of Injection), and the counts of the pool.

    Args:
      config: the options.
      schemas: the schemas of the corpus, if the utterances are its own.
      texts: packed lists of Text.
      places: packed lists of Place.
      sums: the counts of records read.

    Raises:
      InputError: the source is in-domain, or there are too few places or utterances.
    """
    counts = Counts.of_pairs(sums)
    every = Texts()
    for text in (text for blob in texts for text in msgspec.msgpack.decode(blob, type=list[Text])):
        every.add(text)
    pool, of_pool = pool_of(every, schemas)
    if not config.own:
        check_foreign(Counts(counts + of_pool))
    turns = counts.by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    planned = plan(
        config, (place for blob in places for place in msgspec.msgpack.decode(blob, type=list[Place])), pool, turns
    )
    yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in of_pool.items())
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in planned:
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    yield from of_dialogues.items()


def pool_of(texts: Iterable[Text], schemas: Schemas | None) -> tuple[list[Utterance], Counts]:
    """Return the distinct utterances that are foreign to the corpus, and the number of utterances by status.

    Args:
      texts: each distinct text of the corpus and of the source.
      schemas: the schemas of the corpus, if the utterances are its own.
    """
    same_words: dict[frozenset[str], list[Text]] = {}
    words, words_by_domain = WordCounts(), DomainCounts()
    for text in texts:
        same_words.setdefault(frozenset(text.key.split()), []).append(text)
        words_by_domain.add(text.key, text.spoken_of)
    for tokens, same in same_words.items():
        if spoken_in := {domains for text in same for domains in text.spoken_in}:
            words.add(tokens, spoken_in)
    vocabulary = Vocabulary(words)
    languages = None if schemas is None else Languages(words_by_domain, schemas)
    judgements: list[Judgement] = []
    compared: list[Compared] = []
    for tokens, same in same_words.items():
        requests: list[tuple[int, Domains]] = []
        for utterance in (text.utterance for text in same if text.utterance is not None):
            judgement = judged(utterance, vocabulary, languages)
            if judgement.unless_near:
                requests.append((len(judgements), utterance.domains if languages is not None else ()))
            judgements.append(judgement)
        dialogues = tuple(sorted({domains for text in same for domains in text.spoken_in}))
        if requests or dialogues:
            compared.append(Compared(tokens_of(tokens, vocabulary.ranks), dialogues, tuple(requests)))
    resembling = set(near_duplicates(compared))
    kept, counts = [], Counts()
    for number, judgement in enumerate(judgements):
        status = "near_duplicate" if number in resembling else judgement.status
        counts.add("texts")
        counts.add("pool", value=status)
        if status == KEPT:
            kept.append(judgement.utterance)
            counts.add("familiar", int(judgement.is_familiar))
    return kept, counts
