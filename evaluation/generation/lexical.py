"""Entailment by rules: a deterministic stand-in for a model of natural language inference.

It only knows the forms of our reference sentences. Values must occur in the utterance itself; a boolean must be
mentioned, and affirmed or denied; a request must be a question about its slot. It does not recognise paraphrases.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import msgspec

from parapet.evaluation.generation.corpus import PAPER_PHRASES, PHRASES
from parapet.evaluation.generation.scoring import Judgement, Pair


def _words(text: str) -> list[str]:
    return text.split()


# "3:30", "4.5" and "o'hare" are single tokens. A missing blank between sentences still separates them.
_TOKEN = re.compile(r"\d+(?:[:.,]\d+)+|[a-z0-9]+(?:['&-][a-z0-9]+)*|[^\W_a-z0-9]+")
_NUMBERS = {
    word: str(i) for i, word in enumerate(_words("zero one two three four five six seven eight nine ten eleven twelve"))
}
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_OCLOCK = re.compile(r"^(\d{1,2}):00$")
_ENDINGS = ("ings", "ing", "ies", "ied", "ely", "ed", "es", "ly", "s", "e", "y")

# Words without information on the subject of a slot or intent.
EMPTY = frozenset(
    _words("""
    a about after all also an and any are as at be been being boolean by can could did do does doing else field find
    flag for from get give had has have he her here him his how i identifies if in indicates indicating info
    information into is it its just like made make me my name need no not of on only option options or other our out
    over per please property provided request she should so some such than that the their them then there these they
    this those to true type up used use user users value want was we were what when where whether which who will
    with would yes you your false okay specified whose""")
)

_SAME = (
    "kid kids child children",
    "pet pets animal animals dog dogs cat",
    "wifi wi-fi internet wireless",
    "outdoor outdoors outside patio",
    "vegetarian veg vegan meat",
    "share shared sharing carpool pool pooling",
    "furnished furniture furnishing",
    "smoking smoker smoke smokers",
    "next overnight",
    "ride cab taxi rider",
    "account accounts",
    "buy purchase book booking reserve reservation order",
    "movie film movies films",
    "leave leaving depart departure departing",
    "arrive arrival arriving",
    "return inbound",
    "price fare amount much expensive",
    "people person persons passenger passengers traveler travelers riders seat seats ticket tickets",
    "hotel accommodation place",
    "entrance entry admission",
    "stop stops layover layovers transfer transfers connection connections",
)
_ANTONYMS = {"free": "paid fee charge cost", "next": "same", "smoking": "non-smoking"}

AFFIRMED = re.compile(
    r"^(?:sure|certainly|of course|absolutely|indeed|correct|it does|it is|they do)\b|\b(?:yes|yeah|yep)\b"
)
DENIED = re.compile(r"^(?:no|nope|not|sorry|unfortunately|i'm afraid|it does not|it doesn't|it is not)\b|\bnot\b|n't\b")
NEGATED = re.compile(r"\b(?:no|not|non|never|without|cannot|neither|nor|unavailable|lacks?)\b|n't\b|\bnon-")
WITHOUT = re.compile(r"\b(?:none|no|without|not|neither)\b|n't\b")  # forms of the value None
QUESTION = re.compile(
    r"\?|\b(?:what|where|when|which|who|how)\b|\b(?:tell me|let me know|please (?:provide|specify|give|tell)|may i"
    r"|can you|could you|do you|would you|should i|i need|any preference|preferred)\b"
)

# Question words, and the subjects that they may ask for.
_WH = {
    "where": "city location destination address place area station town venue origin airport theater country",
    "when": "date day time departure leaving arrival pickup dropoff check",
    "time": "time",
    "date": "date",
    "day": "date",
    "many": "number count people seats rooms tickets days",
    "long": "number days duration stay length date",
    "much": "amount price cost money fare budget",
    "who": "name recipient artist contact actor person therapist doctor",
    "which": "city account type name category genre airline class",
    "what": "city account type name category genre airline class kind title destination location event",
    "kind": "type category genre cuisine class",
    "type": "type category genre cuisine class",
    "sort": "type category genre cuisine class",
}

CUES = {
    "GOODBYE": re.compile(
        r"\b(?:good ?bye|bye|farewell|see you|take care|enjoy|have (?:a|an|fun|your)|good (?:day|night|evening|luck)"
        r"|(?:great|nice|wonderful|pleasant|lovely|good|safe|awesome|fantastic) (?:day|time|one|trip|flight|stay|ride"
        r"|evening|night|weekend|journey|visit|afternoon|morning|meal|show|week)"
        r"|(?:glad|happy) (?:to|i could)\b.*\bhelp\w*|here (?:to help|when|if))\b"
    ),
    "REQ_MORE": re.compile(
        r"\b(?:else|anything|something|further|another|additional|any other|what other|more)\b.*\?"
        r"|\b(?:what else|anything else|something else|how else)\b"
        r"|\b(?:will that be all|(?:still|need) (?:need|me|help|any help))\b"
        r"|\b(?:help|assist|do)\b.*\b(?:more|other|further)\b"
    ),
    "NOTIFY_SUCCESS": re.compile(
        r"^(?!.*\b(?:unable|could not|couldn't|can't|cannot|failed|unsuccessful|wasn't|was not|not able)\b).*"
        r"\b(?:success\w*|booked|reserved|confirmed|done|completed?|made|scheduled|placed|set|sent|added|purchased"
        r"|rented|transferred|bought|playing|started|starts|ready|all set|on (?:its|the) way|secured|finished"
        r"|processed|ordered|streaming|enjoy|through|is now|initiated|able to)\b"
    ),
    "NOTIFY_FAILURE": re.compile(
        r"\b(?:unable|unfortunately|sorry|apolog\w+|fail\w*|could ?n[o']?t|can't|cannot|unsuccessful\w*|wasn't|was not"
        r"|not (?:able|available|possible|successful|go through)|didn't|did not|problem|error|weren't|regret\w*)\b"
    ),
    "THANK_YOU": re.compile(r"\bthank"),
    "AFFIRM": AFFIRMED,
    "AFFIRM_INTENT": AFFIRMED,
    "NEGATE": DENIED,
    "NEGATE_INTENT": DENIED,
    "REQUEST_ALTS": re.compile(r"\b(?:else|other|another|different|alternatives?)\b"),
}


def normal_tokens(lower: str) -> list[str]:
    """Tokenizes a lower-cased text.

    Numbers become digits without thousands separators, full hours lose their minutes.
    """
    tokens = []
    for token in _TOKEN.findall(_THOUSANDS.sub("", lower)):
        token = token.removesuffix("'s")
        token = _NUMBERS.get(token, token)
        hour = _OCLOCK.match(token)
        tokens.append(hour[1] if hour else token)
    return tokens


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Crudely strips a word's ending; at least three letters remain."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


SAME = {stem(word): stem(group.split()[0]) for group in _SAME for word in group.split()}


def stems_of(words: str) -> frozenset[str]:
    """Returns the stems of words separated by spaces; synonyms share a stem."""
    return frozenset(SAME.get(word_stem, word_stem) for word_stem in map(stem, words.split()))


WH = {word: stems_of(kinds) for word, kinds in _WH.items()}
ANTONYMS = {stem(word): stems_of(others) for word, others in _ANTONYMS.items()}
# Words of slots for destinations and origins, and the words before their values.
TO = frozenset(_words("destination to for arrival arriving arrives arrive going end ending lands reach reaches"))
FROM = frozenset(_words("origin from departure departing departs leaving leaves leave start starting source board"))


JOINT = "\n"  # between the parts of a premise; the last line is the utterance

Form = Literal["phrase", "request", "offer", "boolean", "outcome", "value", "count", "other"]

_ANSWER = re.compile(r"(.+)\? (Yes|No)\.")
_HAS = re.compile(r"(?:It|They) (?:has|have|is|does) (not )?(.+)\.")
_HAS_NOT = re.compile(r"(?:It|They) (?:does|do) not have (.+)\.")
# Matches "Is kids friendly", "Has no wifi", "is not nonstop", "Flights is not nonstop", but not "Is it free is
# dontcare".
_BARE = re.compile(r"(?:Has|Have|Is|Does|is|[A-Z]\w* is(?= not )) (no |not )?((?:(?! is | are ).)+)")
_OF_DOMAIN = re.compile(r"[A-Z]\w* is [a-z].*")  # "Flights is nonstop", which has the form of a sentence with a value
_COUNT = re.compile(r"(?:There (?:is|are) (.+) results?|The number of results is (.+))\.|count is (.+)")
_OFFER = re.compile(r"(?:Offer to (.+)|Do you want to (.+)\?)")
_INTENT = re.compile(r"intent (?:is|are) (.+)")
_OUTCOME = re.compile(r"(.+) (was successful|failed)\.")
_VALUE = re.compile(r" (?:is|are) ")
_PARTS = re.compile(r", | and ")
_CLAUSE = re.compile(r"(?<![.;!?,])[.;!?,]+(?:\s|$)|\bbut\b|\band\b|\bhowever\b|\bthough\b|\balthough\b")

_OF_PHRASE = {phrase: act for acts in (PHRASES, PAPER_PHRASES) for act, phrases in acts.items() for phrase in phrases}


class Claim(msgspec.Struct, frozen=True):
    """A parsed hypothesis.

    Attributes:
      topic: the stems of its subject.
      positive: the truth value of a boolean or an outcome.
      values: the ways to read its values: each a list of token sequences, all of which must occur.
      act: the act of a phrase.
      asked: for a request, the question words that may ask for it; for an offer, the stem of its verb.
      end: 1 for a destination, -1 for an origin.
      deniable: whether the value may be that of a boolean, in which case a clause with "not" does not state it.
    """

    form: Form
    topic: frozenset[str] = frozenset()
    positive: bool = True
    values: tuple[tuple[str, ...], ...] = ()
    act: str = ""
    asked: frozenset[str] = frozenset()
    end: int = 0
    deniable: bool = False


class Said(msgspec.Struct, frozen=True):
    """A parsed utterance.

    Attributes:
      lower: the text in lower case; ``text`` its tokens with blanks between and around them.
      words: the stems of all its words; ``stems`` those of content words.
      numbers: integers, in order; ``counted`` pairs them with the stem of the next word.
      clauses: (stems, whether it contains a negation).
    """

    lower: str
    text: str
    words: frozenset[str]
    stems: frozenset[str]
    numbers: tuple[str, ...]
    counted: tuple[tuple[str, str], ...]
    clauses: tuple[tuple[frozenset[str], bool], ...]


class Lexical:
    """The rules as a scorer."""

    name = "lexical"
    model = "lexical-2"
    joint = JOINT

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Judges each pair, in order."""
        return [_judged(premise, hypothesis) for premise, hypothesis in pairs]


