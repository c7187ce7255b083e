"""Replacing the mentions of a chat that identify people, and an independent check of the result.

Mentions are recognised by form (addresses, numbers, dates), by a list, by a spaCy model, or by the words around them.
All patterns by form start at the beginning of a word, so their time is linear in the length of any text. The same
person, place or number has the same placeholder throughout the chat. The check does not share the rules of the
replacement, so that it can notice mentions that these rules miss.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.transforms.core.libraries import load_spacy_model
from parapet.transforms.crowd.lexicon import word_frequency
from parapet.transforms.perturb.edits import Edit, edited
from parapet.transforms.report.text import check_plain_text, clean

USER, BOT = "user", "bot"
API_CALL = "api_call"


class ChatTurn(msgspec.Struct, frozen=True):
    """A turn.

    Attributes:
      speaker: ``user`` or ``bot``.
      text: the text as written.
      called: the original speaker if it is not a role, as it may be a person's name.
    """

    speaker: str
    text: str
    called: str = ""


class Chat(msgspec.Struct, frozen=True):
    """A chat: its turns."""

    turns: tuple[ChatTurn, ...]


# Kinds of mentions and their meanings, by precedence: if two overlap, the earlier kind takes the characters.
KINDS = {
    "EMAIL": "e-mail addresses, also spelled out: ann at mail dot com",
    "URL": "web addresses",
    "IP": "IP addresses",
    "IBAN": "account numbers with valid check digits",
    "CARD": "card numbers with a valid check digit",
    "ENTITY": "entries of --entities without a kind",
    "DATE": "dates, with a day or a year",
    "TIME": "times of day",
    "ORDER": "numbers of orders, bookings, accounts and so on; codes of letters and digits",
    "PHONE": "phone numbers, also spelled out",
    "NUMBER": "other numbers of seven digits or more",
    "ADDRESS": "streets with a house number, post codes",
    "HANDLE": "names on social media: @ann",
    "PERSON": "names of people",
    "LOCATION": "places",
    "ORGANIZATION": "companies, restaurants and so on",
}
# Placeholders as in the examples of Bordes et al. 2017, Table 7; other kinds use their own names.
PAPER = {
    "ORGANIZATION": "org",
    "ENTITY": "org",
    "ADDRESS": "location",
    **dict.fromkeys(("IBAN", "CARD", "ORDER", "PHONE", "IP"), "number"),
}
PLACEHOLDER = re.compile(
    r"<(?:[A-Z]{2,20}_[0-9]{1,6}|"
    + "|".join(sorted({PAPER.get(kind, kind.lower()) for kind in (*KINDS, "silence")}))
    + r")>"
)


def placeholder(kind: str, number: int, paper: bool) -> str:
    """Formats a placeholder: ``<PERSON_1>``, or ``<person>`` as in the paper."""
    return f"<{PAPER.get(kind, kind.lower())}>" if paper else f"<{kind}_{number}>"


_ORDER = {kind: i for i, kind in enumerate(KINDS)}
_SAYS = re.compile(r"\w")
_FREE = re.compile(rb"\0+")


class Mention(msgspec.Struct, frozen=True, order=True):
    """A span of a text, ``end`` exclusive, and its kind."""

    start: int
    end: int
    kind: str


def settled(text: str, found: Iterable[Mention], protected: Iterable[tuple[int, int]] = ()) -> list[Mention]:
    """Resolves overlaps and returns mentions in order. The rest of a mention that was cut remains a mention.

    Nothing is dropped: if "Ann Lee 555 0143" is a person and "555 0143" a phone number, "Ann Lee" remains a person.

    Args:
      text: the text with the mentions.
      found: mentions in any order. If two overlap, the earlier kind of ``KINDS`` has precedence, then the longer one.
      protected: spans excluded from mentions.
    """
    taken = bytearray(len(text))
    for start, end in protected:
        taken[start:end] = b"\1" * (end - start)
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda item: (_ORDER.get(item.kind, -1), item.start - item.end, item)):
        for free in _FREE.finditer(taken, mention.start, mention.end):
            start, end = free.span()
            if not _SAYS.search(text, start, end):
                continue
            while text[start].isspace():
                start += 1
            while text[end - 1].isspace():
                end -= 1
            kept.append(Mention(start, end, mention.kind))
        taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
    return sorted(kept)


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

# The paper also replaces days without a date, and every number, also as a word. "One" is mostly not a number.
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
    """Yields mentions recognised by form; they may overlap.

    Args:
      text: a text cleaned by ``parapet.transforms.report.text.clean``.
      regions: the regions of phone numbers without a country code, such as ``US``, ``GB``.
    """
    for kind, pattern in _SIMPLE:
        for match in pattern.finditer(text):
            end = match.end()
            while kind == "URL" and text[end - 1] in ".,;:!?)'":  # punctuation of the sentence
                end -= 1
            yield Mention(match.start(), end, kind)
    yield from _checked("IP", _IP, text, _is_ip)
    yield from _checked("IBAN", _IBAN, text, _is_iban)
    yield from _checked("CARD", _CARD, text, _is_card)
    yield from _checked("ORDER", _MIXED, text, lambda code: not _UNIT.fullmatch(code))
    yield from _cued("ORDER", _CUED, text)
    yield from _cued("ADDRESS", _CUED_ZIP, text)
    yield from _phones(text, regions)


def all_numbers_in(text: str) -> Iterator[Mention]:
    """Yields every number and day, which the paper replaces in addition, see Table 7."""
    for kind, pattern in (("DATE", _DAYS), ("NUMBER", _ANY_NUMBER)):
        for match in pattern.finditer(text):
            yield Mention(match.start(), match.end(), kind)


def _checked(kind: str, pattern: re.Pattern[str], text: str, holds: Callable[[str], bool]) -> Iterator[Mention]:
    return (Mention(match.start(), match.end(), kind) for match in pattern.finditer(text) if holds(match[0]))


def _cued(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Mention]:
    for match in pattern.finditer(text):
        code = match["code"]
        # "booking for", "account is": a code has a digit, or is in capitals.
        if (any(map(str.isdigit, code)) and len(code) > 3 and not _UNIT.fullmatch(code)) or (
            len(code) > 4 and code.isupper()
        ):
            yield Mention(*match.span("code"), kind)


def _phones(text: str, regions: Sequence[str]) -> Iterator[Mention]:
    if sum(map(str.isdigit, text)) < _MIN_DIGITS:
        return
    import phonenumbers

    for region in regions:
        for match in phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.POSSIBLE):
            if sum(map(str.isdigit, match.raw_string)) >= _MIN_DIGITS:
                yield Mention(match.start, match.end, "PHONE")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(text) > 3


def _is_iban(text: str) -> bool:
    """Checks an IBAN by ISO 13616: rearranged and with letters as numbers, it is 1 modulo 97."""
    code = text.replace(" ", "").upper()
    return code.isascii() and int("".join(str(int(character, 36)) for character in code[4:] + code[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    """Checks a card number by the Luhn algorithm (ISO/IEC 7812)."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) if i % 2 else digit for i, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and any(digits)


