"""Language models in the place of trained ones: as trackers of dialogue states, and in other tasks.

``tools``: the service is a function that the model calls, with the slots as parameters. ``json``: structured output
with a JSON Schema. ``text``: lines of ``SLOT = VALUE``, for models that support neither.

Metrics compare texts, but models write "17:30" for "half past 5 in the evening". If the match is certain, a model's
value is replaced by the allowed value of a categorical slot with another spelling, or by the words of the dialogue with
the same time, date or letters.

Each class has the interface that a job expects of a trained model, so that inputs, outputs and scores are the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, get_args

import msgspec

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.asking import Asked, Asker, Prompt, Question, in_json
from parapet.evaluation.generation import corpus, scoring
from parapet.evaluation.models import generation, turns
from parapet.evaluation.ood import IN_DOMAIN, OOD
from parapet.schemas.service import Service, Slot
from parapet.transforms.core.chat import Chat
from parapet.transforms.core.replies import Reply, Unreadable, object_in, own_name
from parapet.transforms.simulators.formats import BabiDialogue, Exchange, Unanswered

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
    return "" if value is None or isinstance(value, dict) else str(value).strip()


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
        wanted = _key(value)
        return next((allowed for allowed in slot.possible_values if _key(allowed) == wanted), value)
    texts = [utterance for _, utterance in reversed(history)]
    return _in_same_letters(value, texts) or _same_moment(value, texts) or value


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


_LEAST_SURE, _SUREST = 51, 100  # percent; below, the score would mean the opposite decision
_LONGEST_ANSWER = 300  # tokens of a turn


class Router(Asker):
    """Decides whether turns are out of domain; its stated confidence is the score.

    Args:
      chat: an open client.
      services: the services of the domain.
      prompt: the prompt.
    """

    task = "ood"

    def __init__(self, chat: Chat, services: Sequence[Service], prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.services = services

    def answers(self, texts: Sequence[str]) -> tuple[list[turns.Answer], int]:
        """Answers like a classifier; equal texts are asked once."""
        different = list(dict.fromkeys(texts))
        scores = dict(zip(different, self.each([self._question(text) for text in different]), strict=True))
        return [scores[text] for text in texts], 0

    def _question(self, utterance: str) -> Question:
        messages = self.prompt.messages(services=self.services, utterance=utterance)
        schema = {"out_of_domain": {"type": "boolean"}, "confidence": {"type": "integer"}}
        wrong, refused = turns.Answer(turns.UNREAD, 0.0), turns.Answer(turns.REFUSED, 0.0)
        return Question({"utterance": utterance}, messages, in_json(schema, "domain"), _domain, wrong, refused)


def _domain(reply: Reply) -> turns.Answer:
    parsed = object_in(reply.text, ("out_of_domain", "confidence"))
    is_ood, sure = parsed.get("out_of_domain"), parsed.get("confidence")
    if not isinstance(is_ood, bool):
        raise Unreadable("no_answer")
    percent = sure if isinstance(sure, int | float) and not isinstance(sure, bool) else _SUREST
    score = min(max(percent, _LEAST_SURE), _SUREST) / 100
    return turns.Answer(OOD, score) if is_ood else turns.Answer(IN_DOMAIN, round(1 - score, 9))


class Speaker(Asker):
    """Generates utterances for the acts of system turns."""

    task = "utterances"

    def generate(self, texts: Sequence[str]) -> list[generation.Generated]:
        """Generates an utterance for each turn's sentences. It is empty if the answer is, which counts as wrong."""
        return self.each([self._question(text) for text in texts])

    def _question(self, acts: str) -> Question:
        wrong = generation.Generated((corpus.Candidate("", 0.0),), cut=False, unfinished=False)
        refused = msgspec.structs.replace(wrong, refused=True)
        messages = self.prompt.messages(acts=acts)
        return Question({"acts": acts}, messages, {"max_tokens": _LONGEST_ANSWER}, _utterance, wrong, refused)


def _utterance(reply: Reply) -> generation.Generated:
    return generation.Generated((corpus.Candidate(_one_line(reply.text), 0.0),), cut=False, unfinished=False)


