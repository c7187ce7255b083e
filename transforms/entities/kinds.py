"""What kind of values a slot has, inferred from its name, its description and the shapes of its values.

The name speaks of the slot by its head: the last word of ``hotel_phone_number`` that says anything is ``phone``, and a
domain before it ("hotel-postcode") says nothing. Where the name tells nothing the head of the description does. The
shapes of the values have a veto: what looks like a reference is no hotel, whatever the name. Where neither says enough
the kind is ``other``, whose values are kept: a value that stays is better than nonsense.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from parapet.transforms.entities import names


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Values that are none, in SGD and MultiWOZ 2.2.
NONE = frozenset({"", "dontcare", "don't care", "do n't care", "none", "not mentioned", "?"})

FORMS = ("date", "time", "price", "phone", "postcode", "code")  # what keeps its form: always made, never of a pool
CLOSED = ("number", "boolean", "categorical")  # every value there can be has been seen
NAMES = (
    "address", "airport", "station", "cuisine", "genre", "music", "person", "task", "title", "car", "city", "business",
    "place",
)  # fmt: skip
OTHER = "other"
KINDS = (*FORMS, *NAMES)
CHOICE = "choice"  # a categorical slot whose values are replaced by others of its closed set
REPLACED = (*KINDS, CHOICE)

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d?\d:\d\d(?: ?[ap]\.?m\.?)?|\d?\d ?[ap]\.?m\.?", re.IGNORECASE)
_NUMBER = re.compile(r"[$£€]?\d[\d,]*(?:\.\d+)?%?")
_MONEY = re.compile(
    r"[$£€]\d[\d,]*(?:\.\d+)?|(?<!\d)(?<!\d,)\d[\d,]*(?:\.\d+)? ?(?:pounds?|dollars?|euros?|bucks|gbp|usd|eur)", re.I
)
_PHONE = re.compile(r"[+(]?\d[\d ().+-]{5,}\d")
_POSTCODE = re.compile(r"[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}|[a-z]\d[a-z] ?\d[a-z]\d", re.IGNORECASE)  # British, Canadian
# One word of letters and digits, of which one is no ordinal and no model of a car: at least five characters.
_CODE = re.compile(r"#?(?=[a-z-]*\d)(?=[\d-]*[a-z])[a-z\d-]{5,}", re.IGNORECASE)
_TRUTH = frozenset({"true", "false", "yes", "no", "free"})
_ADDRESS = re.compile(
    r"\d+[A-Za-z]?,? .*\b(?:st|street|rd|road|ave?|avenue|ln|lane|dr|drive|blvd|boulevard|ct|court|pl|place|pkwy|"
    r"parkway|hwy|highway|way|row|alley|terrace|circle|square|real|rue|yard)\b",
    re.IGNORECASE,
)
_AIRPORT = re.compile(r"\bairport\b", re.IGNORECASE)
_STATION = re.compile(r"\b(?:station|terminal|depot|transit|intermodal)\b", re.IGNORECASE)
# What a calendar calls an event is a description, not a name: "Reservation at Mcdonald's".
_OCCASION = re.compile(
    r"(?:.* )?(?:reservation|booking|appointment|meeting|lunch|dinner|breakfast|brunch|visit|interview|show|food|movie|"
    r"concert|flight|trip|checkup|check-up)(?: (?:at|for|with|to|in|on) .*)?",
    re.IGNORECASE,
)

_PRICE_WORDS = _set("price fare cost costs amount balance rent fee fees total money charge deposit salary budget bill")
_PHONE_WORDS = _set("phone telephone mobile cell fax")
_CODE_WORDS = _set(
    "ref reference code id identifier confirmation booking order tracking pnr voucher serial plate itinerary"
)
_POSTCODE_WORDS = _set("postcode zip zipcode postal")
# Heads that say nothing: of "restaurant_name" the word before says what it is, of "name of the hotel" the words behind.
_EMPTY_HEADS = _set(
    "name names title place number numbers no value full common exact account category kind list info information text"
)
_BREAKS = _set(
    "of for at in by from to with on near per that which who whom whose where when is are was be used known or "
    "and if what either during as into about how until why while"
)
_ARTICLES = _set("the a an this its their his her each every some any your my desired preferred")

# A head in one of these lines says the kind. "location" may be a town, a station or a house: its values say which.
LOCATION = "location"
_BY_HEAD = {
    word: kind
    for kind, words in (
        ("address", "address street"),
        ("airport", "airport"),
        ("station", "station terminus terminal"),
        ("cuisine", "cuisine food"),
        ("genre", "genre genres"),
        (
            "person",
            "director directed actor actors actress starring cast artist artists singer recipient receiver contact "
            "instructor trainer driver therapist dentist doctor physician author writer person guest passenger host",
        ),
        ("task", "alarm reminder task todo chore"),
        ("title", "movie film song track album event show book play game podcast"),
        ("car", "car"),
        ("city", "city town cities"),
        ("place", "attraction venue museum gallery park stadium landmark monument church college sight"),
        (
            "business",
            "restaurant hotel salon property shop store gym library branch stylist company line bank accommodation "
            "house apartment hostel inn cafe bar pub clinic business bakery guesthouse theater theatre cinema",
        ),
        (
            LOCATION,
            "location area origin departure destination arrival port harbour harbor where pickup dropoff start end",
        ),
    )
    for word in words.split()
}
_NO_KIND = _set("police fire radio tv television gas petrol weather space")  # "police station"
_TOWN = frozenset({"city", "town"})
_QUARTERS = _set(
    "north south east west centre center central downtown uptown midtown northern southern eastern western "
    "northeast northwest southeast southwest"
)


class SlotKind(msgspec.Struct, frozen=True):
    """A slot: its kind, and what its values have in common.

    Attributes:
      kind: of its values.
      possible: its closed set of values, where it has one.
      step: of times in minutes, of prices in cents: values are multiples of it.
    """

    kind: str
    possible: tuple[str, ...] = ()
    step: int = 1


def is_none(value: str) -> bool:
    """Whether a value says that there is none, or that any will do."""
    return value.casefold() in NONE


def kind_of(
    name: str, description: str, values: Iterable[str], service: str = "", cities: Collection[str] = frozenset()
) -> str:
    """The kind of an open slot.

    Args:
      name: the slot's name.
      description: its description, or nothing.
      values: the different values that dialogues have for it, in any order.
      service: the name of its service, which many names begin with.
      cities: values of slots that say that they are towns, case folded.
    """
    real = [value for value in values if not is_none(value)]
    own = own_words(name, service)
    described = [word for word in _words(description) if word not in _ARTICLES]
    if real and all(value.casefold() in _TRUTH for value in real):
        return "boolean"
    for kind, shape in (("date", ISO_DATE), ("time", _CLOCK)):
        if _mostly(shape, real):
            return kind
    heads = {*_heads(own), *_heads(described)}
    postal = not _POSTCODE_WORDS.isdisjoint([*own, *next(filter(None, _phrases(described)), [])])
    if _mostly(_POSTCODE, real) or (postal and _mostly(_NUMBER, real)):
        return "postcode"
    # "phone" before "price": the digits of one may be without a dash
    if not _PHONE_WORDS.isdisjoint(own):
        return "phone" if _mostly(_PHONE, real) or not real else OTHER
    if _mostly(_MONEY, real):
        return "price"
    if _mostly(_NUMBER, real):
        if _CODE_WORDS & heads:
            return "code"
        return "price" if _PRICE_WORDS.intersection([*own, *described]) else "number"
    if _mostly(_PHONE, real):
        return "phone" if not _PHONE_WORDS.isdisjoint(described) else OTHER
    if _mostly(_CODE, real):
        return "code"
    kind = _named_kind(own, described, service)
    if kind == "genre" and {"music", "song", "songs", "album", "track"}.intersection(described):
        return "music"
    if kind == LOCATION:
        return _kind_of_places(real, described, cities)
    return kind if _are_names(real) else OTHER


def says_city(name: str, description: str, service: str) -> bool:
    """Whether name or description of a slot say that its values are towns."""
    own, described = own_words(name, service), _words(description)
    kind = _named_kind(own, described, service)
    return kind == "city" or (kind == LOCATION and not _TOWN.isdisjoint(described))


def own_words(name: str, service: str) -> list[str]:
    """The words of a slot's name without the domain before it: ``["postcode"]`` of ``hotel-postcode``."""
    found = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    domain = _words(re.sub(r"_?(?<!\d)\d+$", "", service))
    return found[len(domain) :] if domain and found[: len(domain)] == domain and len(found) > len(domain) else found


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.casefold())


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """Words between prepositions and the like."""
    phrases: list[list[str]] = [[]]
    for word in words:
        if word in _BREAKS:
            phrases.append([])
        else:
            phrases[-1].append(word)
    return phrases