_NEUTRAL: Judgement = (0.05, 0.9, 0.05)
_CONTRADICTED: Judgement = (0.05, 0.15, 0.8)


def _entailed(strength: float) -> Judgement:
    """Returns a judgement of entailment from 0.6 to 0.95, increasing with the share of the words that match."""
    entailment = round(0.6 + 0.35 * strength, 6)
    return entailment, round(0.9 * (1 - entailment), 6), round(0.1 * (1 - entailment), 6)


def _judged(premise: str, hypothesis: str) -> Judgement:
    context, _, utterance = premise.rpartition(JOINT)
    if not utterance.strip():
        return _NEUTRAL
    claim, utterance_words = parse_claim(hypothesis), _said(utterance)
    if claim.form == "phrase":
        return _entailed(0.5) if CUES[claim.act].search(utterance_words.lower) else _NEUTRAL
    if claim.form == "boolean":
        return _boolean(claim, utterance_words, context)
    if claim.form in ("value", "count"):
        return _value(claim, utterance_words)
    if claim.form == "request":
        return _requested(claim, utterance_words)
    if claim.form == "offer":
        offered = QUESTION.search(utterance_words.lower) and claim.asked <= utterance_words.words
        return _entailed(_share(claim.topic, utterance_words.stems)) if offered else _NEUTRAL
    if claim.form == "outcome":
        cue = CUES["NOTIFY_SUCCESS" if claim.positive else "NOTIFY_FAILURE"]
        return _entailed(_share(claim.topic, utterance_words.stems)) if cue.search(utterance_words.lower) else _NEUTRAL
    share = _share(claim.topic, utterance_words.stems)
    return _entailed(share) if share >= 0.75 else _NEUTRAL


