"""A simpler turn: what its dialogue acts and spans say is kept, fillers and politeness go (RADDLE, section 4).

Two ways. Where acts alone say all that a turn says (a yes, a no, thanks), it becomes one word or two. Else sentences
lose what they may begin with and need not, and what is polite inside. Only where a rule is sure: words that carry a
value are never touched, and a turn to which no rule applies stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from parapet.transforms.perturb.edits import edited
from parapet.transforms.perturb.protected import Range, Ranges
from parapet.transforms.perturb.typos import Operation
from parapet.transforms.user_turns import UserTurn
from parapet.transforms.variations import simple_rules as rules

_BETWEEN = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_YES_ACTS = frozenset({"AFFIRM", "AFFIRM_INTENT", "SELECT"})
_NO_ACTS = frozenset({"NEGATE", "NEGATE_INTENT"})
_END_ACTS = frozenset({"THANK_YOU", "GOODBYE"})


def simple_operations(user_turn: UserTurn) -> tuple[list[Operation], str]:
    """What makes a turn shorter, in order; where there is nothing, the reason."""
    if not any(map(str.isalpha, user_turn.utterance)):
        return [], "no_word"
    operations = _by_acts(user_turn) or _by_sentences(user_turn)
    if not operations:
        return [], "no_rule"
    new = edited(user_turn.utterance, operations)
    if len(new) >= len(user_turn.utterance) or not any(map(str.isalnum, new)):
        return [], "not_shorter"
    return operations, ""


def _by_acts(user_turn: UserTurn) -> list[Operation]:
    """The whole turn as its acts have it, where they are a yes, a no or thanks and nothing else."""
    text, acts = user_turn.utterance, user_turn.acts
    if not acts or not text.replace("’", "'").isascii() or user_turn.protected() or rules.OBJECTING.search(text):
        return []
    end = _end(text, acts)
    if "GOODBYE" in acts and not end:
        return []  # it takes leave in words that we do not know
    if acts <= _YES_ACTS | {"GOODBYE"} and not rules.NEGATED.search(text):
        first = rules.YES.match(text) or (rules.PLEASED.match(text) if "SELECT" in acts else None)
        return _cut(text, first, end) or _pleasant(text, end)
    if acts & _NO_ACTS and acts <= _NO_ACTS | _END_ACTS:
        return _cut(text, rules.NO.match(text), end or (", thanks" if "THANK_YOU" in acts else ""))
    if acts <= _END_ACTS and end.startswith(", thanks"):
        return _whole(text, f"Thanks{end.removeprefix(', thanks')}.")
    return []


def _end(text: str, acts: frozenset[str]) -> str:
    """How a turn ends that thanks or takes leave by its acts, in fewer words."""
    thanks = ", thanks" if acts & _END_ACTS and rules.THANKS.search(text) else ""
    if "GOODBYE" not in acts:
        return thanks
    leave = ", bye" if rules.BYE.search(text) else ", that's all" if rules.ALL.search(text) else ""
    # Words that are neither thanks nor a known farewell may be one: they stay.
    return thanks + leave if leave or rules.THANKING.match(text) else ""


def _whole(text: str, new: str) -> list[Operation]:
    return [Operation(0, len(text), new, "by_acts", text)] if len(new) < len(text) else []


def _cut(text: str, first: re.Match[str] | None, more: str) -> list[Operation]:
    """The first word, and what is to stand behind it."""
    if first is None or len(text) <= first.end() + len(more) + 1:
        return []
    return [Operation(first.end(), len(text), f"{more}.", "by_acts", text[first.end() :])]


def _pleasant(text: str, more: str) -> list[Operation]:
    found = rules.PLEASANT.match(text)
    word = found[1].capitalize() if found else ""
    return _whole(text, f"{word}{more}.") if found else []


def _sentences(text: str, kept: Ranges) -> list[Range]:
    ends = [found.start() for found in _BETWEEN.finditer(text) if not kept.overlap(found.start(), found.start())]
    starts = [0, *(_after_blanks(text, end) for end in ends)]
    return list(zip(starts, [*ends, len(text.rstrip())], strict=True))


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _by_sentences(user_turn: UserTurn) -> list[Operation]:
    text, kept = user_turn.utterance, Ranges(user_turn.protected())
    sentences = _sentences(text, kept)
    droppable = [one for one in sentences if _may_drop(user_turn, *one, kept)]
    dropped = set(droppable[1:] if len(droppable) == len(sentences) else droppable)
    operations: list[Operation] = []
    for i, (start, end) in enumerate(sentences):
        if (start, end) in dropped:
            # With the blanks to its neighbour.
            last = i + 1 == len(sentences)
            start = len(text[:start].rstrip()) if last else start
            end = end if last else sentences[i + 1][0]
            operations.append(Operation(start, end, "", "dropped_sentence", text[start:end]))
        else:
            operations += _in_sentence(user_turn, start, end, kept)
    return _apart(operations)


def _apart(operations: Sequence[Operation]) -> list[Operation]:
    """In order, without those that reach into the one before: two dropped sentences may share their blanks."""
    found: list[Operation] = []
    for one in sorted(operations):
        if not found or found[-1].end <= one.start:
            found.append(one)
    return found


def _may_drop(user_turn: UserTurn, start: int, end: int, kept: Ranges) -> bool:
    if kept.touch(start, end):
        return False
    sentence = user_turn.utterance[start:end]
    thanks = not user_turn.acts & _END_ACTS and rules.THANKING.match(sentence)
    return bool(thanks) or any(pattern.match(sentence) for _, pattern in rules.DROPPED)


def _in_sentence(user_turn: UserTurn, start: int, end: int, kept: Ranges) -> Iterator[Operation]:
    text = user_turn.utterance
    if user_turn.acts & _YES_ACTS and not kept.touch(start, end) and end < len(text.rstrip()):
        yes = rules.YES.match(text, start, end)
        rest = text[yes.end() : end].lstrip(" ,") if yes else ""
        if yes and rules.PLEASANT.match(rest) and not rules.OBJECTING.search(rest) and not rules.NEGATED.search(rest):
            yield Operation(yes.end(), end, ".", "by_acts", text[yes.end() : end])
            return
    first, asked, kind = _led(text, start, end, kept)
    if first > start:
        yield Operation(start, first, "", kind, text[start:first])
        if text[start].isupper() and "a" <= text[first] <= "z" and not kept.touch(first, first + 1):
            yield Operation(first, first + 1, text[first].upper(), "capital", text[first])
    else:
        first = start
    taken = _inner(text, first + 1, end, kept)
    yield from taken
    if asked and text[end - 1] == "?" and all(one.end < end for one in taken):
        yield Operation(end - 1, end, ".", "full_stop", "?")


def _led(text: str, start: int, end: int, kept: Ranges) -> tuple[int, bool, str]:
    """Where a sentence can begin; whether a question is none then; the kind of the last rule that was applied."""
    at, asked, last = start, False, ""
    for kind, pattern in rules.LEADING:
        found = pattern.match(text, at, end)
        if found is None or kept.overlap(*found.span()):
            continue
        rest = text[found.end() : end]
        if kind == "name" and not (rules.PHRASE.match(f" {rest}") and not rules.LOOSE_END.search(rest)):
            continue
        if kind == "ask":
            if rest.count("?") + rest.count(" and ") > 1:
                continue
            asked = True
        at, last = found.end(), kind
        if kind in ("name", "ask", "wish"):
            break
    return at, asked, last


def _inner(text: str, start: int, end: int, kept: Ranges) -> list[Operation]:
    found: list[Operation] = []
    taken = Ranges()

    def add(match: re.Match[str], new: str, kind: str) -> None:
        # A blank beside a value may go with what follows it; the value itself may not be reached.
        if kept.overlap(*match.span()) or taken.overlap(*match.span()):
            return
        taken.add(*match.span())
        found.append(Operation(match.start(), match.end(), new, kind, match[0]))

    for kind, pattern in rules.INNER:
        for match in pattern.finditer(text, start, end):
            add(match, "." if match[0].endswith("?") else "", kind)
    for pattern, new in rules.CONTRACTED:
        for match in pattern.finditer(text, max(start - 1, 0), end):
            before = match[0]
            after = new or f"{before[:-3]}'s"
            add(match, after[0].upper() + after[1:] if before[0].isupper() else after, "contraction")
    return sorted(found)
