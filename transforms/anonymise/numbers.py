"""Mentions by form: e-mail, web and IP addresses; numbers of phones, cards, accounts and orders; dates and times.

All patterns start at the beginning of a word, so their time is linear in the length of any text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence

from parapet.schemas.errors import InputError
from parapet.transforms.anonymise.mentions import Mention

_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_SPELLED_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64} ?(?: at |\(at\)|\[at\]) ?[\w-]{1,63}"
    r"(?: ?(?: dot |\(dot\)|\[dot\]|\.) ?[a-z]{2,10}){1,3}\b",
    re.IGNORECASE,
)
_URL = re.compile(r"(?<![\w@])(?:https?://|www\.)[^\s<>\"]{1,2000}", re.IGNORECASE)
_DOMAIN = re.compile(
    r"(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,5}(?:com|org|net|io|co|uk|de|fr|es|it|nl|eu|ca|au|info|biz|us|edu|gov|app|me)"
    r"(?:/[^\s<>\"]{0,500})?(?![\w@])",
    re.IGNORECASE,
)
_IP = re.compile(
    r"(?<![\w.:])(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?![\w:]|\.\d)", re.I
)
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?!\w)", re.IGNORECASE)
_CARD = re.compile(r"(?<![\w-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])")
_HANDLE = re.compile(r"(?<![\w@.])@\w[\w.]{1,50}")
_LONG = re.compile(r"(?<![\w.,$€£-])[0-9](?:[ -]?[0-9]){6,40}(?![\w-]|[.,][0-9])")

_DIGIT_WORD = r"(?:zero|oh|o|one|two|three|four|five|six|seven|eight|nine|double|triple)"
_SPELLED_PHONE = re.compile(rf"(?<!\w){_DIGIT_WORD}(?:[ ,-]{{1,2}}{_DIGIT_WORD}){{6,20}}(?!\w)", re.IGNORECASE)

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"[0-3]?[0-9](?:st|nd|rd|th)?", r"(?:19|20)[0-9]{2}"
_DATE = re.compile(
    rf"(?<![\w./-])(?:{_YEAR}[-/.][01]?[0-9][-/.][0-3]?[0-9](?:T[0-9:.]{{4,15}}Z?)?|"
    rf"[0-3]?[0-9][-/.][0-3]?[0-9][-/.](?:{_YEAR}|[0-9]{{2}})|[0-3]?[0-9]/[0-3]?[0-9]|"
    rf"{_DAY}(?: of)? {_MONTH},?(?: {_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?|{_MONTH} {_YEAR})(?![\w/-]|\.[0-9])",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\w.:])(?:[01]?[0-9]|2[0-3])"
    r"(?:[:.h][0-5][0-9](?::[0-5][0-9])? ?(?:[ap]\.?m\b\.?)?| ?[ap]\.?m\b\.?| ?o'?clock)(?![\w:])|"
    r"(?<!\w)(?:half|quarter) (?:past|to|after) "
    r"(?:[0-9]{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?!\w)",
    re.IGNORECASE,
)

# What the paper replaces besides: days without a date, and every number, also as a word. "One" mostly counts nothing.
_DAYS = re.compile(
    r"(?<![\w<])(?:(?:this|next|last) )?"
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tonight|tomorrow|yesterday)(?: (?:morning|afternoon|"
    r"evening|night))?(?![\w>])",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(
    r"(?<![\w<.])(?:[0-9]+(?:[.,][0-9]+)*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    r"fifteen|sixteen|seventeen|eighteen|nineteen|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
    r"(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?|hundred|thousand)(?![\w>])",
    re.IGNORECASE,
)

_CUE = (
    r"(?:order|booking|reservation|reference|ref|confirmation|conf|ticket|case|account|acct|invoice|tracking|membership|"
    r"member|customer|policy|passport|licen[cs]e|loyalty|record|locator|flight|pin|passcode|password|code|id)"
)
_CUED = re.compile(
    rf"(?<!\w){_CUE}\.?(?: (?:number|num|no\.?|nr\.?|id|code|ref|reference))?"
    r"(?: is| was|:| #| =|#|=|-){0,2} {0,2}"
    r"(?P<code>#?[a-z0-9][a-z0-9/_-]{2,40})(?![\w@])",
    re.IGNORECASE,
)
_HASH = re.compile(r"(?<!\w)#[a-z0-9][a-z0-9-]{3,40}(?!\w)", re.IGNORECASE)
_MIXED = re.compile(r"(?<![\w-])(?=[a-z-]{0,40}[0-9])(?=[0-9-]{0,40}[a-z])[a-z0-9-]{5,41}(?![\w-])", re.IGNORECASE)
_SSN = re.compile(r"(?<![\w-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])")
# "10am", "2nd", "3pm-5pm", "30min", "5-star": numbers with a unit identify nobody.
_UNIT = re.compile(
    r"(?:[0-9]+-?(?:st|nd|rd|th|[ap]m|min(?:ute)?s?|hours?|hrs?|stars?|people|persons?|pax|k|ish|x|year|day)-?)+s?",
    re.I,
)

_MIN_DIGITS = 7  # of a phone number

_STREET = (
    r"(?:street|st|road|rd|avenue|ave|av|lane|ln|drive|dr|boulevard|blvd|square|sq|court|ct|way|place|pl|terrace|close|"
    r"crescent|highway|hwy|parkway|pkwy|row|gardens|grove|hill|mews)"
)
_ADDRESS = re.compile(
    rf"(?<![\w.:])[0-9]{{1,5}}[a-z]?,? (?:(?:[nsew]\.? )?[\w'.-]{{1,30}} ){{1,4}}?{_STREET}\b\.?(?: {_STREET}\b\.?)?"
    r"(?:,? (?:apt|apartment|suite|unit|flat|floor|#)\.? ?#?[\w-]{1,8})?",
    re.IGNORECASE,
)
_POST_CODE = re.compile(
    r"(?<!\w)(?:[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2}|(?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|"
    r"N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY]),? [0-9]{5}(?:-[0-9]{4})?)(?!\w)"
)
_CUED_ZIP = re.compile(
    r"(?<!\w)(?:zip|postal|post)(?: ?code)?(?: is|:)? (?P<code>[a-z0-9]{3,10}(?:-[0-9]{4})?)(?!\w)", re.I
)

_SIMPLE: Sequence[tuple[str, re.Pattern[str]]] = (
    ("EMAIL", _EMAIL),
    ("EMAIL", _SPELLED_EMAIL),
    ("URL", _URL),
    ("URL", _DOMAIN),
    ("HANDLE", _HANDLE),
    ("PHONE", _SPELLED_PHONE),
    ("DATE", _DATE),
    ("TIME", _TIME),
    ("ORDER", _HASH),
    ("ORDER", _SSN),
    ("NUMBER", _LONG),
    ("ADDRESS", _ADDRESS),
    ("ADDRESS", _POST_CODE),
)


def numbers_in(text: str, regions: Sequence[str]) -> Iterator[Mention]:
    """Mentions by form; they may overlap.

    Args:
      text: cleaned, see ``parapet.transforms.text.clean``.
      regions: of phone numbers without a country code: ``US``, ``GB``.
    """
    for kind, pattern in _SIMPLE:
        for found in pattern.finditer(text):
            end = found.end()
            while kind == "URL" and text[end - 1] in ".,;:!?)'":  # of the sentence
                end -= 1
            yield Mention(found.start(), end, kind)
    yield from _checked("IP", _IP, text, _is_ip)
    yield from _checked("IBAN", _IBAN, text, _is_iban)
    yield from _checked("CARD", _CARD, text, _is_card)
    yield from _checked("ORDER", _MIXED, text, lambda code: not _UNIT.fullmatch(code))
    yield from _cued("ORDER", _CUED, text)
    yield from _cued("ADDRESS", _CUED_ZIP, text)
    yield from _phones(text, regions)


def all_numbers_in(text: str) -> Iterator[Mention]:
    """Every number, and days: what the paper replaces besides, see Table 7."""
    for kind, pattern in (("DATE", _DAYS), ("NUMBER", _ANY_NUMBER)):
        for found in pattern.finditer(text):
            yield Mention(found.start(), found.end(), kind)


def _checked(kind: str, pattern: re.Pattern[str], text: str, holds: Callable[[str], bool]) -> Iterator[Mention]:
    return (Mention(found.start(), found.end(), kind) for found in pattern.finditer(text) if holds(found[0]))


def _cued(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Mention]:
    for found in pattern.finditer(text):
        code = found["code"]
        # "booking for", "account is": a code has a digit, or is in capitals.
        if (any(map(str.isdigit, code)) and len(code) > 3 and not _UNIT.fullmatch(code)) or (
            len(code) > 4 and code.isupper()
        ):
            yield Mention(*found.span("code"), kind)


def _phones(text: str, regions: Sequence[str]) -> Iterator[Mention]:
    if sum(map(str.isdigit, text)) < _MIN_DIGITS:
        return
    import phonenumbers

    for region in regions:
        for found in phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.POSSIBLE):
            if sum(map(str.isdigit, found.raw_string)) >= _MIN_DIGITS:
                yield Mention(found.start, found.end, "PHONE")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(text) > 3


def _is_iban(text: str) -> bool:
    """ISO 13616: with country and check digits at the end, and letters as numbers, it is 1 modulo 97."""
    code = text.replace(" ", "").upper()
    return code.isascii() and int("".join(str(int(character, 36)) for character in code[4:] + code[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    """The Luhn check (ISO/IEC 7812)."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) if i % 2 else digit for i, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and any(digits)


def check_regions(regions: Sequence[str]) -> None:
    """Raises InputError where one is not a region with phone numbers."""
    import phonenumbers

    for region in regions:
        if region not in phonenumbers.SUPPORTED_REGIONS:
            raise InputError(f"{region!r} is no region: give two letters each, such as US,GB", "--phone_regions")
    if not regions:
        raise InputError("give one or more regions, such as US,GB", "--phone_regions")
