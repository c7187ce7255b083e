"""Rewrite user turns with a language model behind an endpoint. Each rewriting must pass the same gate as the rules'.

A model is an engine of ``transforms.translation`` and each kind of variation is one of its languages, so answers are
cached, requested once, and published in ``memory.parquet`` as translations are. A turn is sent with its values in
brackets: ``Find me a bus to [Fresno].`` A model gets up to three attempts. If all are refused, the last one is cached,
and the set has the rules' version.
"""

from __future__ import annotations

import hashlib
import re
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
from parapet.transforms.running.replies import Unreadable
from parapet.transforms.storage.toml import read_table
from parapet.transforms.translation.memory import ENGLISH, Limits
from parapet.transforms.translation.translate import Known

LLM = "llm"  # the name of the engine, and the source of its words
KINDS = ("verbose", "simple", "paraphrase")  # typos are made by rules, since they have rates
GENERATED = "generated"  # the kind of operations
LENGTH = "length"  # reason for a refusal: not as much longer or shorter as the kind requires

_TRIES = 3
_WARMER = 0.7  # temperature of later attempts, which would otherwise repeat the first
_LONGER = (1.3, 3.0)  # minimum and maximum length of a verbose turn, as a multiple of the original's
_SHORT = 50  # characters that any verbose turn may have
_MOST_TOKENS = 200  # of an answer
_LANGUAGE = "en-x-llm-"
_MARKED = re.compile(r"\[([^\[\]]+)\]")
_WORD = re.compile(r"\w+")


def language_of(kind: str) -> str:
    """Return the language code of a kind in the memory."""
    return _LANGUAGE + kind


class Writer:
    """A language model that rewrites turns.

    Args:
      endpoint: the endpoint of the model.

    Attributes:
      model: its name with a digest of prompts and parameters, so that answers to others are not reused.
    """

    provider = LLM
    limits = Limits(1, 4_000)  # each text is a separate request
    dollars_per_million = 0.0  # per million characters; models have prices per token

    def __init__(self, endpoint: Endpoint) -> None:
        self.chat = Chat(endpoint)
        self.parallel = endpoint.parallel
        is_usual = endpoint.parameters() == {"temperature": 0}
        content = repr(_prompts() if is_usual else (_prompts(), endpoint.parameters()))
        self.model = f"{endpoint.model},prompts={hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def open(self) -> None:
        """Create the client. Raises MissingExtra without the package ``httpx``."""
        self.chat.open()

    def close(self) -> None:
        """Close the client."""
        self.chat.close()

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Rewrite turns marked by :func:`marked`.

        Raises:
          Refused, Stopped: as :meth:`parapet.transforms.running.chat.Chat.ask` does; with the reason ``pair`` for other
            languages.
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
            try:
                reply = self.chat.ask(messages_of(text, kind), max_tokens=_MOST_TOKENS, **warmer)
            except Unreadable:
                continue
            answer = reply.text.strip() or answer
            if answer and not refusal(kind, before, answer, values):
                break
        return answer


def marked(user_turn: UserTurn) -> str:
    """Return the turn with its values in brackets, as sent to a model; empty if it is not sent.

    A turn that contains brackets is sent without marks. Turns of one or two words are not sent, since their meaning is
    unclear.
    """
    text = plain_text(user_turn)
    if len(_WORD.findall(text)) < gate.SHORTEST:
        return ""
    if "[" in text or "]" in text:
        return text
    return with_texts(text, anchors_of(user_turn), [f"[{value}]" for value in gate.values_of(user_turn)])


def unmarked(text: str) -> tuple[str, list[str]]:
    """Split a marked turn into its plain text and its values."""
    return _MARKED.sub(r"\1", text), _MARKED.findall(text)


def messages_of(text: str, kind: str) -> list[Message]:
    """Return the conversation that requests a rewriting: the instructions, examples, and the turn."""
    prompts = _prompts()
    messages = [{"role": "system", "content": f"{prompts['system'].strip()} {prompts[kind]['task']}"}]
    for before, after in prompts[kind]["examples"]:
        messages += [{"role": "user", "content": before}, {"role": "assistant", "content": after}]
    return [*messages, {"role": "user", "content": text}]


def refusal(kind: str, before: str, after: str, values: Sequence[str]) -> str:
    """Return the id of the first check that an answer fails, or an empty string.

    Args:
      kind: the kind of variation.
      before: the turn.
      after: the answer.
      values: the values of the turn.
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
    """Return the model's version of a turn, or the rules' version if it was not requested or is refused.

    Args:
      user_turn: the turn.
      kind: the kind of variation.
      by_rules: the rules' version.
      answers: the answers by (``en``, :func:`language_of`, :func:`marked`).
    """
    text = marked(user_turn)
    if not text:
        return by_rules
    answer, why = answers.get((ENGLISH, language_of(kind), text), ("", "not_asked"))
    # a failed request must be reported, even if there is a version by rules
    if not answer and not why.startswith("empty_answer"):
        return Made(reason=f"{NOT_TRANSLATED}: {why}")
    rewording = reworded(user_turn, answer, GENERATED, LLM) if answer else Made(reason="empty_answer")
    reason = rewording.reason or refusal(kind, user_turn.utterance, answer, gate.values_of(user_turn))
    refused = (f"{LLM}: {reason.partition(':')[0]}",)
    return msgspec.structs.replace(by_rules, refused=refused) if reason else rewording


def plan_lines(files: Iterable[DialogueFile], kinds: Sequence[str], known: Known, endpoint: Endpoint) -> Iterator[str]:
    """Yield a line for each kind on what would be requested. Files that cannot be read are skipped.

    Tokens are estimated at four characters each. Refused turns are requested up to three times.
    """
    texts: set[str] = set()
    for file in files:
        with suppress(InputError):
            for _, _, dialogue in dialogues_of(file):
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


def _prompts() -> Mapping[str, Any]:
    return read_table(__package__, "prompts.toml")
