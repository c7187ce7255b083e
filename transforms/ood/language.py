"""What a domain understands, by the words of its turns and its schema; which of a corpus's own turns are foreign to it.

A turn is foreign to a domain for a content word: one that the domain's schema lacks, that its turns have hardly ever,
and that is characteristic of the domain which the turn is from. Characteristic is a log-odds ratio with an informative
Dirichlet prior (Monroe, Colaresi and Quinn 2008, "Fightin' Words", section 3.5.1), so that a rare word, or a small
domain, is no evidence. Words that several schemas have (phone, address, price) may be said in any domain.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache

import msgspec

from parapet.schemas.errors import storable
from parapet.schemas.service import Service
from parapet.transforms.corpora import domain_of
from parapet.transforms.distance import lemma
from parapet.transforms.ood.texts import stopwords
from parapet.transforms.perturb.protected import DECISIVE, value_ranges
from parapet.transforms.text import words
from parapet.transforms.user_turns import UserTurn

Domains = tuple[str, ...]

_LEAST_Z = 1.96  # of the log-odds ratio: two-sided 5 %
_PRIOR = 20  # the prior weighs as much as one in so many of the corpus's turns
_HARDLY = 1000  # a word is hardly ever in a domain where it is in one of so many turns, or in a single one
_SHARED = 3  # schemas: a word, or a slot, that so many domains have is of none
# A word that more of the other domains use says little, unless its own domain's services or intents are named so.
_MOST_USING = 1 / 3

# What begins so answers the system, whatever follows.
_ANSWERS = """
yes yeah yea yep yup ya sure ok okay alright right correct no nope nah not never thank thanks bye goodbye perfect great
"""
_SENTENCE_ENDS = re.compile(r"(?<![.!?…])[.!?…]+(?:\s+|$)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Of acts whose slot may be "intent", those where it is none of the service's slots.
_INTENT_ACTS = frozenset({"INFORM_INTENT", "OFFER_INTENT"})
_AN_INTENT = "an intent"  # in place of a slot


class TurnContent(msgspec.Struct, frozen=True, order=True, array_like=True):
    """What a user turn says.

    Attributes:
      domains: that it speaks of.
      words: lemmas of its words that are neither stopwords nor part of a value.
      slots: of its actions.
      answers: it, or a sentence of it, would be understood in any dialogue: yes, no, thanks, "that sounds good". An
        action without a slot says that; where there are no actions, a sentence without content.
    """

    domains: Domains
    words: tuple[str, ...]
    slots: tuple[str, ...]
    answers: bool


def content_of_turn(turn: UserTurn) -> TurnContent:
    """What a turn says. Where it has no actions, its text alone decides whether it answers."""
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
    )


@cache
def _answers() -> frozenset[str]:
    return frozenset(_ANSWERS.split())


@cache
def _stop_lemmas() -> frozenset[str]:
    stops = stopwords() | DECISIVE
    return stops | {lemma(word) for word in stops}


@lru_cache(maxsize=1 << 16)
def _content_lemma(word: str) -> str:
    """The lemma of a word that neither is a stopword, number or time, nor begins with a digit; else nothing."""
    stops = _stop_lemmas()
    if word in stops or word[0].isdigit():
        return ""
    found = lemma(word)
    return "" if found in stops else found


def content_of(found: Iterable[str]) -> frozenset[str]:
    """The lemmas of words that neither are stopwords, numbers or times, nor begin with a digit."""
    return frozenset(filter(None, map(_content_lemma, found)))


class Schemas(msgspec.Struct, frozen=True):
    """What the schemas of each domain name.

    Attributes:
      words: domain to the content words of names, descriptions and possible values.
      about: domain to those of the names of services and intents: slots are mostly attributes, which others may have.
      slots: domain to its slots.
    """

    words: dict[str, frozenset[str]]
    about: dict[str, frozenset[str]]
    slots: dict[str, frozenset[str]]


def schemas_of(services: Iterable[Service]) -> Schemas:
    """The domains of services, those of all splits."""
    found: dict[str, frozenset[str]] = defaultdict(frozenset)
    about: dict[str, frozenset[str]] = defaultdict(frozenset)
    slots: dict[str, frozenset[str]] = defaultdict(frozenset)
    for service in services:
        domain = domain_of(service.service_name)
        names = [service.service_name, *(intent.name for intent in service.intents)]
        rest = [service.description, *(intent.description for intent in service.intents)]
        for slot in service.slots:
            rest += [slot.name, slot.description, *slot.possible_values]
        about[domain] |= _content_of_names(names)
        found[domain] |= about[domain] | _content_of_names(rest)
        slots[domain] |= {slot.name for slot in service.slots}
    return Schemas(dict(found), dict(about), dict(slots))


def _content_of_names(texts: Iterable[str]) -> frozenset[str]:
    return content_of(word for text in texts for word in words(_CAMEL.sub(" ", text).replace("_", " ")))


class DomainCounts:
    """What the turns of each domain say.

    Attributes:
      turns: domain to the number of its turns.
      words: domain to content word to the number of turns that have it.
    """

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.words: dict[str, Counter[str]] = {}

    def add(self, key: str, spoken_of: Iterable[Domains]) -> None:
        """Counts turns with the words of a key.

        Args:
          key: of an utterance; each is counted once.
          spoken_of: the domains that a turn with this key speaks of, for each turn that speaks of others.
        """
        content = content_of(key.split())
        for domain in (domain for domains in spoken_of for domain in domains):
            self.turns[domain] += 1
            self.words.setdefault(domain, Counter()).update(content)


class Languages:
    """The languages of a corpus's domains.

    Args:
      counts: what their turns say.
      schemas: of the corpus.
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
        """The domains to which a turn is foreign, for one of its words; none where it is for none.

        What an action says of slots that a domain has as well, and of no intent, is understood there.
        """
        others = self.domains.difference(turn.domains)
        understood = {
            domain for domain in others if turn.slots and self.schemas.slots.get(domain, frozenset()) >= {*turn.slots}
        }
        found: frozenset[str] = frozenset()
        for word in turn.words:  # sorted: of several that do as well, the first
            for domain in turn.domains:
                foreign = (self._foreign(word, domain) & others) - understood
                if len(foreign) > len(found):
                    found = foreign
        return found

    def _foreign(self, word: str, domain: str) -> frozenset[str]:
        """The domains to which a word of a domain is foreign; none where many use it, or may."""
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
        here, there = (self._counts[domain][word], self._turns[domain]), (self._counts[other][word], self._turns[other])
        return round(_z(*here, *there, prior, size), 6) >= _LEAST_Z  # on any CPU


def _z(first: float, first_all: float, second: float, second_all: float, prior: float, size: float) -> float:
    """The log-odds ratio of a word in two sets of turns, by its standard deviation (Monroe et al., equation 22)."""

    def log_odds(count: float, total: float) -> float:
        return math.log((count + prior) / (total + size - count - prior))

    return (log_odds(first, first_all) - log_odds(second, second_all)) / math.sqrt(
        1 / (first + prior) + 1 / (second + prior)
    )
