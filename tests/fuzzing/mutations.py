"""Mutations of valid input: of JSON values, of texts, and of the bytes of files.

All draw from a ``random.Random``: the same seed mutates in the same way. Records stay JSON values, half surrogate
pairs, NaN and whole numbers of any size included. Values are never changed in place, so that parts can be shared.
"""

import codecs
import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

Json = Any  # a JSON value
Way = tuple[Any, ...]  # the keys and positions that lead to a part of it

# Raw in a page or a document it would be markup of a crowdworker's.
CANARY = "<img src=x onerror=fuzz()>"

CHARACTERS = [
    "\x00", "\x01", "\x07", "\x0b", "\x1b[31m", "\x7f", "\x85", "\xa0", "\xad", "\t", "\n", "\r", "\r\n",
    "\u0130", "\u0131", "\xdf", "\ufb01", "\u01c5", "\u0301", "\u200b", "\u200d", "\u200e", "\u202e", "\u2066",
    "\u2028", "\u2029", "\u3000", "\ufeff", "\ufffd", "\uffff", "\ud800", "\udfff", "\U0001f468\u200d\U0001f469",
    "\U0001f600", "\U000e0041", "\U0010ffff", "\u0661", "\u00b2", "\u0e33", "\u1112\u1161", "\u4e16", "\u05d0",
    '"', "'", "\\", "/", "`", "$", "%", "&", "{", "}", "<", ">", "|", "=", "@", "#", "_", "*", ",", ";", ":", ".",
]  # fmt: skip

TEXTS = [
    "", " ", "\n", "0", "-1", "1e400", "nan", "None", "null", "true", "dontcare", "NONE", "count", "intent", "#",
    "=cmd|' /C calc'!A0", "=HYPERLINK(1)", "@SUM(1)", "+1", "-1+1", CANARY, f"</textarea>{CANARY}", "</script>",
    "${body}", "{{x}}", "{0}", "{", "%s", "%(x)s", "]]>", "<![CDATA[", "&lt;", "&#0;", "<!--", "../../x", "/etc/passwd",
    "CON", "a/b", "a\\b", ".", "..", "\\input{x}", "| a | b |", "A1B2C3D4E5F6G7", "AQ3Z5J7KUV1ABCDEFG", "a@b.c",
    "http://x.y/z", "+1 415 555 0132", "12:30 pm", "2024-02-30", "99999999999999999999", "1/0", "[]", "{}",
    '"', "a" * 300, "x" * 20_001, "a_" * 600, "a" + "A" * 60 + "_", "@" * 600 + "a", "1" * 5_000, "word " * 400,
    "\u0301" * 400, "a,b", "<SILENCE>", "api_call", "1 hello\tworld", "v1", "original",
    "USER", "SYSTEM", "INFORM", "REQUEST",
]  # fmt: skip

ATOMS: list[Json] = [
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, 2**64, 10**30,
    -(10**30), float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], [""], {"": ""}, [[1, "a"]], {"a": [{}]},
]  # fmt: skip

MARKS = [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE]
SIGNS = [b"\n", b"\r", b"\r\n", b"\n\n", b"", b"\x0b", "\u2028".encode(), b'"', b"'", b",", b";", b"\t", b"}", b":"]
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1", "cp1252", "ascii")

ARABIC_DIGITS = {ord("0") + i: 0x660 + i for i in range(10)}
FULL_WIDTH = {i: 0xFEE0 + i for i in range(ord("!"), ord("~") + 1)}
CHANGES: list[Callable[[str], str]] = [
    *(str.lower, str.upper, str.swapcase, str.title, str.strip, lambda text: text[::-1]),
    *(lambda text: text.translate(ARABIC_DIGITS), lambda text: text.translate(FULL_WIDTH)),
    lambda text: unicodedata.normalize("NFD", text.replace("e", "\xe9")),
    lambda text: unicodedata.normalize("NFKC", text),
]


def spliced(whole: Any, pieces: Sequence[Any], rng: Random) -> Any:
    """Replaces a part of a text, of bytes or of a list, which may be empty, by nothing or by one or more of a piece."""
    i = rng.choice([0, rng.randint(0, len(whole)), rng.randint(0, len(whole)), len(whole)])
    j = rng.choice([i, i + 1, rng.randint(i, len(whole)), len(whole)])
    piece = rng.choice([rng.choice(pieces), rng.choice(pieces), 2 * whole[i:j], whole])
    least = int(i == j)
    return whole[:i] + piece * rng.choice([least, least, 1, 1, 1, 1, 2, 40]) + whole[j:]


def mutated_text(text: str, rng: Random, words: Sequence[str] = ()) -> str:
    """A text with one mutation, for which other texts of the same input may be used."""
    pieces = [rng.choice(CHARACTERS), rng.choice(TEXTS), rng.choice(words or TEXTS)]
    signs = ["", " ", *text[:100]]
    ways: list[Callable[[], str]] = [
        *[lambda: spliced(text, pieces, rng)] * 3,
        lambda: text.replace(rng.choice(signs), rng.choice(["", "  ", "\u2003", "_", *pieces])),
        lambda: rng.choice(CHANGES)(text),
    ]
    return rng.choice(ways)()[:120_000]