def _heads(words: Sequence[str]) -> Iterator[str]:
    """What words may be about, the most likely first: the first head, and its neighbours where it says nothing."""
    for phrase in _phrases(words):
        for word in reversed(phrase):
            yield word
            if word not in _EMPTY_HEADS:
                return


def _named_kind(own: Sequence[str], described: Sequence[str], service: str) -> str:
    """The kind that the slot's name tells, or its description; of a mere "name" that of its service."""
    if not _NO_KIND.isdisjoint([*own, *described]):
        return OTHER
    about = _until_clause(described)
    bare = "name" in own and _EMPTY_HEADS.issuperset([*own, *_heads(about)])
    for phrase in (own, about, _words(service) if bare else []):
        heads = list(_heads(phrase))
        for head in heads:
            kind = _BY_HEAD.get(head) or _BY_HEAD.get(head.removesuffix("s"))
            if kind:
                return kind
        if not _CODE_WORDS.isdisjoint(heads) or not _PRICE_WORDS.isdisjoint(heads):
            return OTHER  # the form of a reference is unknown
    return "title" if "title" in own else LOCATION if "place" in own else OTHER


def _until_clause(words: Sequence[str]) -> list[str]:
    """A description up to its first participle: "food offered by the restaurant" is about food."""
    for i, word in enumerate(words):
        if i and len(word) > 4 and word.endswith(("ed", "ing")):
            return list(words[:i])
    return list(words)


