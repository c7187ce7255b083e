"""A language model as a tracker of dialogue states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.asking import Asked, Asker, Question
from parapet.evaluation.endpoint.prompting import Prompt, prompt_of
from parapet.evaluation.endpoint.prompts import Style, request, state_of, unreadable_state
from parapet.transforms.core.chat import Chat

_LONGEST = 1_000  # characters of an answer kept with the state; the file of answers has all


class LanguageModel(Asker):
    """A tracker for ``parapet evaluate --model``, and in Python for :func:`parapet.score_states`.

    Args:
      chat: an open client.
      style: the style of the requests.
      normalise: whether to spell values as in the schema or the dialogue.
      prompt: the prompt; None for the built-in one.
    """

    def __init__(self, chat: Chat, style: Style = "json", normalise: bool = True, prompt: Prompt | None = None) -> None:
        super().__init__(chat)
        self.style, self.normalise, self.prompt = style, normalise, prompt or prompt_of("states")

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
