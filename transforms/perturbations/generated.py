"""User turns in the words of a language model behind an endpoint. Each must pass the gate that the rules pass.

A model is an engine of ``transforms.translation``, and a kind of variation one of its languages: so answers are kept,
asked for once and published in ``memory.parquet`` as translations are. A turn is sent with its values in brackets:
``Find me a bus to [Fresno].`` A model tries up to three times; of a turn whose tries are all refused, the last one is
kept, and the rules' version stands in the set.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbation.user_turns import UserTurn, user_turns
from parapet.transforms.perturbations import gate
from parapet.transforms.perturbations.paraphrase import NOT_TRANSLATED, Answers, plain_text, with_texts
from parapet.transforms.perturbations.rewording import LOST, Made, anchors_of, occurrences, reworded
from parapet.transforms.running.chat import CHARACTERS_OF_TOKEN, Chat, Endpoint, Message
from parapet.transforms.running.fence import Refused
from parapet.transforms.storage.toml import read_table
from parapet.transforms.translation.memory import ENGLISH, Limits
from parapet.transforms.translation.translate import Known

LLM = "llm"  # the engine, and the source of its words
KINDS = ("verbose", "simple", "paraphrase")  # typos have rates: rules make them
GENERATED = "generated"  # of the operations
LENGTH = "length"  # a reason for a refusal: not longer, or not shorter, as the kind wants it

_TRIES = 3
_WARMER = 0.7  # the temperature of a second and third try: at the first one's they would say the same
_LONGER = (1.3, 3.0)  # times the characters that a verbose turn has
_SHORT = 50  # characters that any verbose turn may have
_MOST_TOKENS = 200  # of an answer
_LANGUAGE = "en-x-llm-"
_MARKED = re.compile(r"\[([^\[\]]+)\]")
_WORD = re.compile(r"\w+")


def language_of(kind: str) -> str:
    """The language that the memory has a kind under."""
    return _LANGUAGE + kind


class Writer:
    """A language model that says turns in other words.

    Args:
      endpoint: where it answers.

    Attributes:
      model: its name, with a digest of the prompts: what others asked it is no answer to ours.
    """

    provider = LLM
    limits = Limits(1, 4_000)  # each text is a request of its own
    dollars_per_million = 0.0  # of characters; tokens are counted instead, see ``popped``

    def __init__(self, endpoint: Endpoint) -> None:
        self.chat = Chat(endpoint)
        self.parallel = endpoint.parallel
        self.model = f"{endpoint.model},prompts={hashlib.sha256(repr(_prompts()).encode()).hexdigest()[:8]}"
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {"chat": self.chat, "parallel": self.parallel, "model": self.model}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state, _used=Counter(), _lock=threading.Lock())

    def open(self) -> None:
        """Creates the client. Raises MissingExtra without the package ``openai``."""
        self.chat.open()

    def close(self) -> None:
        """Closes the client."""
        self.chat.close()

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The turns, marked by :func:`marked`, in other words.

        Raises:
          Refused, Stopped: as :meth:`parapet.transforms.running.chat.Chat.ask` does; ``pair`` for another language.
        """
        kind = target.removeprefix(_LANGUAGE)
        if source != ENGLISH or kind not in KINDS:
            raise Refused(f"pair: {source} to {target}: a language model can only write {', '.join(KINDS)}")
        return [self._written(text, kind) for text in texts]

    def _written(self, text: str, kind: str) -> str:
        before, values = unmarked(text)
        answer = ""
        for i in range(_TRIES):
            warmer = {"temperature": _WARMER, "seed": self.chat.endpoint.seed + i} if i else {}
            reply = self.chat.ask(messages_of(text, kind), max_tokens=_MOST_TOKENS, **warmer)
            with self._lock:
                self._used.update(llm_calls=1, llm_tokens_in=reply.tokens[0], llm_tokens_out=reply.tokens[1])
            answer = reply.text.strip() or answer
            if answer and not refusal(kind, before, answer, values):
                break
        return answer

    def popped(self) -> Mapping[str, int]:
        """What was asked since the last call: ``llm_calls``, ``llm_tokens_in``, ``llm_tokens_out``."""
        with self._lock:
            used, self._used = self._used, Counter()
        return used


def marked(user_turn: UserTurn) -> str:
    """What a model is sent: the turn with its values in brackets. Nothing where it need not be asked.

    A turn with brackets of its own is sent without marks. Of turns of one or two words nobody can tell the meaning.
    """
    text = plain_text(user_turn)
    if len(_WORD.findall(text)) < gate.SHORTEST:
        return ""
    if "[" in text or "]" in text:
        return text
    return with_texts(text, anchors_of(user_turn), [f"[{value}]" for value in gate.values_of(user_turn)])