def check_regions(regions: Sequence[str]) -> None:
    """Raises InputError if a region is unknown to phonenumbers."""
    import phonenumbers

    for region in regions:
        if region not in phonenumbers.SUPPORTED_REGIONS:
            raise InputError(f"{region!r} is not a region: give codes of two letters, such as US,GB", "--phone_regions")


_TOKEN = re.compile(r"\w+")
_KIND = re.compile(r"[A-Z]{2,20}")
# Labels of spaCy's English models (OntoNotes 5) and of models for other languages (WikiNER) to kinds.
_LABELS = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "ORG": "ORGANIZATION",
    "DATE": "DATE",
    "TIME": "TIME",
}

Entry = tuple[str, str]  # kind, text


def read_entities(path: str) -> list[Entry]:
    """Reads entities, one per line, ``Blue Door`` or ``ORGANIZATION<TAB>Blue Door``. Raises InputError."""
    content = limits.read_text(layout.as_path(path), where="--entities")
    check_plain_text(content[:1000].encode(), path, "--entities")
    lines = content.splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        kind, _, text = line.partition("\t") if "\t" in line else ("ENTITY", "", line)
        if not text.strip():
            continue
        if not _KIND.fullmatch(kind.strip()):
            reason = f"a kind must be written in capitals, such as {', '.join(list(KINDS)[-3:])}"
            raise InputError(reason, path, f"line {number}")
        if not _TOKEN.search(text):
            raise InputError("has no letter or digit", path, f"line {number}")
        entries.append((kind.strip(), text.strip()))
    if not entries:
        raise InputError("contains no entities", path, "--entities")
    return sorted(set(entries))


