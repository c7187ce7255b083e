"""Utterances compared: their words, those that say what they are about, and which are near-duplicates.

Near-duplicates have, but for a word in five, the words of an in-domain turn. They are found by a set-similarity join by
prefixes (Chaudhuri et al. 2006; Bayardo et al. 2007): with words ordered from rare to frequent, two sets of a Jaccard
index of 0.8 share one of the first fifth of their words. Only such pairs are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

from parapet.transforms.text import words

CONTENT = 3  # an utterance with fewer content words could be said in any dialogue

# Courtesies, answers and requests of any domain, with contractions as ``words`` writes them, besides stopwords.
_FILLERS = """
absolutely actually alright appreciate assist assistance available awesome bye cant change choice choices confirm cool
correct day didnt doesnt dont else exactly excellent find fine get getting give glad going good goodbye got great
happy hello help helpful hey hi hmm hope id ill im instead isnt its ive know let lets like look looking lot love
lovely maybe mind moment need needs nice no nope number oh ok okay option options people perfect perhaps please prefer
right search sorry sound sounds sure tell thank thanks thankyou thats theres thing things think thinking try wait want
wants way welcome whats wonder wonderful wont work works wouldnt yeah yep yes youre yup
"""

# A date, a time or a count answers a question of any domain.
_DATES = """
january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday today tomorrow tonight morning afternoon evening night noon midnight week weekend next
later ago hour minute year am pm oclock half past date time first second third
"""


@cache
def stopwords() -> frozenset[str]:
    """The words that say nothing about the topic of an utterance: spaCy's English stopwords, fillers and dates."""
    spec = find_spec("spacy")
    place = (spec.submodule_search_locations if spec else None) or [""]
    # The list alone: all of spaCy takes two seconds to import, in each worker.
    stops = run_path(str(Path(place[0]) / "lang" / "en" / "stop_words.py"))["STOP_WORDS"]
    return frozenset(word for stop in stops for word in words(stop)) | {*_FILLERS.split(), *_DATES.split()}


def key_of(text: str) -> str:
    """The text by which utterances are the same: lower-cased words without punctuation, separated by spaces."""
    return " ".join(words(text))


def content_words(key: str, stops: frozenset[str]) -> frozenset[str]:
    """The words of a key that are neither stopwords nor begin with a digit."""
    return frozenset(word for word in key.split() if word not in stops and not word[0].isdigit())


Domains = tuple[str, ...]

# Jaccard index of 4/5, as whole numbers: 0.8 itself is no binary fraction.
_PART, _WHOLE = 4, 5
_OFTEN = 10  # turns


class InDomain:
    """An index of the in-domain turns of a corpus, to find utterances that resemble one of them.

    Args:
      turns: (key of the utterance, domains of its dialogue).
      stops: words that say nothing about the topic of an utterance.
    """

    def __init__(self, turns: Iterable[tuple[str, Domains]], stops: frozenset[str]) -> None:
        self.stops = stops
        of_set: dict[frozenset[str], set[Domains]] = {}
        for key, domains in turns:
            of_set.setdefault(frozenset(key.split()), set()).add(domains)
        of_set.pop(frozenset(), None)
        self._sets = list(of_set)
        self._domains = list(of_set.values())
        self._counts = Counter(word for tokens in self._sets for word in tokens)
        self._by_prefix: dict[tuple[str, int], list[int]] = {}  # by word and size of the set
        for i, tokens in enumerate(self._sets):
            for word in self._prefix(tokens):
                self._by_prefix.setdefault((word, len(tokens)), []).append(i)
        self._typical = self._typical_words()

    def _typical_words(self) -> dict[str, list[str]]:
        """Words to the domains they are typical of: those of four in five turns that have the word."""
        counts = Counter(
            (word, domain)
            for tokens, domains_of_turn in zip(self._sets, self._domains, strict=True)
            for domain in {domain for of in domains_of_turn for domain in of}
            for word in tokens
            if self._counts[word] >= _OFTEN and word not in self.stops
        )
        typical: dict[str, list[str]] = {}
        for (word, domain), n in counts.items():
            if _WHOLE * n >= _PART * self._counts[word]:
                typical.setdefault(word, []).append(domain)
        return typical

    def about(self, key: str) -> Domains:
        """The domains that a content word of a key is typical of, whoever says it: no dialogue on them may have it."""
        found = (self._typical.get(word, ()) for word in content_words(key, self.stops))
        return tuple(sorted({domain for domains in found for domain in domains}))

    def _prefix(self, tokens: frozenset[str]) -> list[str]:
        least = -(-_PART * len(tokens) // _WHOLE)  # words that a near-duplicate shares at least
        return sorted(tokens, key=lambda word: (self._counts[word], word))[: len(tokens) - least + 1]

    def is_near(self, key: str, domains: Domains = ()) -> bool:
        """Whether the token sets of a key and of a turn have a Jaccard index of 0.8 or more.

        Args:
          key: of the utterance.
          domains: turns of dialogues that share one of these are not looked at.
        """
        tokens = frozenset(key.split())
        n = len(tokens)
        sizes = range(-(-_PART * n // _WHOLE), _WHOLE * n // _PART + 1)  # of no others can four words in five be shared
        for word in self._prefix(tokens):
            for size in sizes:
                # shared / (n + size - shared) is 4/5 or more
                least = -(-_PART * (n + size) // (_PART + _WHOLE))
                for i in self._by_prefix.get((word, size), ()):
                    if len(tokens & self._sets[i]) >= least and _elsewhere(self._domains[i], domains):
                        return True
        return False

    def is_generic(self, key: str) -> bool:
        """Whether it has fewer than three content words, and in-domain turns have each of them."""
        content = content_words(key, self.stops)
        return len(content) < CONTENT and all(word in self._counts for word in content)

    def is_familiar(self, key: str) -> bool:
        """Whether in-domain turns have each of its content words: then it may be of their domains, reworded."""
        return all(word in self._counts for word in content_words(key, self.stops))


def _elsewhere(found: Collection[Domains], domains: Domains) -> bool:
    """Whether one of several dialogues, given their domains, shares none with ``domains``."""
    return any(not set(domains) & set(of) for of in found) if domains else bool(found)
