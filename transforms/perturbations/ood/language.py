"""The words of utterances: which of them carry a topic, and how often they occur in in-domain turns."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

import msgspec

from parapet.schemas.errors import storable
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import domain_of
from parapet.transforms.perturbation.user_turns import DECISIVE, YES, UserTurn, value_ranges
from parapet.transforms.perturbations.ood.standing import stands_alone
from parapet.transforms.reports.text import words
from parapet.transforms.variants.distance import lemma

CONTENT = 3  # an utterance with fewer content words may fit any dialogue

# spaCy's English stopwords (version 3.8, MIT licence), as ``words`` writes them. They are copied here so that workers
# do not need to import spaCy.
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

# Courtesies, answers and requests of any domain that are not stopwords, with contractions as ``words`` writes them.
_FILLERS = """
absolutely actually alright appreciate assist assistance available awesome bye cant change choice choices confirm cool
correct day didnt doesnt dont else exactly excellent find fine get getting give glad going good goodbye got great
happy hello help helpful hey hi hmm hope id ill im instead isnt its ive know let lets like look looking lot love
lovely maybe mind moment need needs nice no nope number oh ok okay option options people perfect perhaps please prefer
right search sorry sound sounds sure tell thank thanks thankyou thats theres thing things think thinking try wait want
wants way welcome whats wonder wonderful wont work works wouldnt yeah yep yes youre yup
"""

# A date, time or count may answer a question in any domain.
_DATES = """
january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday today tomorrow tonight morning afternoon evening night noon midnight week weekend next
later ago hour minute year am pm oclock half past date time first second third
"""


@cache
def stopwords() -> frozenset[str]:
    """Return the words that do not carry a topic: stopwords, fillers and dates."""
    return frozenset([*_STOPWORDS.split(), *_FILLERS.split(), *_DATES.split()])


def key_of(text: str) -> str:
    """Return the text by which utterances are compared: lower-case words without punctuation, separated by spaces."""
    return " ".join(words(text))


def content_words(key: str, stops: frozenset[str]) -> frozenset[str]:
    """Return the words of a key that are not stopwords and do not begin with a digit."""
    return frozenset(word for word in key.split() if word not in stops and not word[0].isdigit())


Domains = tuple[str, ...]

_OFTEN = 10  # turns
_TYPICAL = (4, 5)  # minimum share of the turns with a word


class WordCounts:
    """Counts in how many distinct in-domain turns words occur; turns with the same set of words count once.

    Attributes:
      turns: word to number of turns.
      of_domains: (word, domain) to the number of turns in dialogues of the domain, for words that are not stopwords.
    """

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.of_domains: Counter[tuple[str, str]] = Counter()

    def add(self, tokens: Iterable[str], spoken_in: Iterable[Domains]) -> None:
        """Count a set of words that occurs in dialogues of these domains."""
        tokens = list(tokens)
        self.turns.update(tokens)
        content = [word for word in tokens if word not in stopwords()]
        for domain in {domain for domains in spoken_in for domain in domains}:
            self.of_domains.update((word, domain) for word in content)


class Vocabulary:
    """The words of in-domain turns.

    Attributes:
      ranks: word to its rank, from rare to frequent.
    """

    def __init__(self, counts: WordCounts) -> None:
        in_order = sorted(counts.turns, key=lambda word: (counts.turns[word], word))
        self.ranks: Mapping[str, int] = {word: rank for rank, word in enumerate(in_order)}
        self._typical = _typical(counts)

    def about(self, key: str) -> Domains:
        """Return the domains of which a content word of a key is typical; the utterance must not be inserted there."""
        domains_here = (self._typical.get(word, ()) for word in content_words(key, stopwords()))
        return tuple(sorted({domain for domains in domains_here for domain in domains}))

    def is_generic(self, key: str) -> bool:
        """Whether a key has fewer than three content words, all of which occur in in-domain turns."""
        return len(content_words(key, stopwords())) < CONTENT and self.is_familiar(key)

    def is_familiar(self, key: str) -> bool:
        """Whether all content words of a key occur in in-domain turns.

        Such an utterance may be a reworded in-domain utterance.
        """
        return all(word in self.ranks for word in content_words(key, stopwords()))


def _typical(counts: WordCounts) -> dict[str, list[str]]:
    """Return word → domains in which at least four in five of the turns with the word occur, for ten or more turns."""
    part, whole = _TYPICAL
    typical: dict[str, list[str]] = {}
    for (word, domain), n in counts.of_domains.items():
        if counts.turns[word] >= _OFTEN and whole * n >= part * counts.turns[word]:
            typical.setdefault(word, []).append(domain)
    return typical


_LEAST_Z = 1.96  # log-odds ratio in standard deviations: 5 %, two-sided
_PRIOR = 20  # weight of the prior: the corpus's turns divided by this
_HARDLY = 1000  # a word occurs hardly ever in a domain if it is in at most one turn, or one in this many
_SHARED = 3  # a word or slot in the schemas of this many domains belongs to none of them
# A word used by a larger share of other domains is not distinctive, unless services or intents are named after it.
_MOST_USING = 1 / 3

# A turn that begins with these or a yes answers the system, whatever follows.
_ANSWERS = "ya sure ok okay alright right correct no nope nah not never thank thanks bye goodbye perfect great"
_SENTENCE_ENDS = re.compile(r"(?<![.!?…])[.!?…]+(?:\s+|$)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Acts whose slot "intent" is not a slot of the service.
_INTENT_ACTS = frozenset({"INFORM_INTENT", "OFFER_INTENT"})
_AN_INTENT = "an intent"  # stands for a slot


class TurnContent(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The content of a user turn.

    Attributes:
      domains: the domains it is about.
      words: lemmas of its words, without stopwords and values.
      slots: the slots of its actions.
      answers: whether it, or one of its sentences, would be understood in any dialogue: yes, no, thanks, "that sounds
        good". This is the case if an action has no slot or, without actions, if a sentence has no content words.
      refers_back: whether, by its actions or words, it can only be understood after what was said before.
    """

    domains: Domains
    words: tuple[str, ...]
    slots: tuple[str, ...]
    answers: bool
    refers_back: bool = False


