"""The formats that simulators write: the files of bAbI dialog tasks (Bordes et al. 2017), and the SGD layout.

A line of a dialogue is ``N user<TAB>bot``, numbered from 1; a fact of the knowledge base is a line without a tab, ``N
entity relation value``. If the bot speaks twice in a row, the user's part is ``<SILENCE>``. If the user speaks twice,
as in chats between people, the bot's part is ``<SILENCE>``, which does not count as an answer and is neither learned
nor scored. A blank line ends each dialogue, including the last.

Not all published files keep to this. In task 6 some user turns are empty, the candidates end without a newline, and the
knowledge base has a space instead of the tab of tasks 1 to 5. This is accepted, and so are stray blanks around
utterances, a byte order mark, Windows line ends, and a file that ends without a blank line. Anything else that breaks
the format is an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError

SILENCE = "<SILENCE>"

# The names of the published files.
TASKS = {1: "API-calls", 2: "API-refine", 3: "options", 4: "phone-address", 5: "full-dialogs"}
SPLITS = {"train": "trn", "dev": "dev", "test": "tst", "oov": "tst-OOV"}
CANDIDATES = "dialog-babi-candidates.txt"
FACTS = "dialog-babi-kb-all.txt"

_NUMBERED = re.compile(r"([1-9][0-9]{0,8})(?: |(?=\t))(.+)", re.DOTALL)


class Fact(msgspec.Struct, frozen=True):
    """A row of the knowledge base, such as ``resto_rome_cheap_thai_2stars R_cuisine thai``."""

    entity: str
    relation: str
    value: str


class Exchange(msgspec.Struct, frozen=True):
    """An utterance of the user, or :data:`SILENCE`, and the answer of the bot."""

    user: str
    bot: str


class Unanswered(msgspec.Struct, frozen=True):
    """An utterance that the bot does not answer: the user speaks again, or the chat ends."""

    user: str


Line = Fact | Exchange | Unanswered


class BabiDialogue(msgspec.Struct, frozen=True):
    """A dialogue.

    Attributes:
      lines: the lines in order.
      line: its first line in the file, from 1.
    """

    lines: tuple[Line, ...]
    line: int = 1

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges of the dialogue, without facts and unanswered utterances."""
        return [line for line in self.lines if isinstance(line, Exchange)]

    @property
    def facts(self) -> list[Fact]:
        """The facts of the dialogue."""
        return [line for line in self.lines if isinstance(line, Fact)]


def parse_dialogues(data: bytes, path: object = "") -> Iterator[BabiDialogue]:
    """Yields the dialogues in a file's bytes.

    Raises:
      InputError: a line breaks the format; with its number. May come after some dialogues.
    """
    current: list[Line] = []
    first = 1
    for number, line in _lines(data, path):
        if not line:
            if current:
                yield BabiDialogue(tuple(current), first)
            current = []
            continue
        place, parsed = _parse(line, path, f"line {number}")
        if place == 1 and current:  # numbers that begin again at 1 also start a dialogue
            yield BabiDialogue(tuple(current), first)
            current = []
        if place != len(current) + 1:
            reason = f"is numbered {place}, but {len(current) + 1} was expected: lines may be missing"
            raise InputError(reason, path, f"line {number}")
        first = number if place == 1 else first
        current.append(parsed)
    if current:
        yield BabiDialogue(tuple(current), first)


def parse_facts(data: bytes, path: object = "") -> Iterator[Fact]:
    """Parses a knowledge base, with lines ``1 entity relation<TAB>value``, or ``1 entity relation value`` as in task 6.

    Raises:
      InputError: a line is not a fact; with the line.
    """
    for number, line in _lines(data, path):
        if line:
            where = f"line {number}"
            yield _fact(_content(line, path, where)[1], path, where)


def parse_candidates(data: bytes, path: object = "") -> list[str]:
    """Parses the candidates for the bot's answers, one per line, ``1 text``. Raises InputError with the line."""
    return [_stripped(_content(line, path, f"line {number}")[1])[0] for number, line in _lines(data, path) if line]


