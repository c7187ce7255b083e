"""A language model as a tracker of dialogue states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.asking import Asked, Asker, Question
from parapet.evaluation.endpoint.prompting import Prompt, prompt_of
from parapet.evaluation.endpoint.prompts import Style, request, state_of, unreadable_state
from parapet.transforms.running.chat import Chat

_LONGEST = 1_000  # characters of an answer that are kept with the state; all are in the file of answers


class LanguageModel(Asker):
    """A tracker, as ``parapet evaluate --model`` takes it; in Python for :func:`parapet.score_states`, too.

    Args:
      chat: an open client.
      style: how states are asked for.
      normalise: whether values are spelled as the schema or the dialogue has them.
      prompt: how it is asked; None for the project's own prompt.
    """

    def __init__(self, chat: Chat, style: Style = "json", normalise: bool = True, prompt: Prompt | None = None) -> None:
        super().__init__(chat)
        self.style, self.normalise, self.prompt = style, normalise, prompt or prompt_of("states")

    def predict(self, batch: Sequence[Example]) -> list[dict[str, Any]]:
        """A state for each example, with the answer; a wrong one where that cannot be read. Raises as :meth:`each`."""
        states = self.each([self._question(example) for example in batch])
        asked = self.asked[len(self.asked) - len(states) :]
        return [{**state, "answer": _shown(one)} for state, one in zip(states, asked, strict=True)]

    def _question(self, of: Example) -> Question:
        key = {"dialogue_id": of.dialogue_id, "turn": of.turn, "service": of.service.service_name}
        read = partial(state_of, example=of, style=self.style, normalise=self.normalise)
        return Question(key, *request(of, self.style, self.prompt), read, unreadable_state(of.service))


def _shown(asked: Asked) -> str:
    """An answer as people see it: text, calls, why it could not be read."""
    calls = [f"{name}({arguments})" for name, arguments in asked.reply.tool_calls]
    said = "\n".join(filter(None, [asked.reply.text, *calls]))[:_LONGEST]
    return f"{said} [not readable: {asked.unread}]".strip() if asked.unread else said