class Gazetteer:
    """Finds listed texts as whole words in any case. Its time does not depend on the length of the list.

    Args:
      entries: (kind, text).
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for kind, text in entries:
            if tokens := tuple(token.casefold() for token in _TOKEN.findall(text)):
                self._of_first.setdefault(tokens[0], []).append((tokens, kind))
        for phrases in self._of_first.values():
            phrases.sort(key=lambda entry: (-len(entry[0]), entry))

    def find(self, text: str) -> Iterator[Mention]:
        """Yields the longest mention at each place, without overlaps."""
        places = [(match.group().casefold(), *match.span()) for match in _TOKEN.finditer(text)]
        words = tuple(word for word, _, _ in places)
        at = 0
        while at < len(words):
            for tokens, kind in self._of_first.get(words[at], ()):
                if words[at : at + len(tokens)] == tokens:
                    yield Mention(places[at][1], places[at + len(tokens) - 1][2], kind)
                    at += len(tokens) - 1
                    break
            at += 1


def check_model(name: str) -> None:
    """Raises InputError if the spaCy model does not exist or does not recognise entities."""
    if not {"ner", "entity_ruler"} & set(load_spacy_model(name).pipe_names):
        raise InputError(f"the model {name!r} cannot find entities: it has no component 'ner'", "--spacy_model")


def recognised(texts: Sequence[str], model: str) -> list[list[Mention]]:
    """Returns the mentions that a model recognises in each text."""
    return [
        [
            Mention(entity.start_char, entity.end_char, _LABELS[entity.label_])
            for entity in doc.ents
            if entity.label_ in _LABELS
        ]
        for doc in load_spacy_model(model).pipe(texts)
    ]


_WORD = r"[^\W\d_](?:[^\W\d_]|['’.-](?=[^\W\d_])){0,40}"
_NAME = rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}})"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ](?:[^\W\d_]|['’-](?=[^\W\d_])){0,40}"
_CAPITALS = rf"(?P<name>{_CAPITAL}(?: {_CAPITAL}){{0,3}})(?!\w)"

_TITLE = re.compile(rf"(?<!\w)(?:mr|mrs|ms|miss|mx|dr|prof|professor|sir|madam|lady|lord)\b\.? {_NAME}", re.I)
# A name follows these, in any case.
_STRONG = re.compile(
    r"(?<!\w)(?:(?:under |in |by )?(?:the |my |her |his |our |your |last |first |full |sur|middle ){0,4}name"
    r"(?:['’]?s| on (?:it|the (?:booking|reservation|account|card)))?(?: is| was| will be| would be| of)?[:,]?|"
    rf"named|known as|signed by) {_NAME}",
    re.I,
)
# A name follows these only if it is capitalised.
_WEAK = re.compile(
    r"(?<!\w)(?i:this is|i am|i['’]?m|it['’]s|call me|ask for|speak(?:ing)? (?:to|with)|talk(?:ing)? (?:to|with)|hi|"
    r"hello|hey|dear|thanks|thank you|cheers|regards|sincerely|yours|best|love|under|wife|husband|son|daughter|brother|"
    r"sister|friend|boss|colleague|mother|father|mom|mum|dad|partner|boyfriend|girlfriend|sent by|signed|with|for|and|"
    rf"meet|tell|told|ask)[,!:]? {_CAPITALS}"
)
_IS = re.compile(rf"(?<!\w){_CAPITALS},? (?:here|speaking)\b")
_PLACE = re.compile(rf"(?<!\w)(?i:in|near|around|to|from|at|outside|downtown|visiting|of|by) {_CAPITALS}")
_NAME_WORD = re.compile(_WORD)

# Words that are not part of a name, common after "I'm", "this is", "thanks".
_WORDS = """
a able about address afraid african after again all allergic alright also always am american an and another any
anyone anything april are around as asap asian at august available away awesome back bad be because been before
being best better book booked booking both bother brazilian breakfast british brunch but by call called calling
can cannot cash certainly cheap check chinese christmas coming confirmed cool correct could curious currently
day days dear december did dinner do does doing done down dr each early easter easy either else email english
ethiopian european even ever every everybody everyone everyone's everything excellent excuse expensive february
fine first folks for found free french friday fridays from full fully fun get getting give glad gluten go going
good got great greek guys had happy has have having he hello help her here hey hi him his home hope hoping how
however hungry i if in indian interested into is it italian its january japanese july june just kind know korean
last late later lebanese let lets like looking lost lot lots lovely lunch ma madam making mam many march may
maybe me mediterranean mexican mine miss monday more morning moroccan most mr mrs ms much my name near need
never next nice night no none not nothing november now number october of off office ok okay on once one one's
only or order other our out over perfect phone please possible probably quick quite ready really reservation
right running same saturday saturdays say see september seriously service she single sir so some somebody
someone something somewhat soon sorry spanish still sunday sundays super support sure table tea team thai than
thank thanks that the their them then there these they this those three thursday time to today together tomorrow
tonight too trying tuesday turkish two u unable under understood until up upset urgent us vegan vegetarian very
vietnamese waiting want wanting was we wednesday week well were what when where which while who why will with
without wondering working worried would wow wrong yeah yes yesterday yet you your yours
"""
_NO_NAME = frozenset(_WORDS.split())


def names_in(text: str) -> Iterator[Mention]:
    """Yields mentions of people and places, recognised by the words before or after them; they may overlap."""
    for pattern in (_TITLE, _STRONG):
        for match in pattern.finditer(text):
            yield from _name(text, *match.span("name"), "PERSON", sure=True)
    for pattern in (_WEAK, _IS):
        for match in pattern.finditer(text):
            yield from _name(text, *match.span("name"), "PERSON")
    for match in _PLACE.finditer(text):
        yield from _name(text, *match.span("name"), "LOCATION")


def _name(text: str, start: int, end: int, kind: str, sure: bool = False) -> Iterator[Mention]:
    """Yields the words of a name up to the first other word; if ``sure``, any capitalised word belongs to the name."""
    at = start
    for word in _NAME_WORD.finditer(text, start, end):
        capital = word[0][0].isupper()
        if (is_no_name(word[0]) and not (sure and capital)) or not (sure or capital):
            break
        at = word.end()
    if at - start > 1:
        yield Mention(start, at, kind)


def is_no_name(word: str) -> bool:
    """Whether a word never counts as a name; "I'd" is like "I"."""
    return re.split("['’]", word)[0].lower() in _NO_NAME


_ALPHANUMERIC = re.compile(r"[^\W_]+")
_NAMES = frozenset({"PERSON", "LOCATION", "ORGANIZATION", "ENTITY"})
_COMMON = 5.4  # Zipf frequency of words that are rarely names, such as will, may


class Rules(msgspec.Struct, frozen=True):
    """The rules of the replacement.

    Attributes:
      entities: the entities listed by the user.
      model: the spaCy model; None to find names by rules alone.
      regions: the regions of phone numbers.
      kept: kinds that are not replaced.
      paper: whether to replace all numbers and days, with placeholders as in Bordes et al. 2017, Table 7.
    """

    entities: tuple[Entry, ...] = ()
    model: str | None = None
    regions: tuple[str, ...] = ("US", "GB")
    kept: frozenset[str] = frozenset()
    paper: bool = False


class Replaced(msgspec.Struct, frozen=True):
    """An anonymised chat.

    Attributes:
      texts: the texts of its turns.
      mentions: kind to the number of replaced mentions.
      things: kind to the number of different people, places or numbers.
      parts: words of replaced mentions, in lower case; any of them left in the text was missed.
      names: the words among them that are parts of people's names.
    """

    texts: tuple[str, ...]
    mentions: Counter[str]
    things: Counter[str]
    parts: frozenset[str]
    names: frozenset[str]


class Anonymiser:
    """Replaces mentions according to rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._listed = Gazetteer(rules.entities)

    def of(self, chat: Chat) -> Replaced:
        """Anonymises a chat.

        Texts are cleaned first: full-width digits become ASCII digits, invisible characters are removed.
        """
        texts = [_plain(turn.speaker, clean(turn.text)) for turn in chat.turns]
        by_text = self._found(texts, [("PERSON", turn.called) for turn in chat.turns if turn.called])
        placeholders = _Placeholders(self.rules.paper)
        counts: Counter[str] = Counter()
        replaced = []
        for text, mentions in zip(texts, by_text, strict=True):
            edits = []
            for mention in mentions:
                counts[mention.kind] += 1
                edits.append(
                    Edit(mention.start, mention.end, placeholders.of(mention.kind, text[mention.start : mention.end]))
                )
            replaced.append(edited(text, edits))
        return Replaced(tuple(replaced), counts, placeholders.things, placeholders.parts(), placeholders.names())

    def _found(self, texts: Sequence[str], called: Sequence[Entry]) -> list[list[Mention]]:
        """Finds the mentions of each text by form, list, model and context, then further mentions of the same names."""
        chosen = [[*numbers_in(text, self.rules.regions), *self._listed.find(text), *names_in(text)] for text in texts]
        if self.rules.paper:
            for text, mentions in zip(texts, chosen, strict=True):
                mentions += all_numbers_in(text)
        if self.rules.model:
            for mentions, more in zip(chosen, recognised(texts, self.rules.model), strict=True):
                mentions += more
        first = [self._settled(text, mentions) for text, mentions in zip(texts, chosen, strict=True)]
        known = [
            (mention.kind, text[mention.start : mention.end])
            for text, settled in zip(texts, first, strict=True)
            for mention in settled
        ]
        again = _Again([*known, *called])
        return [
            self._settled(text, [*mentions, *again.find(text)]) for text, mentions in zip(texts, first, strict=True)
        ]

    def _settled(self, text: str, mentions: list[Mention]) -> list[Mention]:
        kept = (mention for mention in mentions if mention.kind not in self.rules.kept)
        return settled(text, kept, (match.span() for match in PLACEHOLDER.finditer(text)))