def _value(claim: Claim, said: Said) -> Judgement:
    for reading in claim.values:
        if all(_is_said(value, claim, said) for value in reading):
            if all(_turned(value, claim, said) for value in reading):
                return _CONTRADICTED
            if claim.deniable and all(_denied(value, said) for value in reading):
                return _CONTRADICTED
            return _entailed(_share(claim.topic, said.stems))
    return _NEUTRAL


def _is_said(value: str, claim: Claim, said: Said) -> bool:
    if claim.form == "count":
        return said.numbers[:1] == (value,)  # the count comes first, before prices and the like
    if value == "none":
        return bool(WITHOUT.search(said.lower))
    return f" {value} " in said.text


def _denied(value: str, said: Said) -> bool:
    """Whether every clause that has a word of the value also has a negation."""
    denied = [is_denied for stems, is_denied in said.clauses if stems & _stems(value)]
    return bool(denied) and all(denied)


def _turned(value: str, claim: Claim, said: Said) -> bool:
    """Whether the utterance states the value for something else.

    This holds for a number that is counted differently in the utterance ("0 transfers"), and for a destination that the
    utterance uses as an origin, or the reverse.
    """
    if value.isdigit():
        counted = {number for number, stem in said.counted if stem in claim.topic}
        return bool(counted) and value not in counted
    if not claim.end:
        return False
    befores = [set(text.split()[-2:]) for text in said.text.split(f" {value} ")[:-1]]
    mine, other = (TO, FROM) if claim.end > 0 else (FROM, TO)
    return bool(befores) and all(before & other and not before & mine for before in befores)


