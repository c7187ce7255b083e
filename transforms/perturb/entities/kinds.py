"""Kinds of slot values, and the forms of dates, times, prices, phone numbers and references, to read and to write.

The kind of a slot is inferred from its name, its description and the form of its values. The name is classified by its
head: the last informative word of ``hotel_phone_number`` is ``phone``; a preceding domain ("hotel-postcode") is
ignored. If the name is not informative, the head of the description is used. The form of the values has a veto:
something that looks like a reference is not a hotel, whatever the name. Otherwise the kind is ``other``, whose values
are kept, since an unchanged value is better than nonsense.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache

from parapet.transforms.core.seeding import NumberRng
from parapet.transforms.perturb.entities.names import GENERIC, HOUSES

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = re.compile(rf"\b(?:{'|'.join([*_MONTHS, 'Sept', *(month[:3] for month in _MONTHS)])})\b", re.IGNORECASE)
_DAY = re.compile(r"(?<![\d-])(\d\d?)(st|nd|rd|th)?(?![\d-])", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_TIME_OF_DAY = re.compile(r"(\d?\d):(\d\d)")
_HALF_DAY = re.compile(
    r"(?P<hour>\d?\d)(?::(?P<minute>\d\d))?(?P<blank>\s*)(?P<half>[ap])(?P<dot>\.?)m(?P<last>\.?)", re.IGNORECASE
)
_HOUR = re.compile(r"\d?\d(?::\d\d)?")
_DAYPART = "(?:morning|afternoon|evening|night)"
_DAYTIME = re.compile(rf"{_DAYPART},? {_HOUR.pattern}|{_HOUR.pattern} in the {_DAYPART}", re.IGNORECASE)
_LETTERS_FIRST = re.compile(r"([a-z]+)\d+")
_LETTERS = "abdefghjlnpqrstuwxyz"  # of postcodes, and none that looks like a digit
_LONGEST_AMOUNT = 15  # characters; longer numbers are not prices, and their cents exceed the precision of floats
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_UNITS = (10000, 1000, 100, 10)  # that round prices are multiples of


def day_of(canonical: str) -> date | None:
    """Parses ``2019-03-05``; None if it is not a date, or one of the last year, which cannot move."""
    if not ISO_DATE.fullmatch(canonical) or canonical.startswith("9999"):
        return None
    try:
        return date.fromisoformat(canonical)
    except ValueError:
        return None


def said_date(day: date, like: str) -> str:
    """Formats a date in the form of another: ``2019-07-09``, ``July 9``, ``9th of July``, ``the 9th of this month``.

    Only digits and names of months change, so "next Tuesday" stays: dates move by whole weeks.
    """
    if ISO_DATE.fullmatch(like):
        return day.isoformat()
    text = _DAY.sub(lambda match: ordinal(day.day) if match[2] else str(day.day), like, count=1)
    text = _YEAR.sub(str(day.year), text)
    month = _MONTHS[day.month - 1]

    def in_style(match: re.Match[str]) -> str:
        name = month if len(match[0]) > 4 or match[0].casefold() == "may" else month[:3]
        return name.lower() if match[0].islower() else name.upper() if match[0].isupper() else name

    return _MONTH.sub(in_style, text)


def is_relative(like: str) -> bool:
    """Whether a date has no month: "today", "next Tuesday", "the 4th"."""
    return not ISO_DATE.fullmatch(like) and _MONTH.search(like) is None


def ordinal(n: int) -> str:
    """Formats an ordinal number: ``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def minutes_of(canonical: str) -> int | None:
    """Parses ``17:15`` to minutes since midnight; None if it is not a time of day."""
    match = _TIME_OF_DAY.fullmatch(canonical)
    if not match or int(match[1]) > 23 or int(match[2]) > 59:
        return None
    return 60 * int(match[1]) + int(match[2])


def minutes_said(text: str) -> int | None:
    """Parses ``17:15``, ``5:15 pm`` or ``5 p.m.`` to minutes since midnight; None for a time in words."""
    if not (match := _HALF_DAY.fullmatch(text.strip())):
        return minutes_of(text)
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return None
    return 60 * (hour % 12 + 12 * (match["half"].lower() == "p")) + minute