def _plain(speaker: str, text: str) -> str:
    """Returns the text; for an API call of the operator only its name without arguments, as in the paper's data."""
    return API_CALL if speaker == BOT and text.split(" ")[0].lower() == API_CALL else text


class _Again:
    """Finds further mentions of a chat's names, such as "Ann" after "Ann Lee"."""

    def __init__(self, known: Sequence[Entry]) -> None:
        entries = {(kind, value) for kind, value in known if kind in _NAMES}
        self._whole = Gazetteer(sorted(entries))
        tokens = {
            (kind, token)
            for kind, value in entries
            if kind == "PERSON"
            for token in _ALPHANUMERIC.findall(value)
            if len(token) > 1 and not is_no_name(token)
        }
        self._parts = Gazetteer(sorted(tokens))

    def find(self, text: str) -> Iterator[Mention]:
        yield from self._whole.find(text)
        for mention in self._parts.find(text):
            word = text[mention.start : mention.end]
            # In a chat with a person called Will, "will" is mostly not a name.
            if word[0].isupper() or word_frequency(word.lower()) < _COMMON:
                yield mention


class _Placeholders:
    """Numbers the different people, places and numbers of each kind in order."""

    def __init__(self, paper: bool) -> None:
        self._paper = paper
        self._of: dict[tuple[str, str], str] = {}
        self._of_word: dict[str, str] = {}  # word of a name to the last person with it
        self._words: dict[str, set[str]] = {}  # person to the words of their names
        self._values: set[Entry] = set()
        self.things: Counter[str] = Counter()

    def of(self, kind: str, value: str) -> str:
        """Returns the placeholder of a value."""
        key = _key(kind, value)
        words = set(key.split()) if kind == "PERSON" else set()
        same = self._of.get((kind, key)) or self._person(words)
        if same is None:
            self.things[kind] += 1
            same = placeholder(kind, self.things[kind], self._paper)
        self._of[kind, key] = same
        self._of_word.update(dict.fromkeys(words, same))
        self._words.setdefault(same, set()).update(words)
        self._values.add((kind, value))
        return same

    def _person(self, words: set[str]) -> str | None:
        """Returns the earlier person with these names ("Ann" is "Ann Lee", and vice versa) if unambiguous."""
        called = {place for word in words if (place := self._of_word.get(word))}
        if len(called) != 1:
            return None
        (place,) = called
        return place if words <= self._words[place] or self._words[place] <= words else None

    def parts(self) -> frozenset[str]:
        """Returns the words of all values in lower case."""
        return frozenset(token.casefold() for _, value in self._values for token in _ALPHANUMERIC.findall(value))

    def names(self) -> frozenset[str]:
        """Returns the words of people's names in lower case."""
        values = (value for kind, value in self._values if kind == "PERSON")
        return frozenset(token.casefold() for value in values for token in _ALPHANUMERIC.findall(value))