def _lines(data: bytes, path: object) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line) of a text; lines of blanks alone are empty."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8: save the file as UTF-8", path, f"line {number}") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if not text.strip():
        raise InputError("the file is empty", path)
    if not lines[-1].strip():
        lines.pop()
    for i, line in enumerate(lines, 1):
        yield i, line if line.strip() else ""


def _content(line: str, path: object, where: str) -> tuple[int, str]:
    if not (numbered := _NUMBERED.fullmatch(line)):
        raise InputError("does not begin with a number and a space", path, where)
    return int(numbered[1]), numbered[2]


def _stripped(content: str) -> list[str]:
    """Returns the parts between tabs, stripped; tabs at the end are ignored."""
    parts = [part.strip() for part in content.split("\t")]
    while len(parts) > 2 and not parts[-1]:
        parts.pop()
    return parts


def _fact(content: str, path: object, where: str) -> Fact:
    parts = _stripped(content)
    words = [*parts[0].split(), *parts[1:]]
    if len(words) == 3 and len(parts) <= 2 and words[2]:
        return Fact(*words)
    raise InputError("is not a fact: expected 'entity relation', a tab and a value", path, where)


def _parse(line: str, path: object, where: str) -> tuple[int, Line]:
    place, content = _content(line, path, where)
    parts = _stripped(content)
    if len(parts) == 2 and parts[1]:
        user = parts[0] or SILENCE
        return place, Unanswered(user) if parts[1] == SILENCE else Exchange(user, parts[1])
    if len(parts) > 1:
        raise InputError("must be the user's utterance, a tab, and the bot's utterance", path, where)
    words = parts[0].split()
    if len(words) != 3:
        raise InputError("has no tab, and is not a fact of three words either", path, where)
    return place, Fact(*words)


def dialogues_name(task: int, split: str, part: int = 1, parts: int = 1) -> str:
    """Returns a file name such as ``dialog-babi-task1-API-calls-trn.txt``.

    If a set has several files, the name ends with ``-00002-of-00010``.
    """
    numbered = f"-{part:05}-of-{parts:05}" if parts > 1 else ""
    return f"dialog-babi-task{task}-{TASKS[task]}-{SPLITS[split]}{numbered}.txt"


def dialogue_text(lines: Iterable[Line]) -> str:
    """Formats a dialogue with the blank line that ends it."""
    return "".join(f"{i} {_line(line)}\n" for i, line in enumerate(lines, 1)) + "\n"


def labelled_lines(lines: Iterable[Line]) -> list[tuple[str, str]]:
    """Returns (``user``, ``bot`` or ``fact``, text) for each utterance and fact of a dialogue, for reports."""
    labelled: list[tuple[str, str]] = []
    for line in lines:
        if isinstance(line, Fact):
            labelled.append(("fact", _line(line)))
        else:
            labelled.append(("user", line.user))
        if isinstance(line, Exchange):
            labelled.append(("bot", line.bot))
    return labelled


def facts_text(facts: Iterable[Fact]) -> str:
    """Formats a knowledge base; all its lines have the number 1."""
    return "".join(f"1 {fact.entity} {fact.relation}\t{fact.value}\n" for fact in facts)


def candidates_text(texts: Iterable[str]) -> str:
    """Formats a file of candidates; all its lines have the number 1."""
    return "".join(f"1 {text}\n" for text in texts)


def _line(one: Line) -> str:
    if isinstance(one, Fact):
        return f"{one.entity} {one.relation} {one.value}"
    return f"{one.user}\t{one.bot if isinstance(one, Exchange) else SILENCE}"


_GAP = re.compile(r"\{(\w+)\}")


class Sentence(msgspec.Struct, frozen=True):
    """An utterance with the spans of its values.

    Attributes:
      utterance: the text.
      spans: (slot, start, exclusive end) of each value, in order.
    """

    utterance: str
    spans: tuple[tuple[str, int, int], ...] = ()


def filled(pattern: str, values: Mapping[str, str]) -> Sentence:
    """Fills the slots of a pattern such as ``"a table in {location}, please"``.

    Raises:
      KeyError: a slot of the pattern has no value.
    """
    pieces: list[str] = []
    spans = []
    at = length = 0
    for gap in _GAP.finditer(pattern):
        slot, value = gap[1], values[gap[1]]
        length += gap.start() - at
        spans.append((slot, length, length + len(value)))
        pieces += (pattern[at : gap.start()], value)
        length += len(value)
        at = gap.end()
    return Sentence("".join((*pieces, pattern[at:])), tuple(spans))


