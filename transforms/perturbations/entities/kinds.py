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
from datetime import date, timedelta
from functools import lru_cache

import msgspec

from parapet.transforms.perturbations.entities.names import HOUSES


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
    return any(char.isdigit() for char in value) or any(word.casefold() in HOUSES for word in value.split()[-1:])


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


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = re.compile(rf"\b(?:{'|'.join(month[:3] for month in _MONTHS)})", re.IGNORECASE)
_MONTH_DAY = re.compile(r"\d(?!st|nd|rd|th|\d)", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"(\d?\d):(\d\d)")
_HALF_DAY = re.compile(
    r"(?P<hour>\d?\d)(?::(?P<minute>\d\d))?(?P<blank>\s*)(?P<half>[ap])(?P<dot>\.?)m(?P<last>\.?)", re.IGNORECASE
)
_TELLING = 8  # different values from which a step can be told
_LETTERS_FIRST = re.compile(r"([a-z]+)\d+")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without those that are read as digits
_POSTAL = "abdefghjlnpqrstuwxyz"  # that an inward code may have
_LONGEST_AMOUNT = 15  # characters: more are no sum of money, and cents of it no float holds
_AMOUNT = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DIGIT = re.compile(r"\d")


def day_of(canonical: str) -> date | None:
    """The day that ``2019-03-05`` means, or None where it is no day."""
    if not ISO_DATE.fullmatch(canonical):
        return None
    try:
        return date.fromisoformat(canonical)
    except ValueError:
        return None


def later(day: date, weeks: int) -> date | None:
    """The same weekday some weeks on, or None where no calendar goes that far."""
    try:
        return day + timedelta(weeks=weeks)
    except OverflowError:
        return None


def said_date(day: date, like: str) -> str:
    """A day in the style of another.

    ``2019-07-09``, ``July 9`` or ``July 9th``; a weekday ("next Tuesday") or a day alone ("the 4th")
    means nothing without a calendar, and "9th of July" has words that every training set has.
    """
    if ISO_DATE.fullmatch(like):
        return day.isoformat()
    month = _MONTHS[day.month - 1]
    text = f"{month} {day.day}" if _MONTH.search(like) and _MONTH_DAY.search(like) else f"{month} {ordinal(day.day)}"
    if not _MONTH.search(like):
        return text
    return text.lower() if like == like.lower() else text.upper() if like == like.upper() else text


def is_relative(like: str) -> bool:
    """Whether a date has no month: "today", "next Tuesday", "the 4th"."""
    return not ISO_DATE.fullmatch(like) and _MONTH.search(like) is None


def ordinal(n: int) -> str:
    """``1st``, ``12th``, ``22nd``."""
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def minutes_of(canonical: str) -> int | None:
    """Minutes since midnight of ``17:15``, or None where it is no time of the day."""
    match = _TIME_OF_DAY.fullmatch(canonical)
    if not match or int(match[1]) > 23 or int(match[2]) > 59:
        return None
    return 60 * int(match[1]) + int(match[2])


def minutes_said(text: str) -> int | None:
    """Minutes since midnight of ``17:15``, ``5:15 pm`` or ``5 p.m.``; None for a time in words."""
    match = _HALF_DAY.fullmatch(text.strip())
    if not match:
        return minutes_of(text)
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return None
    return 60 * (hour % 12 + 12 * (match["half"].lower() == "p")) + minute


def said_time(minutes: int, like: str) -> str:
    """A time in the style of another: ``17:30``, ``5:30``, ``5:30 PM`` or ``5:30pm``.

    A time in words becomes ``5:30 pm``: words such as "half past 11" have all been seen.
    """
    hour, minute = divmod(minutes, 60)
    match = _TIME_OF_DAY.fullmatch(like)
    if match and (len(match[1]) == 2 or hour == int(match[1])):
        return f"{hour:02}:{minute:02}" if len(match[1]) == 2 else f"{hour}:{minute:02}"
    short = f"{(hour + 11) % 12 + 1}:{minute:02}"
    if match:
        return short
    half = "am" if hour < 12 else "pm"
    styled = _HALF_DAY.fullmatch(like)
    if not styled:
        return f"{short} {half}"
    suffix = styled["blank"] + half[0] + styled["dot"] + "m" + styled["last"]
    return short + (suffix.upper() if styled["half"].isupper() else suffix)


def step_of(kind: str, values: Iterable[str]) -> int:
    """What nearly all values of a slot are multiples of: times in minutes, prices in cents; else 1.

    People book tables at a quarter past, and transfer round sums: a new value that does not would be found by its
    oddity. Of few different values little can be told, so they count as quarters of an hour, or whole units, at most.
    """
    if kind == "time":
        sizes = {minutes for value in values if (minutes := minutes_said(value)) is not None}
        steps: tuple[int, ...] = (60, 30, 15, 10, 5) if len(sizes) >= _TELLING else (15, 5)
    elif kind == "price":
        sizes = {round(100 * float(amount)) for value in values if (amount := amount_of(value)) is not None}
        steps = (10000, 5000, 1000, 500, 100, 50, 10, 5) if len(sizes) >= _TELLING else (100, 50, 10, 5)
    else:
        return 1
    if not sizes:
        return 1
    return next((step for step in steps if 20 * sum(size % step == 0 for size in sizes) >= 19 * len(sizes)), 1)