def said_time(minutes: int, like: str) -> str:
    """Formats a time in the style of another: ``17:30``, ``5:30``, ``5:30 PM``, ``5:30pm`` or ``evening 5:30``.

    Another time in words becomes ``5:30 pm``, since phrases such as "half past 11" occur in training.
    """
    hour, minute = divmod(minutes, 60)
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if match := _TIME_OF_DAY.fullmatch(like):
        if len(match[1]) == 2:
            return f"{hour:02}:{minute:02}"
        return f"{hour}:{minute:02}" if hour == int(match[1]) else short
    half = "am" if hour < 12 else "pm"
    if styled := _HALF_DAY.fullmatch(like):
        suffix = styled["blank"] + half[0] + styled["dot"] + "m" + styled["last"]
        return short + (suffix.upper() if styled["half"].isupper() else suffix)
    # "evening 6", "6:30 in the evening"
    return _HOUR.sub(short, like) if _DAYTIME.fullmatch(like) else f"{short} {half}"


def amount_of(text: str) -> str | None:
    """Returns the only number in a price without thousands separators.

    Returns None if there is none, several, or a longer one.
    """
    amounts = _AMOUNT.findall(text)
    amount: str = amounts[0].replace(",", "") if len(amounts) == 1 else ""
    return amount if 0 < len(amount) <= _LONGEST_AMOUNT else None


def said_price(amount: str, like: str) -> str:
    """Formats an amount with the currency and separators of another price."""
    whole, point, cents = amount.partition(".")
    grouped = f"{int(whole):,}{point}{cents}"
    return _AMOUNT.sub(lambda match: grouped if "," in match[0] else amount, like)


