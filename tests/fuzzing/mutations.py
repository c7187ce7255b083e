"""Mutations of valid input: of records as JSON values, of the text of files, and of their bytes.

All are functions of a ``random.Random``: the same seed mutates in the same way. Records stay JSON values, half
surrogate pairs, NaN and whole numbers of any size included, so that a finding can be kept as a seed.
"""

import codecs
import copy
import json
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
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

DEPTHS = [5, 60, 70, 250, 300]

ATOMS: list[Json] = [
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, 2**64, 10**30,
    -(10**30), float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], [""], {"": ""}, [[1, "a"]], {"a": [{}]},
]  # fmt: skip


def parts(value: Json, way: Way = ()) -> list[Way]:
    """The ways to all parts of a value, the whole first."""
    ways, waiting = [], [(way, value)]
    while waiting:
        way, value = waiting.pop()
        ways.append(way)
        if isinstance(value, dict):
            waiting += [((*way, key), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [((*way, i), one) for i, one in enumerate(value)]
    return ways


def at(value: Json, way: Way) -> Json:
    """The part of a value that a way leads to."""
    for step in way:
        value = value[step]
    return value


def nested(depth: int, rng: Random, inside: Json = "x") -> Json:
    """Lists and objects within each other."""
    for _ in range(depth):
        inside = [inside] if rng.random() < 0.5 else {"a": inside}
    return inside


def _atom(rng: Random) -> Json:
    chance = rng.random()
    if chance < 0.5:
        return copy.deepcopy(rng.choice(ATOMS))
    if chance < 0.95:
        return rng.choice(TEXTS)
    return nested(rng.choice(DEPTHS), rng)


def mutated_text(text: str, rng: Random, words: Sequence[str] = ()) -> str:
    """A text with one mutation.

    Args:
      text: the text.
      rng: draws it.
      words: other texts of the same input, which may take its place.
    """
    i, j = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    one = rng.choice(CHARACTERS)
    ways: list[Callable[[], str]] = [
        lambda: text.lower(),
        lambda: text.upper(),
        lambda: text.swapcase(),
        lambda: text.title(),
        lambda: unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), text.replace("e", "\xe9")),
        lambda: text[:i] + one + text[i:],
        lambda: text[:i] + one * rng.randrange(2, 50) + text[i:],
        lambda: text[:i] + rng.choice(TEXTS) + text[i:],
        lambda: text[:i] + text[j:],
        lambda: text[:i] + text[i:j] * 3 + text[j:],
        lambda: text[i:j],
        lambda: text[::-1],
        lambda: text.replace(" ", rng.choice(["", "  ", "\xa0", "\n", "\t", "\u2003", "_", "-"])),
        lambda: one.join(text),
        lambda: f" {text} ",
        lambda: text * rng.choice([2, 3, 40]),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(words) if words else "",
        lambda: rng.choice(words) + text if words else text + text,
        lambda: "".join(chr(0x660 + int(c)) if c.isascii() and c.isdigit() else c for c in text),
        lambda: "".join(chr(0xFEE0 + ord(c)) if "!" <= c <= "~" else c for c in text),  # full width
    ]
    return rng.choice(ways)()[:120_000]


def _mutated_number(number: float, rng: Random) -> Json:
    ways = [number + 1, number - 1, -number, number * 2, number * 10**6, float(number), str(number), [number]]
    return rng.choice([*ways, *rng.choices(ATOMS, k=3)])


def _key(found: dict[str, Json], rng: Random, words: Sequence[str]) -> None:
    """Renames a key, keeps it besides, or adds a strange one."""
    if not found or rng.random() < 0.2:
        found[rng.choice([*TEXTS[:60], *words[:200]])] = _atom(rng)
        return
    key = rng.choice(list(found))
    value = found[key] if rng.random() < 0.3 else found.pop(key)
    found[mutated_text(key, rng, [*found, *words[:200]])] = value


