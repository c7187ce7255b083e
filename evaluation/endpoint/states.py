"""A language model as a tracker of dialogue states: makes requests, and parses answers and spells their values.

``tools``: the service is a function that the model calls, with the slots as parameters. ``json``: structured output
with a JSON Schema. ``text``: lines of ``SLOT = VALUE``, for models that support neither.

Metrics compare texts, but models write "17:30" for "half past 5 in the evening". If the match is certain, a model's
value is replaced by the allowed value of a categorical slot with another spelling, or by the words of the dialogue with
the same time, date or letters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, get_args

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.asking import Asked, Asker, Prompt, Question
from parapet.schemas.service import Service, Slot
from parapet.transforms.core.chat import Chat
from parapet.transforms.core.replies import Reply, Unreadable, object_in, own_name

Style = Literal["tools", "json", "text"]
STYLES: tuple[Style, ...] = get_args(Style)

INTENT, REQUESTED = "active_intent", "requested_slots"
UNPARSED = "an answer that could not be read"  # a value that no dialogue has, so the frame counts as wrong

_MOST_REQUESTED = 6
_NOTHING = frozenset({"", "none", "null", "n/a", "unknown", "not specified", "not mentioned", "unspecified"})
_LINE = re.compile(r"^\W*(?P<name>[\w .-]+?)\W*\s*[=:]\s*(?P<value>.*?)\s*$")
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def request(example: Example, style: Style, prompt: Prompt) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Makes the messages, and further parameters of the API."""
    service, parameters = example.service, dict[str, Any]()
    schema = json_schema(service, whole=style == "json")
    if style == "tools":
        name = function_name(service)
        function = {"name": name, "description": service.description, "parameters": schema}
        parameters["tools"] = [{"type": "function", "function": function}]
        parameters["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif style == "json":
        parameters["response_format"] = {"type": "json_schema", "json_schema": {"name": "state", "schema": schema}}
    return prompt.messages(service=service, style=style, history=example.history), parameters


def function_name(service: Service) -> str:
    """Makes the service's name a valid function name: up to 64 letters, digits, underscores and hyphens."""
    return _NAME.sub("_", service.service_name)[:64]


def json_schema(service: Service, whole: bool) -> dict[str, Any]:
    """Makes the JSON Schema of a state: intent, requested slots, and a property for each slot.

    Args:
      service: the service.
      whole: whether every slot is required, with an empty text for no value, as small models omit whatever is optional.
    """
    slots: dict[str, Any] = {}
    for slot in service.slots:
        slots[slot.name] = {"type": "string", "description": slot.description}
        if slot.is_categorical and slot.possible_values:
            slots[slot.name]["enum"] = [*dict.fromkeys([*slot.possible_values, DONTCARE, *[""] * whole])]
    names = [slot.name for slot in service.slots]
    intents = [*(intent.name for intent in service.intents), "NONE"]
    return {
        "type": "object",
        "properties": {
            INTENT: {"type": "string", "enum": intents, "description": "what the user wants now"},
            **slots,
            REQUESTED: {
                "type": "array",
                "items": {"type": "string", "enum": names} if names else {"type": "string"},
                "maxItems": _MOST_REQUESTED,  # small models would not stop
                "description": "slots whose values the user asks for in the last turn",
            },
        },
        "required": [INTENT, *names, REQUESTED] if whole else [INTENT],
        "additionalProperties": False,
    }


def state_of(reply: Reply, example: Example, style: Style, normalise: bool = True) -> dict[str, Any]:
    """Parses the state in an answer.

    Args:
      reply: the answer.
      example: the model's input.
      style: the style of the request.
      normalise: whether to spell values as in the schema or the dialogue.

    Raises:
      Unreadable: the answer has no state: ``no_call``, ``wrong_function``, ``not_json`` or ``no_lines``.
    """
    parsed = _READERS[style](reply, example.service)
    values = {}
    for slot in example.service.slots:
        value = _text(parsed.get(slot.name))
        if value.casefold() in _NOTHING and value not in slot.possible_values:
            continue
        values[slot.name] = [as_said(slot, value, example.history) if normalise else value]
    intent, names = _text(parsed.get(INTENT)), {slot.name for slot in example.service.slots}
    requested = parsed.get(REQUESTED)
    requested_slots = requested if isinstance(requested, list) else re.split(r"[,\s]+", _text(requested))
    return {
        INTENT: intent if intent in {intent.name for intent in example.service.intents} else "NONE",
        REQUESTED: sorted({name for name in map(_text, requested_slots) if name in names}),
        "slot_values": values,
    }


def unreadable_state(service: Service) -> dict[str, Any]:
    """Makes the state for an answer that cannot be read, which is always wrong."""
    return {INTENT: "", REQUESTED: [], "slot_values": {slot.name: [UNPARSED] for slot in service.slots}}


def _text(value: object) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    if value is None or isinstance(value, dict):
        return ""
    return str(value).strip()


def _of_tools(reply: Reply, service: Service) -> Mapping[str, Any]:
    if not reply.tool_calls:
        return _of_json(reply, service) if "{" in reply.text else _refuse("no_call")
    name, arguments = reply.tool_calls[0]
    names = (function_name(service), service.service_name)
    if own_name(name, names) not in names:
        _refuse("wrong_function")
    return object_in(arguments)


def _of_json(reply: Reply, service: Service) -> Mapping[str, Any]:
    return object_in(reply.text, (INTENT, REQUESTED, *(slot.name for slot in service.slots)))


def _of_text(reply: Reply, service: Service) -> Mapping[str, Any]:
    known = {name.casefold(): name for name in (INTENT, REQUESTED, *(slot.name for slot in service.slots))}
    values = {}
    for line in reply.text.splitlines():
        match = _LINE.match(line)
        if match and (name := known.get(match["name"].strip().casefold())):
            values[name] = match["value"].strip("\"'` ")
    return values or _refuse("no_lines")


def _refuse(why: str) -> Any:
    raise Unreadable(why)


_READERS: Mapping[Style, Any] = {"tools": _of_tools, "json": _of_json, "text": _of_text}


DONTCARE = "dontcare"

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TRUTH = {"true": True, "yes": True, "y": True, "false": False, "no": False, "n": False}
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_HALF = r"(?P<half>a\.?m\b\.?|p\.?m\b\.?|in the (?:morning|afternoon|evening)|at night)"


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_TIMES = _patterns(
    rf"\b(?P<hour>\d{{1,2}})[:.](?P<minute>[0-5]\d)(?:[:.][0-5]\d)?(?:\s*{_HALF})?",
    rf"\b(?P<part>half past|(?:a )?quarter past|(?:a )?quarter to)\s+(?P<hour>\d{{1,2}})(?:\s*{_HALF})?",
    rf"\b(?P<hour>\d{{1,2}})(?:\s*(?P<word>thirty|fifteen|forty[- ]five))?\s*{_HALF}",
    r"\b(?P<named>noon|midnight)\b",
)
_DATES = _patterns(
    r"\b(?:\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})\b",
    rf"\b(?:the )?{_DAY}(?: of)? {_MONTH}\b",
    rf"\b{_MONTH} (?:the )?{_DAY}\b",
)
_PARTS = {"half past": 30, "quarter past": 15, "quarter to": -15}
_WORDS = {"thirty": 30, "fifteen": 15}


def as_said(slot: Slot, value: str, history: Sequence[tuple[str, str]]) -> str:
    """Spells a value as in the schema or the dialogue; returns it unchanged if neither is certain.

    Args:
      slot: the slot.
      value: the model's value.
      history: (speaker, utterance) of all turns so far.
    """
    value = " ".join(value.split())
    if value.casefold() in (DONTCARE, "don't care", "dont care", "any"):
        return DONTCARE
    if slot.is_categorical:
        return _allowed(slot.possible_values, value)
    texts = [utterance for _, utterance in reversed(history)]
    return _in_same_letters(value, texts) or _same_moment(value, texts) or value


def _allowed(possible: Iterable[str], value: str) -> str:
    wanted = _key(value)
    return next((allowed for allowed in possible if _key(allowed) == wanted), value)


@lru_cache(maxsize=1 << 12)
def _key(value: str) -> object:
    plain = " ".join(re.findall(r"\w+", value.casefold()))
    if plain in _TRUTH:
        return _TRUTH[plain]
    return _NUMBERS.index(plain) if plain in _NUMBERS else int(plain) if plain.isdecimal() else plain


def _in_same_letters(value: str, texts: Iterable[str]) -> str:
    pattern = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
    return next((match[0] for text in texts if (match := pattern.search(text))), "")


def _same_moment(value: str, texts: Iterable[str]) -> str:
    wanted = {moment for _, moment, whole in moments(value) if whole}
    spans = (span for text in texts for span, moment, _ in moments(text) if moment in wanted)
    return next(spans, "") if wanted else ""


def moments(text: str) -> Iterator[tuple[str, tuple[str, int, int], bool]]:
    """Yields (words, time or date, whether they are the whole text) for each time or date in a text."""
    for patterns, read in ((_TIMES, _time), (_DATES, _date)):
        for pattern in patterns:
            for match in pattern.finditer(text):
                if moment := read({name: text_of_group or "" for name, text_of_group in match.groupdict().items()}):
                    yield match[0].strip(), moment, match[0].strip() == text.strip()


def _time(found: dict[str, str]) -> tuple[str, int, int] | None:
    if named := found.get("named"):
        return "time", 12 if named.lower() == "noon" else 0, 0
    minutes = int(found["hour"]) * 60 + int(found.get("minute") or 0)
    minutes += _PARTS.get(found.get("part", "").lower().removeprefix("a "), 0)
    word = found.get("word", "").lower().replace("-", " ")
    minutes += _WORDS.get(word, 45 if word else 0)
    half = found.get("half", "").lower().replace(".", "")
    if half in ("pm", "in the afternoon", "in the evening", "at night") and minutes < 12 * 60:
        minutes += 12 * 60
    if half in ("am", "in the morning") and minutes >= 12 * 60:
        minutes -= 12 * 60
    return ("time", minutes // 60, minutes % 60) if 0 <= minutes < 24 * 60 else None


def _date(found: dict[str, str]) -> tuple[str, int, int] | None:
    name = found.get("month", "").lower()[:3]
    month = int(found["number"]) if found.get("number") else [month[:3] for month in _MONTHS].index(name) + 1
    day = int(found["day"])
    return ("date", month, day) if 1 <= day <= 31 and 1 <= month <= 12 else None


_LONGEST = 1_000  # characters of an answer kept with the state; the file of answers has all


class LanguageModel(Asker):
    """A tracker for ``parapet evaluate --model``, and in Python for :func:`parapet.score_states`.

    Args:
      chat: an open client.
      style: the style of the requests.
      normalise: whether to spell values as in the schema or the dialogue.
      prompt: the prompt; None for the built-in one.
    """

    task = "states"

    def __init__(self, chat: Chat, style: Style = "json", normalise: bool = True, prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.style, self.normalise = style, normalise

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """Predicts a state for each example, with the answer; a wrong state if it cannot be read.

        Raises as :meth:`each`.
        """
        states = self.each([self._question(example) for example in batch])
        questions = self.asked[len(self.asked) - len(states) :]
        return [{**state, "answer": _shown(question)} for state, question in zip(states, questions, strict=True)]

    def _question(self, of: Example) -> Question:
        key = {"dialogue_id": of.dialogue_id, "turn": of.turn, "service": of.service.service_name}
        read = partial(state_of, example=of, style=self.style, normalise=self.normalise)
        nothing = {"active_intent": "", "requested_slots": [], "slot_values": {}, "refused": True}
        return Question(key, *request(of, self.style, self.prompt), read, unreadable_state(of.service), nothing)


def _shown(asked: Asked) -> str:
    """Formats an answer for people: text, calls, and why it could not be read."""
    calls = [f"{name}({arguments})" for name, arguments in asked.reply.tool_calls]
    shown = "\n".join(filter(None, [asked.reply.text, *calls]))[:_LONGEST]
    return f"{shown} [not readable: {asked.unread}]".strip() if asked.unread else shown
