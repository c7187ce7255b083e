"""Parts as token ids: each text is tokenised once, the marks are tokens of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from parapet.evaluation.models.systems.data import BELIEF, DATABASE, END, MARKS, RESPONSE, Part, Step


class Sequenced(msgspec.Struct, frozen=True):
    """A step as token ids, in the order in which the model has them.

    Attributes:
      history: with the mark that the belief state follows.
      belief: with the mark that ends it.
      database: with the mark that the response follows.
      response: with the mark that ends it; empty where there is none.
    """

    history: list[int]
    belief: list[int]
    database: list[int]
    response: list[int]

    def row(self, limit: int) -> list[int]:
        """All of it, and of a history that is longer than the limit the newest."""
        return [*self.history[-limit:], *self.belief, *self.database, *self.response]

    @property
    def after(self) -> int:
        """How many tokens follow the history."""
        return len(self.belief) + len(self.database) + len(self.response)


class Tokens:
    """A tokenizer that knows the marks.

    Args:
      tokenizer: of transformers; the marks are added where it lacks them.
    """

    def __init__(self, tokenizer: Any) -> None:
        tokenizer.add_special_tokens({"additional_special_tokens": list(MARKS)})
        self.tokenizer = tokenizer
        self.marks: dict[str, int] = {mark: int(tokenizer.convert_tokens_to_ids(mark)) for mark in MARKS}
        self._names = {number: mark for mark, number in self.marks.items()}
        self._known: dict[str, list[int]] = {}

    def forget(self) -> None:
        """Drops the texts that were learned: those of one epoch are not those of the next."""
        self._known = {}

    def learn(self, texts: Iterable[str]) -> None:
        """Tokenises texts, all those that are new at once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            rows = self.tokenizer([_clean(text) for text in new], add_special_tokens=False, verbose=False)["input_ids"]
            self._known.update(zip(new, map(list, rows), strict=True))

    def ids(self, parts: Sequence[Part]) -> list[int]:
        """The ids of parts whose texts were learned."""
        return [one for mark, text in parts for one in (self.marks[mark], *self._known[text])]

    def sequences(self, steps: Sequence[Step]) -> list[Sequenced]:
        """Each step."""
        of_all = (part for step in steps for parts in (step.history, step.belief, step.database) for part in parts)
        self.learn(text for _, text in of_all)
        self.learn(step.response for step in steps if step.response is not None)
        return [
            Sequenced(
                [*self.ids(step.history), self.marks[BELIEF]],
                [*self.ids(step.belief), self.marks[DATABASE]],
                [*self.ids(step.database), self.marks[RESPONSE]],
                [] if step.response is None else [*self._known[step.response], self.marks[END]],
            )
            for step in steps
        ]

    def parts(self, ids: Sequence[int]) -> list[Part]:
        """Ids as parts; what stands before the first mark is left out."""
        found: list[tuple[str, list[int]]] = []
        for one in ids:
            if one in self._names:
                found.append((self._names[one], []))
            elif found:
                found[-1][1].append(one)
        return [(mark, self.text(of)) for mark, of in found]

    def text(self, ids: Sequence[int]) -> str:
        """Ids as a text, without marks."""
        plain = [one for one in ids if one not in self._names]
        return str(self.tokenizer.decode(plain, clean_up_tokenization_spaces=False)).strip()


def _clean(text: str) -> str:
    """A text as it is tokenised: like one behind another word, whole characters, and without anything like a mark."""
    return f" {text}".encode("utf-8", "replace").decode().replace("<|", "< |")
