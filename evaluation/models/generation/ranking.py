"""The fidelity reranker: of several candidates the one that says the most acts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from parapet.evaluation.generation.corpus import ORIGINAL, Corpus, Place, Pools, SystemTurn
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.nli import Nli
from parapet.evaluation.generation.predictions import Candidate, Prediction
from parapet.evaluation.generation.references import ServiceWords
from parapet.evaluation.generation.scorers import Cached, Scorer
from parapet.evaluation.generation.scoring import acts_of, rank
from parapet.evaluation.lines import read_lines
from parapet.schemas.errors import InputError


@functools.cache
def scorer_of(name: str, folder: str, batch: int) -> Scorer:
    """``lexical``, or ``nli`` with a model in a folder; one in a process."""
    return Lexical() if name == "lexical" else Nli(folder, batch)


@functools.lru_cache(maxsize=8)
def read_candidates(path: str) -> dict[Place, tuple[Candidate, ...]]:
    """The candidates in a file of predictions, by turn. Raises InputError where it cannot be read, or has none."""
    found = {}
    for number, one in read_lines(path, Prediction):
        if one.candidates is None:
            reason = "has no candidates: 'parapet predict' writes them with --candidates"
            raise InputError(reason, path, f"line {number}")
        found[one.dialogue_id, one.turn] = one.candidates
    return found


def merged(*given: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates of several systems, the most likely first; of an utterance that is there twice the more likely one."""
    best: dict[str, Candidate] = {}
    for one in (one for some in given for one in some):
        if one.utterance not in best or one.score > best[one.utterance].score:
            best[one.utterance] = one
    return tuple(sorted(best.values(), key=lambda one: (-one.score, one.utterance)))


def chosen(
    turns: Sequence[SystemTurn],
    candidates: Mapping[Place, Sequence[Candidate]],
    words: Mapping[str, ServiceWords],
    scorer: Scorer,
) -> dict[Place, str]:
    """Of each turn's candidates the most faithful: by how many acts it entails, then by its score, then the first.

    Args:
      turns: with their acts.
      candidates: at least one of each turn.
      words: of each service, as the system knows them.
      scorer: the judge of entailment.
    """
    corpus = Corpus("", tuple(turns), {ORIGINAL: dict(words)}, Pools({}), None)
    cached = Cached(scorer)
    predictions = {
        (id_, turn): Prediction(id_, turn, some[0].utterance, tuple(some)) for (id_, turn), some in candidates.items()
    }
    return rank(corpus, acts_of(corpus, cached, "", validation=False), predictions, cached)
