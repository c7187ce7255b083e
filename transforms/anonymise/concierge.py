"""A set to learn from, made of anonymised chats as Concierge is in Bordes et al. 2017 (section 3.3, Table 1).

Splits by dialogue, what the operator says in any of them as candidates, and the figures of Table 1. The set is held in
memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import SILENCE, SPLITS, Exchange, Fact, Line, candidates_text, dialogue_text
from parapet.transforms.counts import Counts
from parapet.transforms.files import write_staged
from parapet.transforms.report import Table
from parapet.transforms.runs import FileResult
from parapet.transforms.seeding import stable_digest
from parapet.transforms.text import counted

FOLDER = "concierge"
NAMES = ("train", "dev", "test")


class SplitConfig(msgspec.Struct, frozen=True):
    """How chats are split.

    Attributes:
      sizes: of train, dev and test: numbers of chats, or shares.
      seed: of which chat is where.
    """

    sizes: tuple[float, ...]
    seed: str

    @property
    def shares(self) -> bool:
        """Whether sizes are shares."""
        return sum(self.sizes) < 2


class SetDialogue(NamedTuple):
    """A chat of the set: the number of its file and its own in it, and its lines."""

    file: int
    number: int
    lines: tuple[Line, ...]


def parse_splits(text: str, seed: str) -> SplitConfig:
    """The sizes of a flag, ``0.8,0.1,0.1`` or ``3249,403,402``. Raises InputError."""
    try:
        sizes = tuple(float(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    whole = all(size == int(size) for size in sizes if abs(size) < 1e9)
    if len(sizes) != len(NAMES) or not all(0 <= size < 1e9 for size in sizes) or not sizes[0]:
        raise InputError(f"{text!r}: give train,dev,test as 0.8,0.1,0.1 or as numbers of chats", "--splits")
    if abs(sum(sizes) - 1) > 1e-9 and not (whole and sum(sizes) >= 2):
        raise InputError(f"{text!r}: the shares make {sum(sizes):g}, not 1", "--splits")
    return SplitConfig(sizes, seed)


def split_of(dialogues: Sequence[str], config: SplitConfig) -> list[int]:
    """The split of each dialogue, 0 to 2: those with the same text are in the same one.

    Raises:
      InputError: there are fewer dialogues than the splits are to have, or one of these would have none.
    """
    total = len(dialogues)
    if not config.shares and sum(config.sizes) != total:
        wanted = counted(int(sum(config.sizes)), "chat")
        raise InputError(f"--splits are {wanted}, and there are {total:,} with an answer of the operator")
    ends = list(accumulate(size * total if config.shares else size for size in config.sizes))[:-1]
    sizes = Counter(dialogues)
    found: dict[str, int] = {}
    before = 0
    for text in sorted(sizes, key=lambda text: stable_digest(config.seed, text)):
        found[text] = bisect_right([round(end) for end in ends], before)
        before += sizes[text]
    empty = [name for i, name in enumerate(NAMES) if config.sizes[i] and i not in found.values()]
    if empty:
        raise InputError(f"there are too few different chats for a split {empty[0]}: {len(found):,}")
    return [found[text] for text in dialogues]


def write_set(dialogues: Iterable[SetDialogue], output: str, config: SplitConfig) -> FileResult:
    """Writes splits and candidates into staging, and counts what Table 1 has.

    Args:
      dialogues: in any order.
      output: the output folder.
      config: how they are split.

    Raises:
      InputError: see :func:`split_of`.
    """
    ordered = sorted(dialogues, key=lambda one: one[:2])
    result = FileResult(FOLDER)
    counts = result.counts
    texts = [dialogue_text(one.lines) for one in ordered]
    places = split_of(texts, config)
    words: set[str] = set()
    candidates: dict[str, None] = {}
    for one, place in zip(ordered, places, strict=True):
        counts.add("set_dialogues", split=NAMES[place])
        for line in one.lines:
            if isinstance(line, Fact):
                continue
            words.update(line.user.split())
            counts.add("set_user", int(line.user != SILENCE))
            if isinstance(line, Exchange):
                words.update(line.bot.split())
                counts.add("set_bot")
                candidates[line.bot] = None
    counts.add("set_vocabulary", len(words - {SILENCE}))
    counts.add("set_candidates", len(candidates))
    files = {
        f"dialog-concierge-{SPLITS[name]}.txt": "".join(text for text, at in zip(texts, places, strict=True) if at == i)
        for i, name in enumerate(NAMES)
    }
    files["dialog-concierge-candidates.txt"] = candidates_text(sorted(candidates))
    result.written = [
        write_staged(output, f"{FOLDER}/{name}", text.encode()) for name, text in sorted(files.items()) if text
    ]
    return result


def set_statistics(counts: Counts) -> dict[str, Any]:
    """What ``statistics.json`` has of the set: the figures of Table 1."""
    dialogues = {name: counts.sum("set_dialogues", split=name) for name in NAMES}
    total = max(1, sum(dialogues.values()))
    user, bot = counts.sum("set_user") / total, counts.sum("set_bot") / total
    return {
        "dialogues": dialogues,
        "utterances": user + bot,
        "user_utterances": user,
        "bot_utterances": bot,
        "vocabulary": counts.sum("set_vocabulary"),
        "candidates": counts.sum("set_candidates"),
    }


def table_of(numbers: Mapping[str, Any]) -> Table:
    """The figures beside those of the paper."""
    dialogues = numbers["dialogues"]
    rows = [
        ["utterances per chat", f"{numbers['utterances']:.1f}", "8"],
        ["of users", f"{numbers['user_utterances']:.1f}", "4"],
        ["of operators", f"{numbers['bot_utterances']:.1f}", "4"],
        ["vocabulary size", f"{numbers['vocabulary']:,}", "8,629"],
        ["candidate set size", f"{numbers['candidates']:,}", "11,482"],
        *([f"{name} chats", f"{dialogues[name]:,}", paper] for name, paper in zip(NAMES, PAPER, strict=True)),
    ]
    note = "As Table 1 of Bordes et al. 2017 has them. Silences are no utterances; candidates are what operators say."
    return Table(title="The set", note=note, columns=["", "here", "the paper's Concierge"], rows=rows)


PAPER = ("3,249", "403", "402")