def unmarked(text: str) -> tuple[str, list[str]]:
    """A turn as it was, and its values."""
    return _MARKED.sub(r"\1", text), _MARKED.findall(text)


def messages_of(text: str, kind: str) -> list[Message]:
    """The conversation that asks for a turn: what is wanted, examples, the turn."""
    prompts = _prompts()
    messages = [{"role": "system", "content": f"{prompts['system'].strip()} {prompts[kind]['task']}"}]
    for before, after in prompts[kind]["examples"]:
        messages += [{"role": "user", "content": before}, {"role": "assistant", "content": after}]
    return [*messages, {"role": "user", "content": text}]


def refusal(kind: str, before: str, after: str, values: Sequence[str]) -> str:
    """The id of the first check that an answer fails, or nothing.

    Args:
      kind: of the variation.
      before: the turn.
      after: the answer.
      values: of the turn.
    """
    places = occurrences(after, sorted(set(values), key=lambda value: (-len(value), value)))
    if any(len(places.get(value, ())) < n for value, n in Counter(values).items()):
        return LOST
    least, most = (round(factor * len(before)) for factor in _LONGER)
    if kind == "verbose" and not least <= len(after) <= max(most, _SHORT):
        return LENGTH
    if kind == "simple" and len(_WORD.findall(after)) >= len(_WORD.findall(before)):
        return LENGTH
    return gate.refusal(before, after, values, is_translated=False)


def written(user_turn: UserTurn, kind: str, by_rules: Made, answers: Answers) -> Made:
    """A turn as the model has it; by the rules where it was not asked, or what it said cannot be taken.

    Args:
      user_turn: the turn.
      kind: of the variation.
      by_rules: the turn as the rules have it.
      answers: by (``en``, :func:`language_of`, :func:`marked`).
    """
    text = marked(user_turn)
    if not text:
        return by_rules
    answer, why = answers.get((ENGLISH, language_of(kind), text), ("", "not_asked"))
    if not answer and not why.startswith("empty_answer"):  # a failure must show, whatever the rules can do
        return Made(reason=f"{NOT_TRANSLATED}: {why}")
    made = reworded(user_turn, answer, GENERATED, LLM) if answer else Made(reason="empty_answer")
    reason = made.reason or refusal(kind, user_turn.utterance, answer, gate.values_of(user_turn))
    refused = (f"{LLM}: {reason.partition(':')[0]}",)
    return msgspec.structs.replace(by_rules, refused=refused) if reason else made


def plan_lines(files: Iterable[DialogueFile], kinds: Sequence[str], known: Known, endpoint: Endpoint) -> Iterator[str]:
    """What a model would be asked, kind by kind, a line each. Files that cannot be read are passed over.

    Tokens are estimated: four characters each. If answers are refused, a turn is asked for up to three times.
    """
    texts: set[str] = set()
    for file in files:
        with suppress(InputError):
            for _, _, _, dialogue in dialogues_of(file):
                texts.update(() if isinstance(dialogue, InputError) else map(marked, user_turns(dialogue)))
    texts.discard("")
    calls, sent, answered = 0, 0, 0
    for kind in kinds:
        wanted = texts - known.of(ENGLISH, language_of(kind)).keys()
        prompt = sum(len(message["content"]) for message in messages_of("", kind))
        into = sum(prompt + len(text) for text in wanted) // CHARACTERS_OF_TOKEN
        out = sum(map(len, wanted)) * {"verbose": 2}.get(kind, 1) // CHARACTERS_OF_TOKEN
        yield f"{kind}: {len(wanted):,} calls, about {into:,} tokens of requests and {out:,} tokens of answers"
        calls, sent, answered = calls + len(wanted), sent + into, answered + out
    dollars = endpoint.cost(sent, answered)
    cost = f"${dollars:,.2f} to ${_TRIES * dollars:,.2f}" if any(endpoint.dollars) else "add --price to see the cost"
    yield f"{calls:,} to {_TRIES * calls:,} calls, {cost}; dry run: nothing was sent or written"


def bill(endpoint: Endpoint, counters: Mapping[str, int]) -> str:
    """What was asked and what it costs, given the run's counters."""
    calls, sent, answered = (counters.get(f"llm_{name}", 0) for name in ("calls", "tokens_in", "tokens_out"))
    cost = f", ${endpoint.cost(sent, answered):,.2f}" if any(endpoint.dollars) else ""
    return (
        f"sent to {endpoint.model}: {calls:,} calls, {sent:,} tokens of requests and {answered:,} tokens of "
        f"answers{cost}"
    )


def _prompts() -> Mapping[str, Any]:
    return read_table(__package__, "prompts.toml")