def amount_of(text: str) -> str | None:
    """The one number of a price, without the commas of thousands; None where there is none, more, or a longer one."""
    found = _AMOUNT.findall(text)
    amount: str = found[0].replace(",", "") if len(found) == 1 else ""
    return amount if 0 < len(amount) <= _LONGEST_AMOUNT else None


@lru_cache(10_000)
def _around_amount(like: str) -> tuple[str, str, bool]:
    """What is before the one number of a price, and behind it; and whether thousands have commas."""
    match = _AMOUNT.search(like)
    assert match is not None
    return like[: match.start()], like[match.end() :], "," in match[0]


def said_price(amount: str, like: str) -> str:
    """An amount with the currency, and the commas, of another price, which has one number."""
    before, behind, commas = _around_amount(like)
    if commas:
        whole, point, cents = amount.partition(".")
        amount = f"{int(whole):,}{point}{cents}"
    return before + amount + behind


def other_amounts(amount: str, number: int, step: int) -> Iterator[str]:
    """Other amounts, each once: of as many digits and cents, from half to twice as much.

    Args:
      amount: the amount.
      number: where they begin: 64 bits that look drawn.
      step: cents that they are multiples of, unless the amount itself is none.
    """
    whole, point, cents = amount.partition(".")
    size, unit = 10 ** max(2, len(cents)), 10 ** (2 - min(2, len(cents)))  # of a whole, and of the last digit
    old = int(whole) * size + int(cents or 0) * unit
    if size > 100 or step % unit or old % step:
        step = unit
    low, high = (10 ** (len(whole) - 1) if len(whole) > 1 else 0) * size, 10 ** len(whole) * size - 1
    first, last = -(-max(low, old // 2, step) // step), min(high, 2 * old) // step
    for i in range(last - first + 1):
        units, rest = divmod((first + (number + i * 7919) % (last - first + 1)) * step, size)
        yield f"{units}{point}{rest // unit:0{len(cents)}}" if point else str(units)


def digits_of(text: str) -> str:
    """The digits of a phone number."""
    return "".join(_DIGIT.findall(text))


def said_phone(digits: str, like: str) -> str:
    """Digits in the pattern of another phone number of as many."""
    rest = iter(digits)
    return _DIGIT.sub(lambda _: next(rest), like)


def other_digits(like: str, number: int) -> str:
    """The digits of another phone number of the same country and area: what a subscriber has is new.

    Args:
      like: a phone number: ``+1 312-791-1121``, ``(408) 971-8523``, ``01223353888``.
      number: 64 bits that look drawn.
    """
    digits = digits_of(like)
    kept = area_of(like)
    new = str(number)[::-1].ljust(len(digits) - kept, "0")[: len(digits) - kept]
    if new and new[0] in "01" and digits[kept] not in "01":
        new = str(2 + number // 7919 % 8) + new[1:]  # no subscriber's number begins with these
    return digits[:kept] + new


@lru_cache(10_000)
def area_of(like: str) -> int:
    """How many digits stand for country and area. Four are changed at least, or all but one."""
    groups = [len(group) for group in re.findall(r"\d+", like)]
    total = sum(groups)
    if len(groups) == 1:
        kept = total - (6 if like.startswith("0") else 7)
    else:
        country = like.lstrip().startswith("+") or (groups[0] == 1 and total == 11)
        kept = sum(groups[: 2 if country and len(groups) > 2 else 1])
    return max(0, min(kept, total - 4)) if total > 4 else min(1, total - 1)


def code_of(text: str) -> str:
    """The letters and digits of a reference or postcode, case folded: its spacing and punctuation are ignored."""
    return "".join(char for char in text if char.isalnum()).casefold()


def other_code(kind: str, code: str, number: int) -> str:
    """Another reference or postcode of the same form: digits for digits, letters for letters.

    A postcode keeps its area (``cb1`` of ``cb13ef``, ``94`` of ``94301``), and what has letters before digits alone
    (``TR7075``) keeps its letters.
    """
    if kind == "postcode":
        kept = max(2, len(code) - 3) if any(char.isalpha() for char in code) else 2
    else:
        kept = len(match[1]) if (match := _LETTERS_FIRST.fullmatch(code)) else 0
    new = []
    for place, char in enumerate(code):
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64  # Knuth's generator
        drawn = number >> 33
        if place < kept or not (char.isdecimal() or char.isalpha()):
            new.append(char)
        elif char.isdecimal():
            new.append(str(1 + drawn % 9 if char != "0" and place == kept else drawn % 10))
        else:
            letters = _POSTAL if kind == "postcode" else _LETTERS
            new.append(letters[drawn % len(letters)])
    return "".join(new)


def said_code(code: str, like: str) -> str:
    """Letters and digits in the pattern, and the case, of another reference of as many."""
    rest = iter(code)
    new = "".join(next(rest) if char.isalnum() else char for char in like)
    return new.upper() if like == like.upper() else new