def _key(kind: str, value: str) -> str:
    """Returns a key shared by all values for the same person, place or number."""
    if kind == "PHONE" and sum(map(str.isdigit, value)) >= 7:
        return "".join(filter(str.isdigit, value))[-9:]  # ignores the country code
    return " ".join(_ALPHANUMERIC.findall(value.casefold()))


def normalised(text: str) -> str:
    """Lower-cases a text, as in dialog bAbI, but not its placeholders."""
    parts, at = [], 0
    for match in PLACEHOLDER.finditer(text):
        parts += [text[at : match.start()].lower(), match[0]]
        at = match.end()
    return "".join([*parts, text[at:].lower()])


# Common given names, which the rules of the replacement do not use. Names that are also words (will, mark, grace,
_GIVEN_NAMES_TEXT = """
aaron abdul abigail adam adrian ahmed aisha alan albert alejandro alex alexander alexandra alexis alfred ali
alice alison allison amanda amelia amy ana andre andrea andreas andrew angela anita ann anna anne annie anthony
antonio arjun arthur ashley austin barbara ben benjamin bernard beth betty beverly billy bob bobby brandon
brenda brian bruce bryan caleb cameron camille carl carla carlos carmen carol caroline carolyn catherine cathy
charles charlie charlotte chen cheryl chloe chris christian christina christine christopher claire clara claudia
colin connor craig crystal cynthia daniel daniela danielle danny darren dave david dean deborah debra denise
dennis derek diana diane diego donald donna doris dorothy doug douglas dylan eddie edward eileen elaine eleanor
elena eli elizabeth ella ellen emily emma eric erica erik erin ethan eugene eva evan evelyn fatima felix
fernando fiona francesca francis francisco frank frederick gabriel gareth gary george gerald giovanni gloria
gordon graham greg gregory hannah hans harold harry hassan heather hector helen henry howard hugo ian ibrahim
ingrid irene isaac isabel isabella ivan jack jacob jacqueline jake james jamie jan jane janet janice jason
javier jean jeff jeffrey jennifer jenny jeremy jerry jesse jessica jim jimmy joan joanna joanne joe joel john
johnny jon jonathan jordan jorge jose joseph joshua joyce juan juanita judith judy julia julian julie justin
karen karl kate katherine kathleen kathryn kathy katie keith kelly ken kenneth kevin kim kimberly kyle larry
laura lauren laurie lawrence leah lee leo leon leonard leslie liam linda lisa logan lori louis louise lucas lucy
luis luke lynn madison marco marcus margaret maria marie marilyn mario martha martin marvin mary mason matthew
maureen max megan mehmet melanie melissa michael michelle miguel mike mohamed mohammed molly monica muhammad
nadia nancy natalie natasha nathan neil nicholas nick nicola nicole nina noah nora oliver olivia omar oscar
pablo pamela patricia patrick paul paula pauline pedro peggy peter phil philip phillip phyllis priya rachel
rafael raj ralph ravi raymond rebecca renee ricardo richard rick robert roberto robin roger ronald rosa rosie
ross roy russell ruth ryan sabrina sally samantha samuel sandra sanjay sara sarah scott sean sebastian sergio
shane shannon sharon shaun sheila shirley simon sofia sophia sophie stacy stanley stefan stella stephanie
stephen steve steven stuart sue susan suzanne sven sylvia tamara tanya tara taylor teresa terry theresa thomas
tiffany tim timothy tina todd tom tommy tony tracy travis trevor tyler valerie vanessa vera victoria vincent
virginia vivian walter wanda wayne wendy william yusuf yvonne zachary zoe
"""
GIVEN_NAMES = frozenset(_GIVEN_NAMES_TEXT.split())