def _list(found: list[Json], rng: Random) -> None:
    """Other lengths and orders."""
    way = rng.randrange(7)
    if way == 0:
        found.reverse()
    elif way == 1:
        rng.shuffle(found)
    elif way == 2:
        found.clear()
    elif way == 3 and found:
        found.insert(rng.randrange(len(found) + 1), copy.deepcopy(rng.choice(found)))
    elif way == 4 and found:
        found.extend(copy.deepcopy(found[: 20 // len(found) + 1]))
    elif way == 5 and found:
        del found[rng.randrange(len(found)) :]
    else:
        found.insert(rng.randrange(len(found) + 1), _atom(rng))


def strings(value: Json) -> list[str]:
    """All texts of a value, those of keys too."""
    found: list[str] = []
    for way in parts(value):
        here = at(value, way)
        if isinstance(here, str):
            found.append(here)
        elif isinstance(here, dict):
            found += here
    return found


def _everywhere(value: Json, change: Callable[[str], str]) -> Json:
    """A value with all of its texts changed, keys excepted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _everywhere(one, change) for key, one in value.items()}
    return [_everywhere(one, change) for one in value] if isinstance(value, list) else value


def _spread(value: Json, rng: Random) -> Json:
    """One change in every text, or of every place where one text stands: names that still fit each other."""
    way = rng.randrange(6)
    if way < 4:
        return _everywhere(
            value, [str.lower, str.upper, lambda text: unicodedata.normalize("NFD", text), str.strip][way]
        )
    texts = [text for text in strings(value) if text]
    if not texts:
        return value
    old = rng.choice(texts)
    return _renamed(value, old, mutated_text(old, rng, texts))


def _renamed(value: Json, old: str, new: str) -> Json:
    if isinstance(value, dict):
        return {(new if key == old else key): _renamed(one, old, new) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, old, new) for one in value]
    return new if value == old and isinstance(value, str) else value


def mutated(record: Json, rng: Random, donors: Sequence[Json] = (), times: int = 0) -> Json:
    """A record with some mutations: the structure, the types, the texts and what fits to what.

    Args:
      record: a JSON value; it is left as it is.
      rng: draws them.
      donors: other records, parts of which may take the place of its own.
      times: how many; 0: one to four.
    """
    value = copy.deepcopy(record)
    words = strings(record)
    try:
        for _ in range(times or rng.choice([1, 1, 1, 2, 2, 3, 4])):
            value = _mutated_once(value, rng, donors, words)
        json.dumps(value)
    except RecursionError:  # too deep for us; bytes go deeper, see mutated_bytes
        return nested(200, rng)
    return value


def _mutated_once(value: Json, rng: Random, donors: Sequence[Json], words: Sequence[str]) -> Json:
    if rng.random() < 0.08:
        return _spread(value, rng)
    ways = parts(value)
    # Deep parts are many: every other time a part is drawn by its depth.
    way = rng.choice(ways)
    if rng.random() < 0.5:
        depth = rng.choice(sorted({len(one) for one in ways}))
        way = rng.choice([one for one in ways if len(one) == depth])
    here = at(value, way)
    chance = rng.random()
    if chance < 0.55:
        if isinstance(here, dict):
            _key(here, rng, words)
            return value
        if isinstance(here, list):
            _list(here, rng)
            return value
        if isinstance(here, str):
            return _put(value, way, mutated_text(here, rng, words))
        if isinstance(here, int | float) and not isinstance(here, bool):
            return _put(value, way, _mutated_number(here, rng))
    if chance < 0.7 and way:
        parent = at(value, way[:-1])
        del parent[way[-1]]
        return value
    if chance < 0.8:
        other = rng.choice(ways)
        if other[: len(way)] != way and way[: len(other)] != other:  # neither is inside the other
            mine, theirs = copy.deepcopy(here), copy.deepcopy(at(value, other))
            value = _put(value, way, theirs)
            if rng.random() < 0.5:
                with suppress(TypeError, LookupError):  # a part that stands twice is one object, and has just changed
                    return _put(value, other, mine)
            return value
    if chance < 0.9 and donors:
        donor = rng.choice(donors)
        alike = [one for one in parts(donor) if one and way and one[-1] == way[-1]] or parts(donor)
        return _put(value, way, copy.deepcopy(at(donor, rng.choice(alike))))
    return _put(value, way, _atom(rng))


def _put(value: Json, way: Way, part: Json) -> Json:
    if not way:
        return part
    at(value, way[:-1])[way[-1]] = part
    return value


def json_text(value: Json, rng: Random | None = None) -> str:
    """A value as JSON, in ASCII; with a random, now and then other texts of the same or nearly the same value."""
    text = json.dumps(value)
    if rng is None or rng.random() < 0.9:
        return text
    i = text.find("{", rng.randrange(len(text)))
    ways = [
        json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode(),
        json.dumps(value, indent=rng.choice([0, 1, 4])),
        text.replace(", ", ",").replace(": ", ":"),
        text
        if i < 0
        else f'{text[: i + 1]}"turns": [], "dialogue_id": 3{"" if text[i + 1] == "}" else ", "}{text[i + 1 :]}',
    ]
    chosen = rng.choice(ways)
    try:
        json.loads(chosen)
    except ValueError:  # the bracket was one of a text
        return text
    return chosen


def mutated_bytes(data: bytes, rng: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes of a file, damaged.

    Args:
      data: the file.
      rng: draws the damage.
      others: other files, of which some may be put behind it.
    """
    for _ in range(rng.choice([1, 1, 2, 3])):
        data = _damaged_once(data, rng, others)[:4_000_000]
    return data


def _damaged_once(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    i, j = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    marks = [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE]
    ends = [b"\r", b"\r\n", b"\n\n", b"", b"\x0b", "\u2028".encode()]
    signs = [(b'"', b""), (b'"', b"'"), (b",", b";"), (b",", b"\t"), (b"}", b""), (b":", b"")]
    ways: list[Callable[[], bytes]] = [
        lambda: data[:i],
        lambda: data[i:],
        lambda: data[:i] + data[j:],
        lambda: data[:j] + data[i:],
        lambda: data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :],
        lambda: data[:i] + bytes(one ^ (1 << rng.randrange(8)) for one in data[i : i + 1]) + data[i + 1 :],
        lambda: data[:i] + rng.randbytes(rng.choice([1, 4, 100])) + data[i:],
        lambda: data[:i] + bytes(rng.choice([1, 7, 5_000])) + data[i:],
        lambda: data[:i] + rng.choice(CHARACTERS).encode("utf-8", "surrogatepass") + data[i:],
        lambda: data[:i] + rng.choice(TEXTS).encode() + data[i:],
        lambda: data.replace(b"\n", rng.choice(ends)),
        lambda: data.replace(*rng.choice(signs)),
        lambda: rng.choice(marks) + data,
        lambda: data.decode("utf-8", "replace").encode(rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-7"])),
        lambda: data.decode("utf-8", "replace").encode(rng.choice(["latin-1", "cp1252", "ascii"]), "replace"),
        lambda: data + (rng.choice(others) if others else data),
        lambda: data + data.decode("utf-8", "replace").encode("utf-16"),
        lambda: b"",
        lambda: b"[" * rng.choice([10, 300, 100_000]) + data,
    ]
    return rng.choice(ways)()


def mutated_rows(
    header: Sequence[str], rows: Sequence[Sequence[str]], rng: Random
) -> tuple[list[str], list[list[str]]]:
    """A table with a column missing, renamed, twice, elsewhere, or two exchanged."""
    columns = list(range(len(header)))
    names = list(header)
    i, j = rng.randrange(len(columns)), rng.randrange(len(columns))
    way = rng.randrange(6)
    if way == 0:
        del columns[i]
    elif way == 1:
        names[i] = mutated_text(names[i], rng, names)
    elif way == 2:
        columns.insert(j, i)
    elif way == 3:
        rng.shuffle(columns)
    elif way == 4:
        names[i], names[j] = names[j], names[i]
    else:
        columns.reverse()
    return [names[i] for i in columns], [[row[i] for i in columns if i < len(row)] for row in rows]