def _boolean(claim: Claim, said: Said, context: str) -> Judgement:
    """Judges a boolean by the clause with most of its words, or if the preceding turn asked for it, by yes or no."""
    best: tuple[int, bool] = (0, False)
    for stems, denied in said.clauses:
        turned = {word_stem for word_stem in claim.topic - stems if ANTONYMS.get(word_stem, frozenset()) & stems}
        words = len(claim.topic & stems) + len(turned)
        if words > best[0]:
            best = words, denied != bool(turned)
    if best[0]:
        return _entailed(best[0] / len(claim.topic)) if best[1] != claim.positive else _CONTRADICTED
    if claim.topic & _stems(context):
        answered = True if AFFIRMED.search(said.lower) else False if DENIED.search(said.lower) else None
        if answered is not None:
            return _entailed(0.0) if answered == claim.positive else _CONTRADICTED
    return _NEUTRAL


def _requested(claim: Claim, said: Said) -> Judgement:
    """Judges a request: it must be a question that has a word of the slot or a suitable question word."""
    if not QUESTION.search(said.lower):
        return _NEUTRAL
    share = _share(claim.topic, said.stems)
    if not share and not any(word in claim.asked for word in said.text.split()):
        return _NEUTRAL
    return _entailed(share)


def _share(topic: frozenset[str], stems: frozenset[str]) -> float:
    return len(topic & stems) / len(topic) if topic else 0.0


@lru_cache(maxsize=1 << 14)
def _said(utterance: str) -> Said:
    lower = utterance.lower().replace("’", "'")
    tokens = normal_tokens(lower)
    return Said(
        lower=lower,
        text=f" {' '.join(tokens)} ",
        words=stems_of(" ".join(tokens)),
        stems=_stems(lower),
        numbers=tuple(token for token in tokens if token.isdigit()),
        counted=tuple((n, stem) for n, word in pairwise(tokens) if n.isdigit() for stem in stems_of(word)),
        clauses=tuple(
            (_stems(part), bool(NEGATED.search(part))) for part in _CLAUSE.split(lower) if part and part.strip()
        ),
    )


@lru_cache(maxsize=1 << 14)
def parse_claim(hypothesis: str) -> Claim:
    """Parses a hypothesis by the forms of our reference sentences."""
    if hypothesis in _OF_PHRASE:
        return Claim("phrase", act=_OF_PHRASE[hypothesis])
    if hypothesis.startswith("Request "):
        topic = _stems(hypothesis[8:])
        return Claim("request", topic, asked=frozenset(word for word, kinds in WH.items() if topic & kinds))
    if match := _ANSWER.fullmatch(hypothesis):
        return Claim("boolean", _stems(match[1]), match[2] == "Yes")
    if match := _COUNT.fullmatch(hypothesis):
        return Claim("count", values=_readings(match[1] or match[2] or match[3]))
    if match := _HAS_NOT.fullmatch(hypothesis):
        return Claim("boolean", _stems(match[1]), False)
    if match := _HAS.fullmatch(hypothesis) or _BARE.fullmatch(hypothesis):
        return Claim("boolean", _stems(match[2]), not match[1])
    if match := _INTENT.fullmatch(hypothesis):
        verbs = " ".join(name.partition(" ")[0] for name in _PARTS.split(match[1]))
        return Claim("offer", _stems(match[1]), asked=stems_of(verbs))
    if match := _OFFER.fullmatch(hypothesis):
        offered = match[1] or match[2]
        return Claim("offer", _stems(offered), asked=stems_of(offered.partition(" ")[0].lower()))
    if match := _OUTCOME.fullmatch(hypothesis):
        return Claim("outcome", _stems(match[1]), match[2] != "failed")
    # Descriptions and values may contain "is", so the value may begin at any of them.
    readings: list[tuple[str, ...]] = []
    places = list(_VALUE.finditer(hypothesis))
    for place in places:
        readings += _readings(hypothesis[place.end() :])
    if readings:
        about = hypothesis[: places[-1].start()]
        words = set(normal_tokens(about.lower()))
        end = bool(words & TO) - bool(words & FROM)
        deniable = _OF_DOMAIN.fullmatch(hypothesis) is not None
        return Claim("value", _stems(about), values=tuple(readings), end=end, deniable=deniable)
    return Claim("other", _stems(hypothesis))


def _readings(values: str) -> tuple[tuple[str, ...], ...]:
    """Returns the readings of a text as a single value and as a list of values."""
    whole = " ".join(normal_tokens(values.lower()))
    parts = tuple(" ".join(normal_tokens(part.lower())) for part in _PARTS.split(values))
    return tuple(dict.fromkeys(reading for reading in ((whole,), parts) if all(reading)))


@lru_cache(maxsize=1 << 14)
def _stems(text: str) -> frozenset[str]:
    """Returns the stems of content words."""
    return stems_of(" ".join(word for word in normal_tokens(text.lower()) if word not in EMPTY))
