"""From what was read to what is injected where: the pool of foreign utterances, and the plan of the whole corpus.

The files are read side by side. The plan is made in one place, for which utterance goes where depends on all others; it
holds the different texts of the corpus in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.transforms.counts import Counts
from parapet.transforms.ood import near
from parapet.transforms.ood.language import DomainCounts, Languages, Schemas
from parapet.transforms.ood.plan import Config, Injection, Place, plan
from parapet.transforms.ood.pool import KEPT, Judgement, Utterance, check_foreign, judged
from parapet.transforms.ood.reading import (
    COUNTS,
    DEAD_LETTERS,
    PLACES,
    ReadCorpus,
    ReadSource,
    Text,
    Texts,
    uncollected,
    unpack,
)
from parapet.transforms.ood.sources import SourceFile
from parapet.transforms.ood.texts import Domains, Vocabulary, WordCounts
from parapet.transforms.perturbation.base import REFUSED, Analysis

Sums = Iterable[tuple[tuple[str, str, str, str], int]]


class PlanInjections(beam.PTransform):
    """Plans what is injected into the dialogues of a corpus, at exact rates.

    Args:
      config: how.
      sources: files of foreign utterances; none where they are the corpus's own.
      schemas: of the corpus, where the utterances are its own.
    """

    def __init__(self, config: Config, sources: Sequence[SourceFile], schemas: Schemas | None) -> None:
        super().__init__()
        self.config, self.sources, self.schemas = config, list(sources), schemas

    def expand(self, files: beam.PCollection) -> Analysis:
        """All DialogueFiles of the corpus, those of splits that are not written as well, to the injections."""
        corpus = files | "Corpus" >> ReadCorpus(self.config)
        source = files.pipeline | "Source files" >> beam.Create(self.sources) | "Source" >> ReadSource()
        texts = (corpus.texts, source.texts) | "Texts" >> beam.Flatten()
        counts = (corpus[COUNTS], source[COUNTS]) | "Counts" >> beam.Flatten()
        planned = (
            files.pipeline
            | "Once" >> beam.Create([self.config], reshuffle=False)
            | "Plan"
            >> beam.FlatMap(
                injections,
                self.schemas,
                beam.pvalue.AsIter(texts),
                beam.pvalue.AsIter(corpus[PLACES]),
                beam.pvalue.AsIter(counts | "Sum counts" >> beam.CombinePerKey(sum)),
            ).with_outputs(COUNTS, main="states")
        )
        all_counts = (counts, planned[COUNTS]) | "With counts of the pool" >> beam.Flatten()
        dead_letters = (corpus[DEAD_LETTERS], source[DEAD_LETTERS]) | "Dead letters" >> beam.Flatten()
        return Analysis(planned.states, counts=all_counts, dead_letters=dead_letters, refused=corpus[REFUSED])


@uncollected
def injections(
    config: Config, schemas: Schemas | None, texts: Iterable[bytes], places: Iterable[bytes], sums: Sums
) -> Iterator[Any]:
    """The injections of each dialogue: ((file, position), list of Injection), and the counts of the pool.

    Args:
      config: how.
      schemas: of the corpus, where the utterances are its own.
      texts: packed lists of Text.
      places: packed lists of Place.
      sums: the counts of what was read.

    Raises:
      InputError: the source is in-domain, or there are too few places or utterances.
    """
    counts = Counts.of_pairs(sums)
    every = Texts()
    for text in (text for blob in texts for text in unpack(blob, list[Text])):
        every.add(text)
    pool, of_pool = pool_of(every, schemas)
    if not config.own:
        check_foreign(Counts(counts + of_pool))
    turns = counts.by("split", "planned_turns")
    if not config.splits:
        config = msgspec.structs.replace(config, splits=tuple(turns))
    planned = plan(config, (place for blob in places for place in unpack(blob, list[Place])), pool, turns)
    yield from (TaggedOutput(COUNTS, (tuple(key), n)) for key, n in of_pool.items())
    of_dialogues: dict[tuple[str, int], list[Injection]] = {}
    for file, injection in planned:
        of_dialogues.setdefault((file, injection.dialogue), []).append(injection)
    yield from of_dialogues.items()


def pool_of(texts: Iterable[Text], schemas: Schemas | None) -> tuple[list[Utterance], Counts]:
    """The different utterances that are foreign to the corpus, and how many are of each status.

    Args:
      texts: each different text of the corpus and of the source once.
      schemas: of the corpus, where the utterances are its own.
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
    compared: list[near.Text] = []
    for tokens, same in same_words.items():
        asked: list[tuple[int, Domains]] = []
        for utterance in (text.utterance for text in same if text.utterance is not None):
            judgement = judged(utterance, vocabulary, languages)
            if judgement.unless_near:
                asked.append((len(judgements), utterance.domains if languages is not None else ()))
            judgements.append(judgement)
        dialogues = tuple(sorted({domains for text in same for domains in text.spoken_in}))
        if asked or dialogues:
            compared.append(near.Text(near.tokens_of(tokens, vocabulary.ranks), dialogues, tuple(asked)))
    near_duplicates = set(near.near_duplicates(compared))
    kept, counts = [], Counts()
    for number, judgement in enumerate(judgements):
        status = "near_duplicate" if number in near_duplicates else judgement.status
        counts.add("texts")
        counts.add("pool", value=status)
        if status == KEPT:
            kept.append(judgement.utterance)
            counts.add("familiar", int(judgement.is_familiar))
    return kept, counts
