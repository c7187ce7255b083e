"""Worker ids are taken out of whatever text of crowd input leaves: answers, dead letters, pages, logs, messages.

An id is found by its form, and the worker's own id, which the record has, in any form: in either case, between letters
of other scripts, with zeros, spaces or invisible characters inside, percent-encoded, as HTML or JSON escapes,
full-width, as hexadecimal digits or base64. What cannot be parted into columns is not shown at all, see
:func:`withheld`: nobody can prove that there is no id in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from parapet.schemas.responses import DeadLetter  # which imports pyarrow: this module is read for --help, too

MASK = "[worker id]"

Span = tuple[int, int]

_LEAST = 8  # characters of an own id that is found within other words; a shorter one must stand alone
_SHORTEST = 5

# A character, plain or escaped. Escaped line ends and the like part words; NUL and invisible characters do not.
_UNIT = re.compile(
    r"%(?P<percent>[0-9a-f]{2})|&\#(?P<decimal>[0-9]{1,7});?|&\#x(?P<hex>[0-9a-f]{1,6});?|\\u(?P<u>[0-9a-f]{4})"
    r"|\\x(?P<x>[0-9a-f]{2})|(?P<space>\\[nrtbf/])|(?P<plain>.)",
    re.IGNORECASE | re.DOTALL,
)
# Only in texts with one of these is there an own id that has a digit (as nearly all have), or another one in an answer.
_UNUSUAL = re.compile(r"[^ A-Za-z.,_'?!-]|[A-Za-z]{16}")
# And an id anywhere else.
_SUSPECT = re.compile(r"[0-9%\\&]|[^\t\n\r -~]|[A-Za-z0-9+/]{16}")
_SUSPECT = re.compile(r"[^\t\n\r -~]|[%\\&]|[Aa][A-Za-z0-9]{9}")

# "A" and 9 to 20 capitals and digits: MTurk's ids of HITs and assignments have 30 and begin with a 3.
_IN_ANSWERS = re.compile(
    r"(?<![A-Za-z0-9])(?:A(?=[A-Z]{0,20}[0-9])[A-Z0-9]{9,20}"
    r"|[Aa](?=[A-Za-z]{0,20}[0-9][A-Za-z]{0,20}[0-9])[A-Za-z0-9]{11,20})(?![A-Za-z0-9])"
)
_ANYWHERE = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{0,8}?A[A-Z0-9]{9,20}|[Aa](?=[A-Za-z]{0,20}[0-9])[A-Za-z0-9]{9,20})(?![A-Za-z0-9])"
)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]+")
_INVISIBLE = frozenset({"Cf", "Mn", "Me", "Co", "Cn", "Cs"})


def redact(text: str, worker_id: str = "", is_answer: bool = False) -> str:
    """A text without worker ids.

    Args:
      text: any.
      worker_id: of the worker whose text it is; ids that a tool has doubled (``W,W``) are one.
      is_answer: whether it is what a worker wrote in a field: only what has a digit is then an id by its form, for
        people write words in capitals, too.
    """
    own = _forms_of(worker_id)
    usual = _UNUSUAL.search(text) is None
    look = bool(own) and not (usual and len(own[0]) > 11 and not own[0].isalpha())
    if not look and (usual if is_answer else _SUSPECT.search(text) is None):
        return text
    pattern = _IN_ANSWERS if is_answer else _ANYWHERE
    spans: list[Span] = []
    for plain, starts, ends in _readings(text):
        found = ((match.start(), match.end() - 1) for match in pattern.finditer(plain))
        spans += [(starts[first], ends[last]) for first, last in chain(found, _own_in(plain, own) if look else ())]
    return _masked(text, spans) if spans else text


def without_ids(letter: DeadLetter) -> DeadLetter:
    """A dead letter as it leaves: what its reason and key quote of the record has no worker ids either."""
    key, reason, shown = redact(letter.key), redact(letter.reason), redact(letter.payload)
    return msgspec.structs.replace(letter, key=key, reason=reason, payload=shown)


def has_mask(text: str) -> bool:
    """Whether a worker id was taken out of an answer, whatever became of its case since."""
    return MASK in text or MASK in text.lower()


def withheld(key: bytes, text: str | bytes) -> str:
    """What stands for a record that cannot be parted into columns.

    Args:
      key: of the workers' hashes; without it nobody can try which id would give the hash.
      text: the record.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    digest = hmac.new(key, data, hashlib.sha256).hexdigest()[:16]
    return f"[not shown, for a worker id may be anywhere in it: {len(text):,} characters, keyed hash {digest}]"


