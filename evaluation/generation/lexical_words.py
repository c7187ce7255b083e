"""Words that the lexical scorer knows, and how it compares words."""

from __future__ import annotations

import re
from functools import lru_cache


def _words(text: str) -> list[str]:
    return text.split()


# "3:30", "4.5" and "o'hare" are one; sentences without a blank between them are two.
_TOKEN = re.compile(r"\d+(?:[:.,]\d+)+|[a-z0-9]+(?:['&-][a-z0-9]+)*|[^\W_a-z0-9]+")
_NUMBERS = {
    word: str(i) for i, word in enumerate(_words("zero one two three four five six seven eight nine ten eleven twelve"))
}
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_OCLOCK = re.compile(r"^(\d{1,2}):00$")
_ENDINGS = ("ings", "ing", "ies", "ied", "ely", "ed", "es", "ly", "s", "e", "y")

# Say nothing of what a slot or intent is about.
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
WITHOUT = re.compile(r"\b(?:none|no|without|not|neither)\b|n't\b")  # the value None
QUESTION = re.compile(
    r"\?|\b(?:what|where|when|which|who|how)\b|\b(?:tell me|let me know|please (?:provide|specify|give|tell)|may i"
    r"|can you|could you|do you|would you|should i|i need|any preference|preferred)\b"
)

# The word of a question, and what it may ask for.
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
    """The tokens of a lower-cased text: numbers as digits without thousands' marks, full hours without minutes."""
    found = []
    for token in _TOKEN.findall(_THOUSANDS.sub("", lower)):
        token = token.removesuffix("'s")
        token = _NUMBERS.get(token, token)
        hour = _OCLOCK.match(token)
        found.append(hour[1] if hour else token)
    return found


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """A word without its ending, crudely: what remains has three letters or more."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


SAME = {stem(word): stem(group.split()[0]) for group in _SAME for word in group.split()}


def stems_of(words: str) -> frozenset[str]:
    """The stems of words separated by spaces; words for one thing have one stem."""
    return frozenset(SAME.get(one, one) for one in map(stem, words.split()))


WH = {word: stems_of(kinds) for word, kinds in _WH.items()}
ANTONYMS = {stem(word): stems_of(others) for word, others in _ANTONYMS.items()}
# What tells of a slot, and of a value by the two words before it, where one goes to or comes from.
TO = frozenset(_words("destination to for arrival arriving arrives arrive going end ending lands reach reaches"))
FROM = frozenset(_words("origin from departure departing departs leaving leaves leave start starting source board"))