def slots_of(pattern: str) -> list[str]:
    """Returns the slots of a pattern in order."""
    return _GAP.findall(pattern)


def joined(*lines: Sentence) -> Sentence:
    """Joins lines by spaces, and shifts their spans."""
    text = ""
    spans: list[tuple[str, int, int]] = []
    for line in lines:
        before = len(text) + 1 if text else 0
        text = f"{text} {line.utterance}" if text else line.utterance
        spans += [(slot, start + before, end + before) for slot, start, end in line.spans]
    return Sentence(text, tuple(spans))


def act(name: str, slot: str = "", *values: str, canonical: Sequence[str] | None = None) -> dict[str, Any]:
    """Creates an action of a frame; canonical values are the values unless others are given."""
    forms = values if canonical is None else canonical
    return {"act": name, "canonical_values": list(forms), "slot": slot, "values": list(values)}


def state(intent: str, values: Mapping[str, Sequence[str]], requested: Sequence[str] = ()) -> dict[str, Any]:
    """Creates the dialogue state after a user turn."""
    return {
        "active_intent": intent,
        "requested_slots": sorted(requested),
        "slot_values": {slot: list(texts) for slot, texts in sorted(values.items())},
    }


def user_turn(service: str, line: Sentence, acts: Sequence[dict[str, Any]], after: dict[str, Any]) -> dict[str, Any]:
    """Creates a turn of the user.

    Args:
      service: the service of the frame.
      line: the utterance.
      acts: actions created by :func:`act`.
      after: the :func:`state` after the turn.
    """
    frame = {"actions": list(acts), "service": service, "slots": _slots(line), "state": after}
    return {"frames": [frame], "speaker": "USER", "utterance": line.utterance}


def system_turn(
    service: str,
    line: Sentence,
    acts: Sequence[dict[str, Any]],
    call: tuple[str, Mapping[str, str]] | None = None,
    results: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Creates a turn of the system.

    Args:
      service: the service of the frame.
      line: the utterance.
      acts: actions created by :func:`act`.
      call: the intent and values of the service call before the turn; None without a call.
      results: the results of the call.
    """
    frame: dict[str, Any] = {"actions": list(acts), "service": service, "slots": _slots(line)}
    if call is not None:
        frame["service_call"] = {"method": call[0], "parameters": dict(sorted(call[1].items()))}
        frame["service_results"] = [dict(sorted(result.items())) for result in results]
    return {"frames": [frame], "speaker": "SYSTEM", "utterance": line.utterance}


def _slots(line: Sentence) -> list[dict[str, Any]]:
    return [{"exclusive_end": end, "slot": slot, "start": start} for slot, start, end in line.spans]


def schema_service(
    name: str, description: str, slots: Sequence[dict[str, Any]], intents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Creates a service of a schema, with slots and intents from :func:`schema_slot` and :func:`schema_intent`."""
    return {"service_name": name, "description": description, "slots": list(slots), "intents": list(intents)}


def schema_slot(name: str, description: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """Creates a slot of a service; with values it is categorical."""
    return {"name": name, "description": description, "is_categorical": bool(values), "possible_values": list(values)}


def schema_intent(
    name: str,
    description: str,
    required: Sequence[str],
    results: Sequence[str],
    *,
    optional: Mapping[str, str] | None = None,
    transactional: bool = False,
) -> dict[str, Any]:
    """Creates an intent of a service."""
    return {
        "name": name,
        "description": description,
        "is_transactional": transactional,
        "required_slots": list(required),
        "optional_slots": dict(optional or {}),
        "result_slots": list(results),
    }


def best_rated(names: Iterable[str], facts: Mapping[str, Mapping[str, str]], rating: str) -> str:
    """Returns the first name with the highest rating among its facts; empty without names."""

    def rated(name: str) -> float:
        try:
            return float(facts[name].get(rating, ""))
        except ValueError:
            return 0.0

    return max(names, key=rated, default="")