@lru_cache(maxsize=1 << 12)
def _forms_of(worker_id: str) -> tuple[str, ...]:
    """A worker's own id in lower case, and encoded; nothing where it is too short to be one."""
    own = _NOT_PLAIN.sub("", worker_id.split(",")[0])
    if len(own) < _SHORTEST:
        return ()
    if len(own) < _LEAST:
        return (own.lower(),)
    encoded = []
    for written in {own, own.lower(), own.upper()}:
        data = written.encode()
        encoded += [data.hex(), data.decode().encode("utf-16-le").hex()[:-2], written[::-1].lower()]
        for before in range(3):  # where the id begins among the groups of three bytes
            whole = base64.b64encode(bytes(before) + data).decode()
            encoded.append(_NOT_PLAIN.sub("", whole[(before * 4 + 2) // 3 : len(whole) // 4 * 4 - 4]).lower())
    return tuple(dict.fromkeys([own.lower(), *encoded]))


def _own_in(plain: str, own: tuple[str, ...]) -> Iterator[Span]:
    """(first, last) character of every form of an own id, whatever is between its letters and digits."""
    packed = _NOT_PLAIN.sub("", plain).lower()
    if not any(form in packed for form in own):
        return
    at = [i for i, c in enumerate(plain) if c.isascii() and c.isalnum()]
    for form in own:
        begin = packed.find(form)
        while begin >= 0:
            first, last = at[begin], at[begin + len(form) - 1]
            if len(form) >= _LEAST or _stands_alone(plain, first, last):
                yield first, last
            begin = packed.find(form, begin + len(form))


def _stands_alone(plain: str, first: int, last: int) -> bool:
    around = plain[first - 1 : first] + plain[last + 1 : last + 2]
    return not any(c.isascii() and c.isalnum() for c in around) and plain[first : last + 1].isalnum()


def _readings(text: str) -> Iterator[tuple[str, Sequence[int], Sequence[int]]]:
    """A text as it is, and decoded where it has escapes: its characters, and where in the text each begins and ends.

    Characters that cannot be seen are left out. What looks like an escape may be none, so that both count.
    """
    if text.isascii() and "\0" not in text:
        yield text, range(len(text)), range(1, len(text) + 1)
    else:
        yield _seen((c, i, i + 1) for i, c in enumerate(text))
    if "%" in text or "&" in text or "\\" in text:
        yield _seen((_decoded(unit), unit.start(), unit.end()) for unit in _UNIT.finditer(text))


def _decoded(unit: re.Match[str]) -> str:
    kind, written = str(unit.lastgroup), unit[str(unit.lastgroup)]
    if kind in ("plain", "space"):
        return written if kind == "plain" else " "
    code = int(written, 10 if kind == "decimal" else 16)
    return chr(code) if code < 0x110000 else " "


def _seen(characters: Iterable[tuple[str, int, int]]) -> tuple[str, list[int], list[int]]:
    plain: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for character, start, end in characters:
        for c in character if character.isascii() else unicodedata.normalize("NFKC", character):
            if c != "\0" and (c.isascii() or unicodedata.category(c) not in _INVISIBLE):
                plain.append(c)
                starts.append(start)
                ends.append(end)
    return "".join(plain), starts, ends


def _masked(text: str, spans: list[Span]) -> str:
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])