# A turn that selects, rejects or only asks for slots refers to the system's offer.
_REFERRING = frozenset({"SELECT", "REQUEST_ALTS"})
_ASKING = frozenset({"REQUEST"})


def content_of_turn(turn: UserTurn) -> TurnContent:
    """Extract a turn's content. Without actions, only the text decides whether it is an answer."""
    text = turn.utterance
    for start, end in [*turn.ranges, *value_ranges(text, turn.values)]:
        text = text[:start] + " " * (end - start) + text[end:]
    sentences = [words(sentence) for sentence in _SENTENCE_ENDS.split(text)]
    contents = [content_of(sentence) for sentence in sentences if sentence]
    actions = [action for frame in turn.turn.frames for action in frame.actions or ()] if turn.turn else []
    slots = {
        _AN_INTENT if action.slot == "intent" and action.act in _INTENT_ACTS else action.slot for action in actions
    }
    first = words(turn.utterance)[:1]
    answers = not _answers().isdisjoint(first) or ("" in slots if actions else not all(contents))
    content = frozenset().union(*contents)
    return TurnContent(
        tuple(sorted({domain_of(service) for service in turn.services})),
        tuple(sorted(content)),
        tuple(sorted(map(storable, slots))),
        answers,
        not _REFERRING.isdisjoint(turn.acts) or turn.acts == _ASKING or not stands_alone(turn.utterance),
    )


@cache
def _answers() -> frozenset[str]:
    return YES.union(_ANSWERS.split())


@cache
def _stop_lemmas() -> frozenset[str]:
    stops = stopwords() | DECISIVE
    return stops | {lemma(word) for word in stops}


@lru_cache(maxsize=1 << 16)
def _content_lemma(word: str) -> str:
    """Return the lemma of a word; empty for stopwords, numbers, times, and words that begin with a digit."""
    stops = _stop_lemmas()
    if word in stops or word[0].isdigit():
        return ""
    lemmatised = lemma(word)
    return "" if lemmatised in stops else lemmatised


def content_of(found: Iterable[str]) -> frozenset[str]:
    """Return the lemmas of words, except stopwords, numbers, times, and words that begin with a digit."""
    return frozenset(filter(None, map(_content_lemma, found)))


class Schemas(msgspec.Struct, frozen=True):
    """The words and slots in the schemas of each domain.

    Attributes:
      words: domain to the content words of names, descriptions and possible values.
      about: domain to the content words of services' and intents' names only; slots are often attributes that other
        domains may have, too.
      slots: domain to its slots.
    """

    words: dict[str, frozenset[str]]
    about: dict[str, frozenset[str]]
    slots: dict[str, frozenset[str]]