def mutated_bytes(data: bytes, rng: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes of a file, damaged, for which those of other files may be used."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        i = rng.randint(0, len(data))
        text = data.decode("utf-8", "replace")
        pieces = [
            *(rng.randbytes(rng.choice([1, 4, 100])), bytes(rng.choice([1, 7, 5_000]))),
            *(b"[" * rng.choice([10, 300, 100_000]), rng.choice(MARKS), text.encode("utf-16"), *others),
            *(rng.choice(table).encode("utf-8", "surrogatepass") for table in (CHARACTERS, TEXTS)),
        ]
        ways: list[Callable[[bytes], bytes]] = [
            *[lambda data, i=i: data[:i] + rng.randbytes(1) + data[i + 1 :]] * 2,
            *[lambda data, pieces=pieces: spliced(data, pieces, rng)] * 3,
            lambda data: data.replace(rng.choice(SIGNS), rng.choice(SIGNS)),
            lambda data, text=text: text.encode(rng.choice(ENCODINGS), "replace"),
        ]
        data = rng.choice(ways)(data)[:4_000_000]
    return data


def parts(value: Json) -> Iterator[Way]:
    """The ways to all parts of a value, the whole first."""
    waiting: list[tuple[Way, Json]] = [((), value)]
    while waiting:
        way, value = waiting.pop()
        yield way
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [((*way, key), part) for key, part in items]


def at(value: Json, way: Way) -> Json:
    """The part of a value that a way leads to."""
    for step in way:
        value = value[step]
    return value


def put(value: Json, way: Way, part: Json) -> Json:
    """A value with another part in that place."""
    if not way:
        return part
    value = value.copy()
    value[way[0]] = put(value[way[0]], way[1:], part)
    return value


def everywhere(value: Json, change: Callable[[str], str]) -> Json:
    """A value with all of its texts changed, the same ones in the same way, so that names still fit each other."""
    if isinstance(value, dict):
        return {change(key): everywhere(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [everywhere(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def _atom(rng: Random) -> Json:
    atom = rng.choice([rng.choice(ATOMS), rng.choice(TEXTS)])
    for _ in range(rng.choice([5, 60, 70, 250, 300]) if rng.random() < 0.05 else 0):
        atom = rng.choice([[atom], {"a": atom}])
    return atom


def _altered(value: Json, rng: Random, words: Sequence[str]) -> Json:
    """A value that is much like it: a text with a mutation, a list with other elements, an object with other keys."""
    if isinstance(value, str):
        return mutated_text(value, rng, words)
    if isinstance(value, list):
        return spliced(value, [[_atom(rng)], value[::-1], rng.sample(value, len(value))], rng)
    if isinstance(value, dict):
        old = rng.choice([*value, ""])
        new = mutated_text(old, rng, words)
        ways = [
            [(new if key == old else key, part) for key, part in value.items()],
            spliced(list(value.items()), [[(new, value.get(old))], [(rng.choice([*TEXTS, *words]), _atom(rng))]], rng),
        ]
        return dict(rng.choice(ways))
    if isinstance(value, int | float):
        return rng.choice([value + 1, value - 1, -value, value * 10**6, float(value), str(value), [value]])
    return _atom(rng)


def mutated(record: Json, rng: Random, donors: Sequence[Json] = ()) -> Json:
    """A record with one to four mutations: the structure, the types, the texts and what fits to what.

    Args:
      record: a JSON value; it is left as it is.
      rng: draws them.
      donors: other records, parts of which may take the place of its own.
    """
    try:
        value = record
        for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
            value = _mutated_once(value, rng, [value, *donors])
        json.dumps(value)
    except (RecursionError, OverflowError):  # too deep for us; bytes go deeper, see mutated_bytes
        return _atom(rng)
    return value


def _mutated_once(value: Json, rng: Random, donors: Sequence[Json]) -> Json:
    ways = list(parts(value))
    words = [text for way in ways for text in (*way[-1:], at(value, way)) if isinstance(text, str)]
    if words and rng.random() < 0.1:
        old = rng.choice(words)
        new = mutated_text(old, rng, words)
        changes = (str.lower, str.strip, lambda text: unicodedata.normalize("NFD", text))
        return everywhere(value, rng.choice([*changes, *[lambda text: new if text == old else text] * 2]))
    # Deep parts are many: every other time a part is drawn by its depth.
    depth = rng.choice(sorted({len(way) for way in ways}))
    way = rng.choice(rng.choice([ways, [way for way in ways if len(way) == depth]]))
    if rng.random() < 0.7:
        return put(value, way, _altered(at(value, way), rng, words))
    donor = rng.choice(donors)
    alike = [other for other in parts(donor) if other[-1:] == way[-1:]]
    return put(value, way, rng.choice([_atom(rng), at(donor, rng.choice(alike or [()]))]))


def reformatted(data: bytes, rng: Random) -> bytes:
    """Other JSON of the same value, or with keys that stand twice in some objects."""
    text = json.dumps(
        json.loads(data),
        ensure_ascii=rng.random() < 0.5,
        indent=rng.choice([None, 0, 4]),
        separators=rng.choice([None, (",", ":")]),
    )
    twice = text.replace('{"', '{"turns": [], "dialogue_id": 3, "', rng.randrange(3))
    return rng.choice([text, twice]).encode("utf-8", "surrogatepass")
