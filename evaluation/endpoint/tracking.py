"""A language model as a tracker of dialogue states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from parapet.evaluation.dst.model import Example
from parapet.evaluation.endpoint.asking import Asker, Question
from parapet.evaluation.endpoint.prompting import Prompt, prompt_of
from parapet.evaluation.endpoint.prompts import Style, request, state_of, unreadable_state
from parapet.transforms.running.chat import Chat


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
        """A state for each example; a wrong one for an answer that cannot be read. Raises InputError as ``each``."""
        return self.each([self._question(example) for example in batch])

    def _question(self, of: Example) -> Question:
        key = {"dialogue_id": of.dialogue_id, "turn": of.turn, "service": of.service.service_name}
        read = partial(state_of, example=of, style=self.style, normalise=self.normalise)
        return Question(key, *request(of, self.style, self.prompt), read, unreadable_state(of.service))