DIGITS, AT, LINK, CAPITAL, GIVEN, CARRIED = "digits", "at", "link", "capital", "given_name", "carried"
SUSPICIONS = {
    DIGITS: "five digits or more, whatever is between them",
    AT: "an at sign",
    LINK: "http, www or a domain",
    CAPITAL: "a capitalised word inside a sentence that is rare in English",
    GIVEN: "a common given name",
    CARRIED: "a word of what was replaced in the chat, or a name that was replaced in another",
}

_MONEY = re.compile(r"[$€£] ?\d{1,3}(?:,?\d{3}){0,2}(?:\.\d\d)?(?![\d])")
_DIGITS = re.compile(r"\d(?:[^\w<>]{0,2}\d){4,}")
_AT = re.compile(r"(?<!\S)(?=\S{2})[^\s@]*@\S*")
_LINK = re.compile(r"https?:|www\.|\w\.(?:com|org|net|info|co)\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"(?:[.!?:;\n\"“(*-]|^)\s*$")  # the end of text before which a sentence starts
_SELDOM = 4.0  # Zipf frequency: once in a hundred thousand words
_COMMON_WORD = 4.5


class Suspect(msgspec.Struct, frozen=True, order=True):
    """Text that may identify a person: turn from 0, kind, first character and length; never the text itself."""

    turn: int
    kind: str
    first: str
    length: int


def suspects_in(turn: int, text: str, parts: Container[str], names: Container[str]) -> Iterator[Suspect]:
    """Yields possibly missed mentions in a turn.

    Args:
      turn: the number of the turn.
      text: the anonymised text.
      parts: words of the mentions replaced in the chat, in lower case.
      names: words of the names replaced in any chat, in lower case.
    """
    # A placeholder is not suspect, but must still separate the words beside it.
    text = PLACEHOLDER.sub("<>", text)
    for match in _DIGITS.finditer(_MONEY.sub("$", text)):
        yield _suspect(turn, DIGITS, match[0])
    for match in _AT.finditer(text):
        yield _suspect(turn, AT, match[0])
    for match in _LINK.finditer(text):
        yield _suspect(turn, LINK, match[0])
    shouted = sum(map(str.isupper, text)) > 0.6 * sum(map(str.isalpha, text))
    for match in _LETTERS.finditer(text):
        kind = _kind_of(
            match[0], not _ENDS.search(text[max(0, match.start() - 8) : match.start()]), shouted, parts, names
        )
        if kind:
            yield _suspect(turn, kind, match[0])


def _kind_of(word: str, inside: bool, shouted: bool, parts: Container[str], names: Container[str]) -> str:
    lower = word.casefold()
    capital = word[0].isupper() and inside and not shouted
    frequency = word_frequency(lower) if len(word) > 2 else 9.0
    if len(word) > 2 and (frequency < _COMMON_WORD or capital) and (lower in parts or lower in names):
        return CARRIED
    return GIVEN if lower in GIVEN_NAMES else CAPITAL if capital and frequency < _SELDOM else ""


def _suspect(turn: int, kind: str, text: str) -> Suspect:
    return Suspect(turn, kind, text[0], len(text))