def _one_line(text: str) -> str:
    """Removes line breaks and enclosing quotation marks. Raises Unreadable if nothing is left."""
    line = " ".join(text.split())
    if len(line) > 1 and line[0] == line[-1] and line[0] in "\"'":
        line = line[1:-1].strip()
    if not line:
        raise Unreadable("empty")
    return line


class Bot(Asker):
    """Continues dialogues in the bAbI format.

    Args:
      chat: an open client.
      examples: whole dialogues to show in the prompt.
      candidates: the allowed answers; the most similar ones by Levenshtein's ratio are used. Empty for free answers.
      prompt: the prompt.
    """

    task = "babi"

    def __init__(
        self,
        chat: Chat,
        examples: Iterable[BabiDialogue] = (),
        candidates: Sequence[str] = (),
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(chat, prompt)
        self.examples = ["\n".join(_lines(dialogue)) for dialogue in examples]
        self.candidates = candidates

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """Returns the best answers at each turn of each dialogue, based on the reference's preceding turns.

        A refused request has none.
        """
        questions = [list(self._questions(dialogue, top)) for dialogue in dialogues]
        answers = iter(self.each([question for of_dialogue in questions for question in of_dialogue]))
        return [[next(answers) for _ in of_dialogue] for of_dialogue in questions]

    def _questions(self, dialogue: BabiDialogue, top: int) -> Iterable[Question]:
        before: list[str] = []
        for line in dialogue.lines:
            lines = list(_lines(BabiDialogue((line,))))
            if isinstance(line, Exchange):
                messages = self.prompt.messages(examples=self.examples, history="\n".join([*before, lines[0]]))
                read = partial(self._read, top=top)
                yield Question({"user": line.user}, messages, {"max_tokens": _LONGEST_ANSWER}, read, [""], [])
            before += lines

    def _read(self, reply: Reply, top: int) -> list[str]:
        answer = _one_line(reply.text.strip().partition("\n")[0].removeprefix("Bot:"))
        if not self.candidates:
            return [answer]
        from Levenshtein import ratio

        small = answer.casefold()
        order = sorted(range(len(self.candidates)), key=lambda i: (-ratio(small, self.candidates[i].casefold()), i))
        return [self.candidates[i] for i in order[:top]]


def _lines(dialogue: BabiDialogue) -> Iterable[str]:
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield f"User: {line.user}"
            yield f"Bot: {line.bot}"
        elif isinstance(line, Unanswered):
            yield f"User: {line.user}"
        else:
            yield f"Fact: {line.entity} {line.relation} {line.value}"


class Judge(Asker):
    """A judge of textual entailment, for use without an NLI model. Its scores are not comparable to SGSAcc's.

    Args:
      chat: an open client.
      prompt: the prompt.

    Attributes:
      unread: the number of unreadable answers, which count as "neutral".
    """

    task = "entailment"
    name = "llm"
    joint = " "

    def __init__(self, chat: Chat, prompt: Prompt | None = None) -> None:
        super().__init__(chat, prompt)
        self.model = f"{chat.endpoint.model}, prompt {self.prompt.about['sha256'][:12]}"
        self.unread = 0

    def entailment(self, pairs: Sequence[scoring.Pair]) -> list[scoring.Judgement]:
        """Judges each pair, in order; the label in the answer gets probability 1."""
        self.asked.clear()
        judged: list[scoring.Judgement] = self.each([self._question(pair) for pair in pairs])
        self.unread += sum(bool(question.unread) for question in self.asked)
        return judged

    def _question(self, pair: scoring.Pair) -> Question:
        messages = self.prompt.messages(premise=pair[0], hypothesis=pair[1])
        schema = {"label": {"type": "string", "enum": list(scoring.LABELS)}}
        return Question({}, messages, in_json(schema, "judgement"), _label, (0.0, 1.0, 0.0))


def _label(reply: Reply) -> scoring.Judgement:
    label = str(object_in(reply.text, ("label",)).get("label")).strip().lower()
    if label not in scoring.LABELS:
        raise Unreadable("no_label")
    return (float(label == scoring.LABELS[0]), float(label == scoring.LABELS[1]), float(label == scoring.LABELS[2]))