def _kind_of_places(values: Sequence[str], described: Sequence[str], cities: Collection[str]) -> str:
    folded = [value.casefold() for value in values]
    if folded and all(_QUARTERS.intersection(_words(value)) for value in folded):
        return OTHER  # parts of a town
    if not _are_names(values):
        return OTHER
    if _TOWN.intersection(described):
        return "city"
    known = sum(value in cities for value in folded)
    short = sum(len(value.split()) < 3 and not _is_house(value) for value in values)
    town_like = 10 * short >= 7 * len(values) and (known or not cities)
    return "city" if folded and (2 * known >= len(folded) or town_like) else "place"


def _is_house(value: str) -> bool:
    return any(char.isdigit() for char in value) or any(
        word.title() in names.KNOWN_SIGHTS for word in value.split()[-1:]
    )


def _are_names(values: Sequence[str]) -> bool:
    """Whether most values may be names: they have letters, and are not references, e-mail or web addresses."""
    plain = sum(
        any(char.isalpha() for char in value) and not _CODE.fullmatch(value) and "@" not in value and "://" not in value
        for value in values
    )
    return 2 * plain >= len(values)


def _mostly(shape: re.Pattern[str], values: Sequence[str]) -> bool:
    """Whether at least half of the values, and one, have a shape: the others are as users say them."""
    return bool(values) and 2 * sum(shape.fullmatch(value) is not None for value in values) >= len(values)


@functools.lru_cache(1 << 16)
def kind_of_value(kind: str, value: str) -> str:
    """The kind of one value of a slot whose values are of several: a destination may be an address or a station."""
    if kind == "person" and _is_house(value):
        return "business"  # a practice
    if kind in ("city", "place", "business", "title"):
        if _ADDRESS.match(value) and kind != "title":
            return "address"
        if _AIRPORT.search(value) and kind not in ("business", "title"):
            return "airport"
        if kind in ("city", "place") and _STATION.search(value):
            return "station"
        if kind == "title" and _OCCASION.fullmatch(value):
            return OTHER
    return kind