def schemas_of(services: Iterable[Service]) -> Schemas:
    """Collect the schemas of the services of all splits by domain."""
    schemas: dict[str, frozenset[str]] = defaultdict(frozenset)
    about: dict[str, frozenset[str]] = defaultdict(frozenset)
    slots: dict[str, frozenset[str]] = defaultdict(frozenset)
    for service in services:
        domain = domain_of(service.service_name)
        names = [service.service_name, *(intent.name for intent in service.intents)]
        rest = [service.description, *(intent.description for intent in service.intents)]
        for slot in service.slots:
            rest += [slot.name, slot.description, *slot.possible_values]
        about[domain] |= _content_of_names(names)
        schemas[domain] |= about[domain] | _content_of_names(rest)
        slots[domain] |= {slot.name for slot in service.slots}
    return Schemas(dict(schemas), dict(about), dict(slots))


def _content_of_names(texts: Iterable[str]) -> frozenset[str]:
    return content_of(word for text in texts for word in words(_CAMEL.sub(" ", text).replace("_", " ")))


class DomainCounts:
    """Counts the content words of each domain's turns.

    Attributes:
      turns: domain to the number of its turns.
      words: domain to content word to the number of turns with it.
    """

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.words: dict[str, Counter[str]] = {}

    def add(self, key: str, spoken_of: Iterable[Domains]) -> None:
        """Count the turns with the words of a key.

        Args:
          key: the key of an utterance; each is counted once.
          spoken_of: for each turn with this key, the domains it is about, without duplicates.
        """
        content = content_of(key.split())
        for domain in (domain for domains in spoken_of for domain in domains):
            self.turns[domain] += 1
            self.words.setdefault(domain, Counter()).update(content)


class Languages:
    """The language of each domain in a corpus.

    Args:
      counts: the content words of their turns.
      schemas: the schemas of the corpus.
    """

    def __init__(self, counts: DomainCounts, schemas: Schemas) -> None:
        self.schemas = schemas
        self._turns = counts.turns
        self._counts = {domain: counts.words.get(domain, Counter()) for domain in counts.turns}
        self.domains = frozenset(self._turns)
        self._all: Counter[str] = Counter()
        for of_domain in self._counts.values():
            self._all.update(of_domain)
        in_schemas = Counter(word for some in schemas.words.values() for word in some)
        self._shared = frozenset(word for word, n in in_schemas.items() if n >= _SHARED)
        self._known: dict[tuple[str, str], frozenset[str]] = {}
        self._every = self._turns.total()

    def foreign_to(self, turn: TurnContent) -> frozenset[str]:
        """Return the domains to which a turn is foreign because of one of its words; may be empty.

        A domain that has all slots of the turn's actions understands it, unless an action is about an intent.
        """
        others = self.domains.difference(turn.domains)
        understood = {
            domain for domain in others if turn.slots and self.schemas.slots.get(domain, frozenset()) >= {*turn.slots}
        }
        foreign_here: frozenset[str] = frozenset()
        for word in turn.words:  # sorted, so ties go to the first word
            for domain in turn.domains:
                foreign = (self._foreign(word, domain) & others) - understood
                if len(foreign) > len(foreign_here):
                    foreign_here = foreign
        return foreign_here

    def _foreign(self, word: str, domain: str) -> frozenset[str]:
        """Return the domains to which a domain's word is foreign; empty if many domains use it or may use it."""
        if (word, domain) not in self._known:
            others = self.domains - {domain}
            absent = [other for other in others if not self._uses(other, word)]
            named = word in self.schemas.about.get(domain, ())
            telling = word not in self._shared and (named or len(others) - len(absent) <= _MOST_USING * len(others))
            self._known[word, domain] = frozenset(
                other for other in absent if telling and (named or self._is_characteristic(word, domain, other))
            )
        return self._known[word, domain]

    def _uses(self, domain: str, word: str) -> bool:
        often = self._counts[domain][word] > max(1, self._turns[domain] / _HARDLY)
        return often or word in self.schemas.words.get(domain, ())

    def _is_characteristic(self, word: str, domain: str, other: str) -> bool:
        every = self._every
        if not 0 < self._all[word] < every:
            return False
        size = every / _PRIOR
        prior = size * self._all[word] / every
        here, elsewhere = (
            (self._counts[domain][word], self._turns[domain]),
            (self._counts[other][word], self._turns[other]),
        )
        return round(_z(*here, *elsewhere, prior, size), 6) >= _LEAST_Z  # rounded to be the same on any CPU


def _z(first: float, first_all: float, second: float, second_all: float, prior: float, size: float) -> float:
    """Return the log-odds ratio of a word in two sets of turns, in standard deviations (Monroe et al., equation 22)."""

    def log_odds(count: float, total: float) -> float:
        return math.log((count + prior) / (total + size - count - prior))

    return (log_odds(first, first_all) - log_odds(second, second_all)) / math.sqrt(
        1 / (first + prior) + 1 / (second + prior)
    )