def other_amounts(amount: str, number: int) -> Iterator[str]:
    """Yields up to 200 other amounts, from half to twice the amount, with as many digits and as round.

    Args:
      amount: the amount.
      number: a 64-bit hash.
    """
    whole, _, cents = amount.partition(".")
    size, old = len(whole + cents), int(whole + cents)
    unit = next((unit for unit in _UNITS if old % unit == 0 and old >= 8 * unit), 1)
    first, last = max(10 ** (size - 1), old // 2) // unit + 1, min(10**size - 1, 2 * old) // unit
    count = max(0, last + 1 - first)
    for i in range(min(count, 200)):
        new = str((first + (number + i) % count) * unit)
        yield f"{new[: len(whole)]}.{new[len(whole) :]}" if cents else new


def code_of(text: str) -> str:
    """Returns the letters and digits of a phone number, reference or postcode, case-folded."""
    return "".join(char for char in text if char.isalnum()).casefold()


def other_code(kind: str, code: str, number: int) -> str:
    """Returns another phone number, reference or postcode of the same form: digits for digits, letters for letters.

    Country and area are kept: ``408`` in ``4089718523``, ``cb1`` in ``cb13ef``, ``94`` in ``94301``; so are letters
    before digits (``TR7075``).

    Args:
      kind: the kind of the value.
      code: its letters and digits.
      number: a 64-bit hash.
    """
    if kind == "phone":
        kept = max(0, len(code) - (6 if code.startswith("0") else 7))
    elif kind == "postcode":
        kept = max(2, len(code) - 3) if any(map(str.isalpha, code)) else 2
    else:
        kept = len(match[1]) if (match := _LETTERS_FIRST.fullmatch(code)) else 0
    rng = NumberRng(number)
    new = code[:kept]
    for char in code[kept:]:
        if char.isdecimal():
            new += str(rng.below(10) if len(new) > kept else 2 + rng.below(8))
        else:
            new += rng.choice(_LETTERS)
    return new


def said_code(code: str, like: str) -> str:
    """Formats letters and digits in the pattern and case of another reference with as many of them."""
    rest = iter(code)
    new = "".join(next(rest) if char.isalnum() else char for char in like)
    return new.upper() if like == like.upper() else new


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Values that mean the absence of a value, in SGD and MultiWOZ 2.2.
NONE = frozenset({"", "dontcare", "don't care", "do n't care", "none", "not mentioned", "?"})

# kinds with a fixed form: always generated, never drawn from a pool
FORMS = ("date", "time", "price", "phone", "postcode", "code")
NAMES = (
    "address", "airport", "station", "cuisine", "genre", "music", "person", "task", "title", "car", "city", "business",
    "place",
)  # fmt: skip
OTHER = "other"
KINDS = (*FORMS, *NAMES)

_CLOCK = re.compile(r"\d?\d:\d\d(?: ?[ap]\.?m\.?)?|\d?\d ?[ap]\.?m\.?", re.IGNORECASE)
_NUMBER = re.compile(r"[$£€]?\d[\d,]*(?:\.\d+)?%?")
_MONEY = re.compile(
    r"[$£€]\d[\d,]*(?:\.\d+)?|(?<!\d)(?<!\d,)\d[\d,]*(?:\.\d+)? ?(?:pounds?|dollars?|euros?|bucks|gbp|usd|eur)", re.I
)
_PHONE = re.compile(r"[+(]?\d[\d ().+-]{5,}\d")
_POSTCODE = re.compile(r"[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}|[a-z]\d[a-z] ?\d[a-z]\d", re.IGNORECASE)  # British, Canadian
# One word of letters and digits. At least five characters, to exclude ordinals and models of cars.
_CODE = re.compile(r"#?(?=[a-z-]*\d)(?=[\d-]*[a-z])[a-z\d-]{5,}", re.IGNORECASE)
_TRUTH = frozenset({"true", "false", "yes", "no", "free"})
_ADDRESS = re.compile(
    r"\d+[A-Za-z]?,? .*\b(?:st|street|rd|road|ave?|avenue|ln|lane|dr|drive|blvd|boulevard|ct|court|pl|place|pkwy|"
    r"parkway|hwy|highway|way|row|alley|terrace|circle|square|real|rue|yard)\b",
    re.IGNORECASE,
)
_AIRPORT = re.compile(r"\b(?:air|jet)(?:port|field)\b", re.IGNORECASE)
_AIRPORT_CODE = re.compile(r"[A-Z]{3}", re.IGNORECASE)
_PRACTICE = re.compile(
    r"\b(?:dental|dentistry|lab|clinic|medical|salon|studio|care|center|practice|company)\b", re.IGNORECASE
)
_STATION = re.compile(r"\b(?:station|terminal|depot|transit|intermodal)\b", re.IGNORECASE)
# A calendar's "title" for an event is a description, not a name: "Reservation at Mcdonald's".
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
# Uninformative heads: for "restaurant_name" the word before is used, for "name of the hotel" the words after it.
_EMPTY_HEADS = _set(
    "name names title place number numbers no value full common exact account category kind list info information text"
)
_BREAKS = _set(
    "of for at in by from to with on near per that which who whom whose where when is are was be used known or "
    "and if what either during as into about how until why while"
)
_ARTICLES = _set("the a an this its their his her each every some any your my desired preferred")

# The head determines the kind. A "location" may be a town, a station or a house, which its values determine.
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
_NO_KIND = _set("police fire radio tv television gas petrol weather space")  # "police station" is not a station
_TOWN = frozenset({"city", "town"})
_QUARTERS = _set(
    "north south east west centre center central downtown uptown midtown northern southern eastern western "
    "northeast northwest southeast southwest"
)


def is_none(value: str) -> bool:
    """Whether a value means that there is none, or that any will do."""
    return value.casefold() in NONE


def kind_of(name: str, description: str, values: Iterable[str], service: str = "") -> str:
    """Infers the kind of an open slot.

    Args:
      name: the slot's name.
      description: its description; may be empty.
      values: its distinct values in dialogues, in any order.
      service: the name of its service, with which many slot names begin.
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
    # before "price", since phone numbers may have no dash
    if not _PHONE_WORDS.isdisjoint(own):
        return "phone" if _mostly(_PHONE, real) or not real else OTHER
    if _mostly(_MONEY, real):
        return "price"
    if _mostly(_NUMBER, real):
        return "code" if _CODE_WORDS & heads else "price" if _PRICE_WORDS.intersection([*own, *described]) else "number"
    if _mostly(_PHONE, real):
        return "phone" if not _PHONE_WORDS.isdisjoint(described) else OTHER
    if _mostly(_CODE, real):
        return "code"
    kind = _named_kind(own, described, service)
    if kind == "genre" and {"music", "song", "songs", "album", "track"}.intersection(described):
        return "music"
    if kind == LOCATION:
        return _kind_of_places(real, described)
    return kind if _are_names(real) else OTHER


def are_quarters(times: Iterable[str]) -> bool:
    """Whether nearly all times are quarters of an hour: tables are not booked at 6:35, but trains leave then."""
    minutes = [minutes for text in times if (minutes := minutes_said(text)) is not None]
    return 20 * sum(n % 15 == 0 for n in minutes) >= 19 * len(minutes)


def own_words(name: str, service: str) -> list[str]:
    """Splits a slot's name into words without its domain: ``["postcode"]`` for ``hotel-postcode``."""
    name_words = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    domain = _words(re.sub(r"_?(?<!\d)\d+$", "", service))
    return (
        name_words[len(domain) :]
        if domain and name_words[: len(domain)] == domain and len(name_words) > len(domain)
        else name_words
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.casefold())


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """Splits words into phrases at prepositions and the like."""
    phrases: list[list[str]] = [[]]
    for word in words:
        if word in _BREAKS:
            phrases.append([])
        else:
            phrases[-1].append(word)
    return phrases


def _heads(words: Sequence[str]) -> Iterator[str]:
    """Yields the possible heads of words, the most probable first.

    These are the first head, and its neighbours if it is uninformative.
    """
    for phrase in _phrases(words):
        for word in reversed(phrase):
            yield word
            if word not in _EMPTY_HEADS:
                return


def _named_kind(own: Sequence[str], described: Sequence[str], service: str) -> str:
    """Returns the kind by the slot's name or description; for a plain "name", by its service."""
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
            return OTHER  # references have no known form
    return "title" if "title" in own else LOCATION if "place" in own else OTHER


def _until_clause(words: Sequence[str]) -> list[str]:
    """Returns a description up to its first participle: "food offered by the restaurant" is about food."""
    ends = (i for i, word in enumerate(words) if i and len(word) > 4 and word.endswith(("ed", "ing")))
    return list(words[: next(ends, None)])


def _kind_of_places(values: Sequence[str], described: Sequence[str]) -> str:
    if values and all(_QUARTERS.intersection(_words(value)) for value in values):
        return OTHER  # districts of a town
    if not _are_names(values):
        return OTHER
    short = sum(len(value.split()) < 3 and not _is_house(value) for value in values)
    are_towns = values and 10 * short >= 7 * len(values)
    return "city" if are_towns or _TOWN.intersection(described) else "place"


def _is_house(value: str) -> bool:
    return any(char.isdigit() for char in value) or any(word.casefold() in HOUSES for word in value.split()[-1:])


def _are_names(values: Sequence[str]) -> bool:
    """Whether most values may be names: they have letters, and are not references, e-mail or web addresses."""
    plain = sum(
        any(char.isalpha() for char in value) and not _CODE.fullmatch(value) and "@" not in value and "://" not in value
        for value in values
    )
    return 2 * plain >= len(values)


def _mostly(shape: re.Pattern[str], values: Sequence[str]) -> bool:
    """Whether at least half of the values have a shape; users may express the others in words."""
    return bool(values) and 2 * sum(shape.fullmatch(value) is not None for value in values) >= len(values)


@lru_cache(1 << 16)
def kind_of_value(kind: str, value: str) -> str:
    """Returns the kind of a single value if a slot's values differ in kind, such as addresses and stations."""
    if kind == "person" and (_is_house(value) or _PRACTICE.search(value)):
        return "business"
    if (kind == "airport" and not _AIRPORT.search(value) and not _AIRPORT_CODE.fullmatch(value)) or (
        kind == "station" and GENERIC.isdisjoint(_words(value))
    ):
        return "city"  # "The airport or city to depart from"
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
