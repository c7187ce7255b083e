"""Rewrites of user turns: their text and the positions of values in it, those that others wrote, and checks of them.

A language model may replace a turn only if its values have been located, and the gate (:func:`refusal`) passes. Each
check compares two texts and has an id, under which refusals are counted: ``copy`` (the same words, apart from
contractions), ``characters`` (an accent, an emoji or another mark is lost), ``boilerplate`` (of a language model),
``polarity`` (yes, no, not), ``facts`` (numbers, dates, names), ``roles`` (prepositions of values), ``person`` (their to
your) and ``meaning`` (another subject).

A language model writes correct English, so neither grammar nor word order is checked. Similarity is computed without
the values, which alone would make two turns similar. At ``NEAR``, 97 to 99 % of the longer forms of our rules pass on
250 turns of SGD's dev split, by either measure, and 6 to 14 % of other turns (paraphrases 83 to 100 %, short ones least
by n-grams; other turns 10 to 17 %).

Rewrite user turns with a language model behind an endpoint. Each rewriting must pass the same gate as the rules'.

A turn is sent with its values in brackets: ``Find me a bus to [Fresno].`` A model gets up to three attempts. If all are
refused, the set has the rules' version. Answers are cached in the output, so that a rerun pays for none of them again.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from parapet.schemas import limits, rows
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError, reason_and_place
from parapet.transforms.core.counts import CountKey, DeadLetter, Tally, check_bad, places_of, reasons_of
from parapet.transforms.core.inputs import read_input
from parapet.transforms.crowd.hits.dialogue_pages import find_word, marks
from parapet.transforms.perturb import corpora, edits, english, typos, user_turns
from parapet.transforms.report import meaning
from parapet.transforms.report.text import words

if TYPE_CHECKING:
    import apache_beam as beam

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from parapet.transforms.core import fence, inputs, replies
from parapet.transforms.core.chat import CHARACTERS_OF_TOKEN, Chat, Endpoint, Message
from parapet.transforms.perturb.corpora import dialogues_of

COPY = "copy"
NOT_ANSWERED = "not_answered"
RULES = "rules"  # the source if nobody else wrote the words


class Rewrite(msgspec.Struct, frozen=True):
    """A user turn in other words, or the reason why it is unchanged.

    Attributes:
      text: the new text; empty if the turn is unchanged.
      places: the new positions of its spans, in order.
      operations: the kinds of changes by rules that edit single words.
      reason: why it is unchanged: an id, and details after a colon.
      source: the source of the words.
      refused: candidates that were refused, as ``NAME: REASON``.
    """

    text: str = ""
    places: Sequence[edits.Range] = ()
    operations: Sequence[str] = ()
    reason: str = ""
    source: str = RULES
    refused: Sequence[str] = ()


def by_edits(user_turn: user_turns.UserTurn, operations: Sequence[typos.Operation]) -> Rewrite:
    """Applies edits, in order and without overlaps, to a turn."""
    places = [edits.moved(span.start, span.end, operations) for span in user_turn.spans]
    whole = [place for place in places if place is not None]
    if len(whole) < len(places):
        return Rewrite(reason="torn_span")
    return Rewrite(edits.edited(user_turn.utterance, operations), whole, [operation.kind for operation in operations])


def reworded(user_turn: user_turns.UserTurn, text: str, source: str, in_words: bool = True) -> Rewrite:
    """Finds the values of a turn in another text for it.

    Args:
      user_turn: the turn.
      text: the new text.
      source: the source of the text.
      in_words: whether a word must differ; otherwise, another letter or mark is enough.
    """
    if text == user_turn.utterance or (in_words and words(text) == words(user_turn.utterance)):
        return Rewrite(reason=COPY)
    anchors = anchors_of(user_turn)
    places, reason = placed(user_turn.utterance, anchors, text)
    if reason:
        return Rewrite(reason=reason)
    return Rewrite(text, _of_spans(user_turn, anchors, places), source=source)


def _of_spans(
    user_turn: user_turns.UserTurn, anchors: Sequence[Anchor], places: Sequence[edits.Range]
) -> list[edits.Range]:
    of_spans = []
    for span in user_turn.spans:
        i = next(i for i, anchor in enumerate(anchors) if anchor.start <= span.start and span.end <= anchor.end)
        shift = places[i][0] - anchors[i].start
        of_spans.append((span.start + shift, span.end + shift))
    return of_spans


LOST, UNCLEAR = "value_lost", "value_unclear"

_MANY = 20  # maximum occurrences of a text that are searched


class Anchor(msgspec.Struct, frozen=True, order=True):
    """A text that must be kept: characters ``start`` to ``end`` (exclusive) of the utterance.

    Overlapping spans are merged.
    """

    start: int
    end: int
    slots: tuple[str, ...]

    @property
    def range(self) -> edits.Range:
        """Returns ``(start, end)``."""
        return self.start, self.end


def anchors_of(user_turn: user_turns.UserTurn) -> list[Anchor]:
    """Returns the texts of a turn that must be kept, in order and without overlaps."""
    joined: list[Anchor] = []
    for anchor in sorted(Anchor(span.start, span.end, (span.slot,)) for span in user_turn.spans):
        if joined and anchor.start < joined[-1].end:
            last = joined.pop()
            anchor = Anchor(last.start, max(last.end, anchor.end), tuple(dict.fromkeys(last.slots + anchor.slots)))
        joined.append(anchor)
    return sorted([*joined, *_without_span(user_turn, [anchor.range for anchor in joined])])


def _without_span(user_turn: user_turns.UserTurn, taken: Sequence[edits.Range]) -> Iterator[Anchor]:
    if user_turn.turn is None:
        return
    try:
        marked = marks(user_turn.turn, user_turn.before)
    except ValueError:  # a span without visible text
        return
    spanned = {span.slot for span in user_turn.spans}
    places = list(taken)
    for mark in marked:
        # Found again, because marks have positions on a page, where white space differs.
        start = None if mark.kept.slot in spanned else find_word(user_turn.utterance, mark.kept.value, places)
        if start is not None:
            places.append((start, start + len(mark.kept.value)))
            yield Anchor(*places[-1], (mark.kept.slot,))


def placed(utterance: str, anchors: Sequence[Anchor], text: str) -> tuple[list[edits.Range], str]:
    """Finds the position of every anchor in ``text``, in the order of anchors.

    A value that occurs as often as in the utterance keeps its order of occurrence. Of more occurrences the first are
    taken, except of bare numbers, since another one may be meant.

    Returns:
      The positions and an empty string; or some of them and the reason why others are missing.
    """
    values = sorted(
        {utterance[anchor.start : anchor.end] for anchor in anchors}, key=lambda value: (-len(value), value)
    )
    before, after = occurrences(utterance, values), occurrences(text, values)
    settled: dict[Anchor, edits.Range] = {}
    for value in values:
        of_value = [anchor for anchor in anchors if utterance[anchor.start : anchor.end] == value]
        slots = ", ".join(dict.fromkeys(slot for kept in of_value for slot in kept.slots))
        places = after[value]
        if len(places) < len(of_value):
            return [], f"{LOST}: {slots}"
        if len(places) == len(before[value]) and all(kept.range in before[value] for kept in of_value):
            settled |= {kept: places[before[value].index(kept.range)] for kept in of_value}
        elif len(places) > len(of_value) and (edits.is_decisive(value) or not any(map(str.isalpha, value))):
            return [], f"{UNCLEAR}: {slots}"
        else:
            settled |= zip(of_value, places, strict=False)
    return [settled[anchor] for anchor in anchors], ""


def occurrences(text: str, values: Sequence[str]) -> dict[str, list[edits.Range]]:
    """Finds where each value occurs as separate words, in order, outside of longer values.

    Args:
      text: the text to search.
      values: distinct values, longest first.
    """
    taken: list[edits.Range] = []
    places: dict[str, list[edits.Range]] = {}
    for value in values:
        places[value] = []
        while len(places[value]) < _MANY and (start := find_word(text, value, taken)) is not None:
            taken.append((start, start + len(value)))
            places[value].append(taken[-1])
    return places


CHARACTERS, BOILERPLATE, POLARITY, FACTS = "characters", "boilerplate", "polarity", "facts"
ROLES, PERSON, MEANING = "roles", "person", "meaning"

NEAR = 0.3  # minimum similarity without values
SHORTEST = 3  # words; shorter turns have no clear meaning without context

_NEGATION = re.compile(
    r"\b(?:no|not|nope|nah|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|cant|dont|wont)\b|n['’]t\b",
    re.IGNORECASE,
)
_MAY_GO = re.compile(r"[’‘\s]")
_SHORT = re.compile(r"n['’]t\b", re.IGNORECASE)
# "No, that's all" and "not all that" both negate.
_NOT = re.compile(r"\b(?:not|cannot|cant|dont|wont)\b|n['’]t\b", re.IGNORECASE)
# Words that mean yes anywhere, and others that do as a separate sentence.
_YES = re.compile(
    r"\b(?:yes|yeah|yea|yep|yup|ok|okay|okey|alright)\b"
    r"|(?:^|[.,;!?] *)(?:sure|right|correct|exactly|absolutely|certainly|definitely|of course|agreed|all right|fine)"
    r"(?= *(?:[.,;!?]|$))"
    r"|\b(?:that|it)(?:['’]s| is) (?:right|correct)\b",
    re.IGNORECASE,
)
_BOILERPLATE = re.compile(
    r"^(?:sure|certainly|of course|absolutely)[!,.:]? +(?:here|i can|i['’]d be)\b"
    r"|^here(?:['’]s| is| are)\b.*:"
    r"|\bas an? (?:ai|artificial|(?:large )?language model|assistant)\b"
    r"|\b(?:rewritten|rephrased|reworded|paraphrased?|verbose|simplified|original) (?:version|sentence|text|turn)\b"
    r"|^(?:user|assistant|output|paraphrase|rewrite|answer|response|sentence)\s*:"
    r"|\b(?:would|do|are|did|can|could|should|shall) you (?:like|want|need|prefer|looking|interested|have in mind)\b"
    r"|\b(?:how (?:can|may) i|(?:happy|glad|here) to) (?:help|assist)\b|\blet me know (?:if|whether) you\b"
    r"|\*\*|^#|```|^[-*•] |\n"
    r"|^[\"“'‘].*[\"”'’]$",
    re.IGNORECASE,
)
# Counts as a value wherever it occurs, annotated or not.
_FACT = re.compile(
    r"\d+(?:[:.,]\d+)*"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|quarter|noon|midnight|dozen|single|double"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may(?= \d)|june|july|august|september"
    r"|october|november|december|today|tonight|tomorrow|morning|afternoon|evening|night|weekend|week|month|year"
    r"|one[- ]way|round[- ]trip|economy|business|premium|first|second|third|last|next|rooms?|bedrooms?"
    r"|cheap(?:er|est)?)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[a-z] )(?!(?:I|You)\b)[A-Z]\w+")
_ROLE = re.compile(
    r"about|above|after|around|at|before|below|between|by|for|from|in|near|on|over|since|till|to|under|until|with"
)
_STRANDED = re.compile(r"\b(about|at|for|from|in|on|to|with)(?= *(?:[.,;!?]|and\b|$))", re.IGNORECASE)
_ANIMATE = re.compile(r"\b(?:he|him|his|she|her|hers|your|yours)\b", re.IGNORECASE)
_HELP = re.compile(r"\byour(?: \w+)? (?:help|time|assistance)\b|\b(?:for|about) (?:all )?your\b", re.IGNORECASE)


def refusal(before: str, after: str, values: Sequence[str] = ()) -> str:
    """Returns the id of the first check that a text fails, or an empty string.

    Args:
      before: the original turn.
      after: the rewritten turn.
      values: texts that must keep the preposition before them, as numbers and dates must.
    """
    if english.plain_words(_SHORT.sub(" not", before)) == english.plain_words(_SHORT.sub(" not", after)):
        return COPY
    if not keeps_characters(before, after):
        return CHARACTERS
    if _BOILERPLATE.search(after) and not _BOILERPLATE.search(before):
        return BOILERPLATE
    if not same_polarity(before, after) or bool(_NOT.search(after)) != bool(_NOT.search(before)):
        return POLARITY
    if _facts(before) != _facts(after) or not {*_NAME.findall(before)} <= {*_WORD.findall(after)}:
        return FACTS
    kept = sorted({*values, *_FACT.findall(before)}, key=lambda value: (-len(value), value))
    if _roles(before, kept) != _roles(after, kept) or not _matches(_STRANDED, before) <= _matches(_WORD, after):
        return ROLES
    if not _matches(_ANIMATE, _HELP.sub("", after)) <= _matches(_ANIMATE, before):
        return PERSON
    return MEANING if len(english.plain_words(before)) < SHORTEST or not _is_near(before, after, values) else ""


def keeps_characters(before: str, after: str) -> bool:
    """Whether a text keeps the letters with accents, emoji and marks of another; ASCII and apostrophes may change."""
    return not Counter(char for char in before if not char.isascii() and not _MAY_GO.match(char)) - Counter(after)


def _is_near(before: str, after: str, values: Sequence[str]) -> bool:
    rest, rest_after = (_without(text, values) for text in (before, after))
    return not rest or meaning.similarity(rest, rest_after) >= NEAR


def _without(text: str, values: Sequence[str]) -> str:
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, " ")
    return " ".join(text.split())


def same_polarity(text: str, other: str) -> bool:
    """Whether both texts or neither negate, and both or neither say yes."""
    return denies(text) == denies(other) and affirms(text) == affirms(other)


@functools.lru_cache(4096)
def denies(text: str) -> bool:
    """Whether a text has a negation."""
    return _NEGATION.search(text) is not None


@functools.lru_cache(4096)
def affirms(text: str) -> bool:
    """Whether a text says yes."""
    return _YES.search(text) is not None


def _facts(text: str) -> Counter[str]:
    return Counter(fact.lower().replace("-", " ") for fact in _FACT.findall(text))


def _roles(text: str, values: Sequence[str]) -> Counter[tuple[str, str]]:
    """Counts how often each value follows each preposition, ignoring articles."""
    roles: Counter[tuple[str, str]] = Counter()
    for value, places in occurrences(text, values).items():
        for start, _ in places:
            words = [word for word in _WORD.findall(text[:start].lower()[-40:]) if word not in ("the", "a", "an")]
            role = words[-1] if words and _ROLE.fullmatch(words[-1]) else ""
            roles["until" if role == "till" else role, value] += 1
    return roles


def _matches(pattern: re.Pattern[str], text: str) -> set[str]:
    return set(pattern.findall(text.lower()))


REWRITTEN = "rewritten"  # the source of lines that do not name one

Key = tuple[str, int, str]  # dialogue id, turn, kind


class Line(msgspec.Struct, frozen=True):
    """A line of a file: one rewritten turn of a dialogue.

    Attributes:
      dialogue_id: the dialogue.
      turn: the position of the user's turn in it, from 0, including system turns.
      kind: one of :data:`KINDS`.
      utterance: the new text.
      source: the source of the words.
    """

    dialogue_id: str
    turn: Annotated[int, Meta(ge=0)]
    kind: str
    utterance: str
    source: str = ""

    @property
    def key(self) -> Key:
        """Returns the key, which must be unique."""
        return self.dialogue_id, self.turn, self.kind


_decode = msgspec.json.Decoder(Line).decode


def read_lines(path: str) -> Iterator[tuple[int, Line | str]]:
    """Yields (number from 1, the line or its error), skipping empty lines.

    Raises:
      InputError: the file cannot be read.
    """
    data = read_input(path, limits.MAX_DIALOGUE_FILE, "--rewritten")
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, _read(line)


def _read(line: bytes) -> Line | str:
    try:
        result = _decode(line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        return f"bad_line: {at}: {reason}" if at else f"bad_line: {reason}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"not_json: {error}"
    if result.kind not in rows.KINDS:
        return f"unknown_kind: {result.kind!r}: must be one of {', '.join(rows.KINDS)}"
    if not (text := result.utterance.strip()):
        return "no_text: the utterance is empty"
    return msgspec.structs.replace(result, utterance=text)


class Rewritten:
    """Files of rewritten turns. They are read once in each process: pickled objects do not contain the lines.

    Args:
      paths: the files; if there are several lines for a turn and kind, the first counts.
    """

    def __init__(self, paths: Iterable[object]) -> None:
        self.paths = tuple(map(str, paths))

    def __reduce__(self) -> tuple[type[Rewritten], tuple[Sequence[str]]]:
        return Rewritten, (self.paths,)

    @cached_property
    def _content(self) -> tuple[dict[Key, tuple[Line, str, str]], list[DeadLetter]]:
        """The lines by key, with file and place; and the dead letters of bad lines."""
        lines: dict[Key, tuple[Line, str, str]] = {}
        bad = []
        for path in self.paths:
            name = path.rpartition("/")[2]
            for number, line in read_lines(path):
                where = f"line {number}"
                if isinstance(line, str):
                    bad.append(DeadLetter("", "", name, "", where, line))
                elif line.key in lines:
                    reason = f"duplicate: {' '.join(lines[line.key][1:])} also has the {line.kind} of turn {line.turn}"
                    bad.append(DeadLetter("", "", name, line.dialogue_id, where, reason))
                else:
                    lines[line.key] = line, name, where
        return lines, bad

    def get(self, key: Key) -> Line | None:
        """Returns the line of a turn and kind, or None. Raises InputError if a file cannot be read."""
        entry = self._content[0].get(key)
        return entry and entry[0]

    def kinds(self) -> set[str]:
        """Returns the kinds that have lines."""
        return {kind for _, _, kind in self._content[0]}

    def total(self, kinds: Collection[str]) -> int:
        """Returns the number of bad lines, and of lines of some kinds."""
        lines, bad = self._content
        return len(bad) + sum(kind in kinds for _, _, kind in lines)

    def check(self, max_bad: Fraction) -> None:
        """Raises InputError if too many lines are bad; names the number and the first of them."""
        bad = self._content[1]
        tally = Tally("line", self.total(self.kinds()), len(bad), "--rewritten")
        check_bad([tally], max_bad, "used", reasons_of(bad), places_of(bad))

    def unused(self, kinds: Collection[str], matched: Collection[Key]) -> Iterator[tuple[str, list[DeadLetter]]]:
        """Yields (sort key, letters) of bad lines, and of lines of these kinds without a turn in the dialogues."""
        lines, bad = self._content
        reason = "no_user_turn: the dialogues that --split selects have no user turn {} of that dialogue id"
        rest = [
            DeadLetter("", "", name, line.dialogue_id, where, reason.format(line.turn))
            for key, (line, name, where) in lines.items()
            if line.kind in kinds and key not in matched
        ]
        for i, letter in enumerate([*bad, *rest]):
            yield f"\0{i:09}", [letter]


def unused_lines(
    files: beam.PCollection[DialogueFile], rewritten: Rewritten, kinds: Sequence[str]
) -> tuple[beam.PCollection, beam.PCollection]:
    """Finds the bad lines, and those without a turn in the dialogues of the files.

    Returns:
      PCollection of (sort key, letters), and of their counts.
    """
    import apache_beam as beam

    matched = files | "Turns of lines" >> beam.FlatMap(_user_turns, kinds) | "With a line" >> beam.Filter(rewritten.get)
    once = files.pipeline | "Lines" >> beam.Create([None], reshuffle=False)
    unused = beam.FlatMap(lambda _, matched: rewritten.unused(kinds, set(matched)), beam.pvalue.AsIter(matched))
    letters = once | "Unused lines" >> unused
    return letters, letters | "Count lines" >> beam.Map(lambda letter: (tuple(CountKey("bad_lines")), len(letter[1])))


def _user_turns(file: DialogueFile, kinds: Sequence[str]) -> Iterator[Key]:
    with suppress(InputError):  # the step that writes the sets reports files and dialogues that cannot be read
        for _, _, dialogue in corpora.dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            for i, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield from ((dialogue.dialogue_id, i, kind) for kind in kinds)


LLM = "llm"  # the source of its words
KINDS = ("verbose", "simple", "paraphrase")  # typos are made by rules, since they have rates
LENGTH = "length"  # reason for a chat_refusal: not as much longer or shorter as the kind requires

_TRIES = 3
_WARMER = 0.7  # temperature of later attempts, which would otherwise repeat the first
_LONGER = (1.3, 3.0)  # minimum and maximum length of a verbose turn, as a multiple of the original's
_CHAT_SHORT = 50  # characters that any verbose turn may have
_MOST_TOKENS = 200  # of an answer


class Rewriter:
    """A language model that rewrites turns. It is pickled and sent to the workers.

    Args:
      endpoint: the endpoint of the model.
      cache: the file of its answers; None for no cache.

    Attributes:
      model: its name with a digest of prompts and parameters.
    """

    provider = LLM

    def __init__(self, endpoint: Endpoint, cache: str | None = None) -> None:
        self.chat = Chat(endpoint, cache)
        content = repr((_prompts(), endpoint.parameters()))
        self.model = f"{endpoint.model},prompts={hashlib.sha256(content.encode()).hexdigest()[:8]}"
        self._is_open, self._stopped = False, ""

    def open(self) -> None:
        """Creates the client, once. Raises MissingExtra without the package ``httpx``."""
        if not self._is_open:
            self.chat.open()
            self._is_open = True

    def close(self) -> None:
        """Closes the client."""
        self.chat.close()
        self._is_open = False

    def rewrite_all(
        self, turns: Sequence[user_turns.UserTurn], kind: str, by_rules: Sequence[Rewrite]
    ) -> list[Rewrite]:
        """Rewrites turns, several at a time; see :meth:`rewrite`."""
        self.open()
        with ThreadPoolExecutor(self.chat.endpoint.parallel) as pool:
            return list(pool.map(lambda pair: self.rewrite(pair[0], kind, pair[1]), zip(turns, by_rules, strict=True)))

    def rewrite(self, user_turn: user_turns.UserTurn, kind: str, by_rules: Rewrite) -> Rewrite:
        """Returns the model's version of a turn, or the rules' version if it is not sent or all answers are refused.

        Args:
          user_turn: the turn.
          kind: the kind of variation.
          by_rules: the rules' version.
        """
        text, reason = marked(user_turn), "empty_answer"
        if not text:
            return by_rules
        for i in range(_TRIES):
            warmer = {"temperature": _WARMER, "seed": self.chat.endpoint.seed + i} if i else {}
            try:
                if self._stopped:
                    raise fence.Stopped(self._stopped)
                answer = self.chat.ask(messages_of(text, kind), max_tokens=_MOST_TOKENS, **warmer).text.strip()
            except replies.Unreadable:
                continue
            except (fence.Refused, fence.Stopped) as error:  # must be reported, even if there is a version by rules
                self._stopped = str(error) if isinstance(error, fence.Stopped) else ""
                return Rewrite(reason=f"{NOT_ANSWERED}: {error}")
            rewriting = reworded(user_turn, answer, LLM) if answer else Rewrite(reason="empty_answer")
            reason = rewriting.reason or chat_refusal(kind, user_turn.utterance, answer, values_of(user_turn))
            if not reason:
                return rewriting
        return msgspec.structs.replace(by_rules, refused=(f"{LLM}: {reason.partition(':')[0]}",))


def values_of(user_turn: user_turns.UserTurn) -> list[str]:
    """Returns the texts of a turn that must be kept."""
    return [user_turn.utterance[anchor.start : anchor.end] for anchor in anchors_of(user_turn)]


def marked(user_turn: user_turns.UserTurn) -> str:
    """Returns the turn with its values in brackets, as sent to a model; empty if it is not sent.

    A turn that contains brackets is sent without marks. Turns that consist of values, and those of one or two words,
    are not sent, since their meaning is unclear.
    """
    text, anchors = user_turn.utterance, anchors_of(user_turn)
    rest = edits.edited(text, [edits.Edit(anchor.start, anchor.end, "") for anchor in anchors])
    if user_turn.wrong or not any(map(str.isalpha, rest)) or len(_WORD.findall(text)) < SHORTEST:
        return ""
    if "[" in text or "]" in text:
        return text
    return edits.edited(
        text, [edits.Edit(anchor.start, anchor.end, f"[{text[anchor.start : anchor.end]}]") for anchor in anchors]
    )


def messages_of(text: str, kind: str) -> list[Message]:
    """Returns the conversation that requests a rewriting: the instructions, examples, and the turn."""
    prompts = _prompts()
    messages = [{"role": "system", "content": f"{prompts['system'].strip()} {prompts[kind]['task']}"}]
    for before, after in prompts[kind]["examples"]:
        messages += [{"role": "user", "content": before}, {"role": "assistant", "content": after}]
    return [*messages, {"role": "user", "content": text}]


def chat_refusal(kind: str, before: str, after: str, values: Sequence[str]) -> str:
    """Returns the id of the first check that an answer fails, or an empty string.

    Args:
      kind: the kind of variation.
      before: the turn.
      after: the answer.
      values: the values of the turn.
    """
    least, most = (round(factor * len(before)) for factor in _LONGER)
    if kind == "verbose" and not least <= len(after) <= max(most, _CHAT_SHORT):
        return LENGTH
    if kind == "simple" and len(_WORD.findall(after)) >= len(_WORD.findall(before)):
        return LENGTH
    return refusal(before, after, values)


def plan_lines(files: Iterable[DialogueFile], kinds: Sequence[str], rewriter: Rewriter) -> Iterator[str]:
    """Yields a line for each kind on what would be requested. Files that cannot be read are skipped.

    Tokens are estimated at four characters each. Refused turns are requested up to three times.
    """
    chat, texts = rewriter.chat, set[str]()
    if chat.cache and Path(chat.cache).exists():
        rewriter.open()
    for file in files:
        with suppress(InputError):
            for _, _, dialogue in dialogues_of(file):
                texts.update(() if isinstance(dialogue, InputError) else map(marked, user_turns.user_turns(dialogue)))
    texts.discard("")
    calls, sent, answered = 0, 0, 0
    for kind in kinds:
        wanted = {text for text in texts if not chat.knows(messages_of(text, kind), max_tokens=_MOST_TOKENS)}
        prompt = sum(len(message["content"]) for message in messages_of("", kind))
        into = sum(prompt + len(text) for text in wanted) // CHARACTERS_OF_TOKEN
        out = sum(map(len, wanted)) * {"verbose": 2}.get(kind, 1) // CHARACTERS_OF_TOKEN
        yield f"{kind}: {len(wanted):,} calls, about {into:,} tokens of requests and {out:,} tokens of answers"
        calls, sent, answered = calls + len(wanted), sent + into, answered + out
    endpoint = chat.endpoint
    dollars = endpoint.cost(sent, answered)
    cost = f"${dollars:,.2f} to ${_TRIES * dollars:,.2f}" if any(endpoint.dollars) else "add --price to see the cost"
    yield f"{calls:,} to {_TRIES * calls:,} calls, {cost}; dry run: nothing was sent or written"


def _prompts() -> Mapping[str, Any]:
    return inputs.read_table(__package__, "prompts.toml")
