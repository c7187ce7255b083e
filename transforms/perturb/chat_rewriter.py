"""Rewrite user turns with a language model behind an endpoint. Each rewriting must pass the same gate as the rules'.

A turn is sent with its values in brackets: ``Find me a bus to [Fresno].`` A model gets up to three attempts. If all are
refused, the set has the rules' version. Answers are cached in the output, so that a rerun pays for none of them again.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.core import fence, inputs, replies
from parapet.transforms.core.chat import CHARACTERS_OF_TOKEN, Chat, Endpoint, Message
from parapet.transforms.perturb import rewrites
from parapet.transforms.perturb.corpora import dialogues_of
from parapet.transforms.perturb.edits import Edit, edited
from parapet.transforms.perturb.rewrites import NOT_ANSWERED, Rewrite, anchors_of, reworded
from parapet.transforms.perturb.user_turns import UserTurn, user_turns

LLM = "llm"  # the source of its words
KINDS = ("verbose", "simple", "paraphrase")  # typos are made by rules, since they have rates
LENGTH = "length"  # reason for a refusal: not as much longer or shorter as the kind requires

_TRIES = 3
_WARMER = 0.7  # temperature of later attempts, which would otherwise repeat the first
_LONGER = (1.3, 3.0)  # minimum and maximum length of a verbose turn, as a multiple of the original's
_SHORT = 50  # characters that any verbose turn may have
_MOST_TOKENS = 200  # of an answer
_WORD = re.compile(r"\w+")


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

    def rewrite_all(self, turns: Sequence[UserTurn], kind: str, by_rules: Sequence[Rewrite]) -> list[Rewrite]:
        """Rewrites turns, several at a time; see :meth:`rewrite`."""
        self.open()
        with ThreadPoolExecutor(self.chat.endpoint.parallel) as pool:
            return list(pool.map(lambda pair: self.rewrite(pair[0], kind, pair[1]), zip(turns, by_rules, strict=True)))

    def rewrite(self, user_turn: UserTurn, kind: str, by_rules: Rewrite) -> Rewrite:
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
            reason = rewriting.reason or refusal(kind, user_turn.utterance, answer, values_of(user_turn))
            if not reason:
                return rewriting
        return msgspec.structs.replace(by_rules, refused=(f"{LLM}: {reason.partition(':')[0]}",))


def values_of(user_turn: UserTurn) -> list[str]:
    """Returns the texts of a turn that must be kept."""
    return [user_turn.utterance[anchor.start : anchor.end] for anchor in anchors_of(user_turn)]


def marked(user_turn: UserTurn) -> str:
    """Returns the turn with its values in brackets, as sent to a model; empty if it is not sent.

    A turn that contains brackets is sent without marks. Turns that consist of values, and those of one or two words,
    are not sent, since their meaning is unclear.
    """
    text, anchors = user_turn.utterance, anchors_of(user_turn)
    rest = edited(text, [Edit(anchor.start, anchor.end, "") for anchor in anchors])
    if user_turn.wrong or not any(map(str.isalpha, rest)) or len(_WORD.findall(text)) < rewrites.SHORTEST:
        return ""
    if "[" in text or "]" in text:
        return text
    return edited(text, [Edit(anchor.start, anchor.end, f"[{text[anchor.start : anchor.end]}]") for anchor in anchors])


def messages_of(text: str, kind: str) -> list[Message]:
    """Returns the conversation that requests a rewriting: the instructions, examples, and the turn."""
    prompts = _prompts()
    messages = [{"role": "system", "content": f"{prompts['system'].strip()} {prompts[kind]['task']}"}]
    for before, after in prompts[kind]["examples"]:
        messages += [{"role": "user", "content": before}, {"role": "assistant", "content": after}]
    return [*messages, {"role": "user", "content": text}]


def refusal(kind: str, before: str, after: str, values: Sequence[str]) -> str:
    """Returns the id of the first check that an answer fails, or an empty string.

    Args:
      kind: the kind of variation.
      before: the turn.
      after: the answer.
      values: the values of the turn.
    """
    least, most = (round(factor * len(before)) for factor in _LONGER)
    if kind == "verbose" and not least <= len(after) <= max(most, _SHORT):
        return LENGTH
    if kind == "simple" and len(_WORD.findall(after)) >= len(_WORD.findall(before)):
        return LENGTH
    return rewrites.refusal(before, after, values)


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
                texts.update(() if isinstance(dialogue, InputError) else map(marked, user_turns(dialogue)))
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
