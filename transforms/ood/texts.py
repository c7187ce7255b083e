"""The words of utterances: which say what an utterance is about, and how often in-domain turns have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from parapet.transforms.text import words

CONTENT = 3  # an utterance with fewer content words could be said in any dialogue

# spaCy's English stopwords (version 3.8, MIT licence), as ``words`` writes them. The list is here, so that no worker
# has to find or import spaCy.
_STOPWORDS = """
a about above across after afterwards again against all almost alone along already also although always am among
amongst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became because become
becomes becoming been before beforehand behind being below beside besides between beyond both bottom but by ca call can
cannot could d did do does doing done down due during each eight either eleven else elsewhere empty enough even ever
every everyone everything everywhere except few fifteen fifty first five for former formerly forty four from front full
further get give go had has have he hence her here hereafter hereby herein hereupon hers herself him himself his how
however hundred i if in indeed into is it its itself just keep last latter latterly least less ll m made make many may
me meanwhile might mine more moreover most mostly move much must my myself n name namely neither never nevertheless
next nine no nobody none noone nor not nothing now nowhere nt of off often on once one only onto or other others
otherwise our ours ourselves out over own part per perhaps please put quite rather re really regarding s same say see
seem seemed seeming seems serious several she should show side since six sixty so some somehow someone something
sometime sometimes somewhere still such t take ten than that the their them themselves then thence there thereafter
thereby therefore therein thereupon these they third this those though three through throughout thru thus to together
too top toward towards twelve twenty two under unless until up upon us used using various ve very via was we well were
what whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever whether which while
whither who whoever whole whom whose why will with within without would yet you your yours yourself yourselves
"""

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
    """The words that say nothing about the topic of an utterance: stopwords, fillers and dates."""
    return frozenset([*_STOPWORDS.split(), *_FILLERS.split(), *_DATES.split()])


def key_of(text: str) -> str:
    """The text by which utterances are the same: lower-cased words without punctuation, separated by spaces."""
    return " ".join(words(text))


def content_words(key: str, stops: frozenset[str]) -> frozenset[str]:
    """The words of a key that are neither stopwords nor begin with a digit."""
    return frozenset(word for word in key.split() if word not in stops and not word[0].isdigit())


Domains = tuple[str, ...]

_OFTEN = 10  # turns
_TYPICAL = (4, 5)  # of the turns that have a word


class WordCounts:
    """In how many different in-domain turns words are; turns with the same set of words are one.

    Attributes:
      turns: word to number of turns.
      of_domains: (word, domain) to those whose dialogue has the domain, for words that are no stopwords.
    """

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.of_domains: Counter[tuple[str, str]] = Counter()

    def add(self, tokens: Iterable[str], spoken_in: Iterable[Domains]) -> None:
        """Counts a set of words, said in dialogues of such domains."""
        tokens = list(tokens)
        self.turns.update(tokens)
        content = [word for word in tokens if word not in stopwords()]
        for domain in {domain for domains in spoken_in for domain in domains}:
            self.of_domains.update((word, domain) for word in content)


class Vocabulary:
    """The words of in-domain turns.

    Attributes:
      ranks: word to its place in the order from rare to frequent.
    """

    def __init__(self, counts: WordCounts) -> None:
        in_order = sorted(counts.turns, key=lambda word: (counts.turns[word], word))
        self.ranks: Mapping[str, int] = {word: rank for rank, word in enumerate(in_order)}
        self._typical = _typical(counts)

    def about(self, key: str) -> Domains:
        """The domains that a content word of a key is typical of, whoever says it: no dialogue on them may have it."""
        found = (self._typical.get(word, ()) for word in content_words(key, stopwords()))
        return tuple(sorted({domain for domains in found for domain in domains}))

    def is_generic(self, key: str) -> bool:
        """Whether it has fewer than three content words, and in-domain turns have each of them."""
        return len(content_words(key, stopwords())) < CONTENT and self.is_familiar(key)

    def is_familiar(self, key: str) -> bool:
        """Whether in-domain turns have each of its content words: then it may be of their domains, reworded."""
        return all(word in self.ranks for word in content_words(key, stopwords()))


def _typical(counts: WordCounts) -> dict[str, list[str]]:
    """Words to the domains they are typical of: those of four in five turns that have the word, of ten or more."""
    part, whole = _TYPICAL
    typical: dict[str, list[str]] = {}
    for (word, domain), n in counts.of_domains.items():
        if counts.turns[word] >= _OFTEN and whole * n >= part * counts.turns[word]:
            typical.setdefault(word, []).append(domain)
    return typical
