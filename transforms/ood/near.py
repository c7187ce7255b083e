"""Near-duplicates: which utterances have, but for a word in five, the words of an in-domain turn.

A set-similarity join by prefixes (Chaudhuri et al. 2006; Bayardo et al. 2007): with words ordered from rare to
frequent, two sets of a Jaccard index of 0.8 share one of the first fifth of their words. Only such pairs are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from parapet.transforms.ood.texts import CONTENT, content_words

Domains = tuple[str, ...]

# Jaccard index of 4/5, as whole numbers: 0.8 itself is no binary fraction.
_PART, _WHOLE = 4, 5
_OFTEN = 10  # turns


class InDomain:
    """The in-domain turns of a corpus, to be asked what is like one of them.

    Args:
      turns: (key of the utterance, domains of its dialogue).
      stops: words that say nothing of what an utterance is about.
    """

    def __init__(self, turns: Iterable[tuple[str, Domains]], stops: frozenset[str]) -> None:
        self.stops = stops
        of_set: dict[frozenset[str], set[Domains]] = {}
        for key, domains in turns:
            of_set.setdefault(frozenset(key.split()), set()).add(domains)
        of_set.pop(frozenset(), None)
        self._sets = list(of_set)
        self._domains = list(of_set.values())
        self._counts = Counter(word for words in self._sets for word in words)
        self._by_prefix: dict[tuple[str, int], list[int]] = {}  # by word and size of the set
        for i, words in enumerate(self._sets):
            for word in self._prefix(words):
                self._by_prefix.setdefault((word, len(words)), []).append(i)
        self._typical = self._typical_words()

    def _typical_words(self) -> dict[str, list[str]]:
        """Words to the domains they are typical of: those of four in five turns that have the word."""
        counts = Counter(
            (word, domain)
            for words, found in zip(self._sets, self._domains, strict=True)
            for domain in {domain for of in found for domain in of}
            for word in words
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

    def _prefix(self, words: frozenset[str]) -> list[str]:
        least = -(-_PART * len(words) // _WHOLE)  # words that a near-duplicate shares at least
        return sorted(words, key=lambda word: (self._counts[word], word))[: len(words) - least + 1]

    def is_near(self, key: str, domains: Domains = ()) -> bool:
        """Whether the token sets of a key and of a turn have a Jaccard index of 0.8 or more.

        Args:
          key: of the utterance.
          domains: turns of dialogues that share one of these are not looked at.
        """
        words = frozenset(key.split())
        n = len(words)
        sizes = range(-(-_PART * n // _WHOLE), _WHOLE * n // _PART + 1)  # of no others can four words in five be shared
        for word in self._prefix(words):
            for size in sizes:
                # shared / (n + size - shared) is 4/5 or more
                least = -(-_PART * (n + size) // (_PART + _WHOLE))
                for i in self._by_prefix.get((word, size), ()):
                    if len(words & self._sets[i]) >= least and _elsewhere(self._domains[i], domains):
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
    """Whether there is a dialogue, given the domains of those there are, that has none of ``domains``."""
    return any(not set(domains) & set(of) for of in found) if domains else bool(found)
