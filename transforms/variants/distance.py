"""Distances between a paraphrase and its original (SGD-X, Lee et al. 2022, section 2.3 and Table 1).

Names are compared by Levenshtein distance as written, descriptions by Jaccard distance on sets of lemmas. Results for
each text are cached, so that each distinct text is processed once per process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from math import inf, nan
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.running import plugins
from parapet.transforms.running.imports import without
from parapet.transforms.running.spacy_models import load_spacy_model

Metric = Callable[[str, str], float]

if find_spec("Levenshtein") is not None:
    import Levenshtein

    levenshtein: Metric = Levenshtein.distance
    levenshtein_ratio: Metric = Levenshtein.ratio
else:  # python-Levenshtein is GPL; rapidfuzz (MIT) computes the same values
    import rapidfuzz.distance as rapid

    levenshtein = rapid.Levenshtein.distance
    levenshtein_ratio = rapid.Indel.normalized_similarity

# Removing only these words reproduces the published order of descriptions best.
ARTICLES = frozenset({"a", "an", "the"})

_UNUSED = ("ner", "parser")  # components of a trained pipeline that lemmas do not need


class Method(msgspec.Struct, frozen=True):
    """The distances that rank names and descriptions, and how descriptions become sets of lemmas.

    Attributes:
      names: ``levenshtein``, ``jaccard``, or a plug-in of the group ``parapet.distances``.
      descriptions: likewise.
      stopwords: words left out of the sets.
      spacy_model: a trained spaCy pipeline for lemmas; empty for simplemma.
    """

    names: str = "levenshtein"
    descriptions: str = "jaccard"
    stopwords: frozenset[str] = ARTICLES
    spacy_model: str = ""

    def metric(self, task: str) -> Metric:
        """Return the distance for ``names`` or ``descriptions``.

        It is a function of original and paraphrase, 0 for equal texts.
        """
        return self.named(self.names if task == "names" else self.descriptions)

    def named(self, distance: str) -> Metric:
        """Return a distance by name. Raises InputError if it does not exist."""
        return _made(distance, self)


@lru_cache(maxsize=64)
def _made(distance: str, method: Method) -> Metric:
    chosen = plugins.choose(plugins.DISTANCES, distance, "")
    metric: Metric = plugins.make(chosen, ["__call__"], options={"method": method})
    return metric if chosen.plugin.built_in else partial(_of_plugin, chosen, metric)


def _of_plugin(chosen: plugins.Chosen, metric: Metric, original: str, paraphrase: str) -> float:
    """Call a plug-in's distance. Raises InputError if the result is not a non-negative number."""
    value = plugins.call(chosen, metric, original, paraphrase)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = nan
    if not 0 <= number < inf:
        raise chosen.refused(f"returned {value!r} for {original!r} and {paraphrase!r}: expected a number of 0 or more")
    return number


def levenshtein_distance() -> Metric:
    """Return the distance for ``--name_distance levenshtein``."""
    return levenshtein


class Jaccard:
    """The distance for ``--description_distance jaccard``, on sets of lemmas."""

    def __init__(self, method: Method) -> None:
        self.method = method

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Jaccard:
        """Create a distance with the ``method`` in the options."""
        return cls(options["method"])

    def __call__(self, original: str, paraphrase: str) -> float:
        """Return the distance, from 0 to 1."""
        return jaccard(lemma_set(original, self.method), lemma_set(paraphrase, self.method))


def check_distance(name: str, place: str) -> plugins.Chosen:
    """Find the distance named in ``place``. Raises InputError if it does not exist, or cannot be created."""
    chosen = plugins.choose(plugins.DISTANCES, name, place)
    plugins.make(chosen, ["__call__"], options={"method": Method()})
    return chosen


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return 1 - |A and B| / |A or B|; 0 for two empty sets."""
    union = len(first | second)
    return 1.0 - len(first & second) / union if union else 0.0


def load_stopwords(choice: str) -> frozenset[str]:
    """Load stopwords: ``articles``, ``spacy`` (its 326 English ones), ``none``, or a file with one word per line."""
    if choice == "articles":
        return ARTICLES
    if choice == "none":
        return frozenset()
    if choice == "spacy":
        from spacy.lang.en.stop_words import STOP_WORDS

        return frozenset(STOP_WORDS)
    try:
        lines = read_text(as_path(choice)).splitlines()
    except InputError as error:
        reason = f"must be 'articles', 'spacy', 'none' or a readable file: {error}"
        raise InputError(reason, "--stopwords") from None
    return frozenset(line.strip().lower() for line in lines if line.strip() and not line.startswith("#"))


def check_spacy_model(name: str) -> None:
    """Raise InputError if the trained pipeline cannot be loaded."""
    if name:
        load_spacy_model(name, _UNUSED)


# spaCy's time is quadratic in the length of text between spaces, so longer text is split.
_LONG = re.compile(r"\S{100}(?=\S)")


@lru_cache(maxsize=1 << 13)
def lemma_set(text: str, method: Method) -> frozenset[str]:
    """Return the distinct lemmas of a text, lower-cased, without punctuation and stopwords."""
    text = _LONG.sub(r"\g<0> ", storable(text))
    lemmas = _lemmas_by_model(text, method.spacy_model) if method.spacy_model else _lemmas(text)
    return frozenset(lemmas) - method.stopwords


def _lemmas(text: str) -> Iterable[str]:
    for token in _tokenizer()(text):
        if not (token.is_punct or token.is_space):
            yield lemma(token.lower_)


@cache
def _tokenizer() -> Any:
    with without("torch"):  # spaCy's models use it, its tokenizer does not
        import spacy
    return spacy.blank("en").tokenizer


@lru_cache(maxsize=1 << 14)
def lemma(word: str) -> str:
    """Return the lemma of a lower-case English word by simplemma."""
    import simplemma

    return str(simplemma.lemmatize(word, "en")).lower()


def _lemmas_by_model(text: str, model: str) -> list[str]:
    tokens = load_spacy_model(model, _UNUSED)(text)
    return [token.lemma_.lower() for token in tokens if not (token.is_punct or token.is_space)]
