"""Examples as rows of token ids: each utterance and each prompt is tokenised once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.dst.pairs import Histories, History, Pairs, Stretch, Tokens
from parapet.evaluation.models.dst.t5.prompts import Prompt, prompts_of, turn_text


class Questions:
    """What is asked about examples.

    Args:
      tokenizer: of the checkpoint.
      asked: the examples. Those of one dialogue should follow one another, as turns do: their tokens then stand once.
      limit: tokens of a row at most.

    Attributes:
      prompts: of each example.
      pairs: the rows: each prompt of the first example, of the second, and so on.
    """

    def __init__(self, tokenizer: Any, asked: Sequence[Example], limit: int) -> None:
        services = {id(one.service): one.service for one in asked}
        texts = {number: prompts_of(service) for number, service in services.items()}
        self.prompts: list[list[Prompt]] = [texts[id(one.service)] for one in asked]
        tokens = Tokens()
        dialogues = _dialogues(tokenizer, [one.history for one in asked], tokens)
        schemas = {number: _prompts(tokenizer, prompts, tokens) for number, prompts in texts.items()}
        rows = [
            (dialogue, prompt)
            for one, dialogue in zip(asked, dialogues, strict=True)
            for prompt in schemas[id(one.service)]
        ]
        self.pairs = Pairs(tokens, rows, limit)


def encoded(tokenizer: Any, texts: Iterable[str]) -> dict[str, list[int]]:
    """The token ids of texts, without special ones; each text once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    return dict(zip(distinct, tokenizer(distinct, add_special_tokens=False, verbose=False)["input_ids"], strict=True))


def _dialogues(tokenizer: Any, histories: Sequence[History], tokens: Tokens) -> list[Stretch]:
    """Where the tokens of each history stand."""
    ids = encoded(tokenizer, (turn_text(*turn) for history in histories for turn in history))
    known = Histories(tokens, lambda turn: ids[turn_text(*turn)])
    turns = [known.add(history) for history in histories]
    return [Stretch(of[0].start, of[-1].end) for of in turns]


def _prompts(tokenizer: Any, prompts: Sequence[Prompt], tokens: Tokens) -> list[Stretch]:
    ids = encoded(tokenizer, (prompt.text for prompt in prompts))
    return [tokens.add([*ids[prompt.text], tokenizer.eos_token_id]) for prompt in prompts]
