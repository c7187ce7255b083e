"""What a memory network attends to at each hop, as JSON lines and as a page (appendix B, Tables 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from parapet.evaluation.models.babi.encoding import histories
from parapet.transforms.babi_format import BabiDialogue, Exchange, Unanswered
from parapet.transforms.pages import render

DIGITS = 6
SHORT, FOLDED = 20, 0.01  # of more memories, those that have less at each hop are counted in the page, not shown
Weights = Sequence[Sequence[float]]  # of each hop, of each memory, the earliest memory first


class Memory(msgspec.Struct, frozen=True):
    """A line in the memory.

    Attributes:
      time: its number in the dialogue, from 1.
      speaker: ``User``, of facts too, or ``Bot``.
      text: the line.
      attention: p_i of each hop, from 0 to 1.
    """

    time: int
    speaker: str
    text: str
    attention: list[float]


class Response(msgspec.Struct, frozen=True):
    """A response with what the model attended to.

    Attributes:
      dialogue, turn: numbers, from 0, as in the file of answers.
      memories: in order.
      input: what the user says.
      correct: the reference's response.
      predicted: the model's, the best first.
    """

    dialogue: int
    turn: int
    memories: list[Memory]
    input: str
    correct: str
    predicted: list[str]

    @property
    def marked(self) -> list[tuple[str, bool]]:
        """(a predicted answer, whether it is correct) of each."""
        return [(answer, answer.strip() == self.correct.strip()) for answer in self.predicted]


def responses(
    first: int,
    dialogues: Iterable[BabiDialogue],
    ranked: Iterable[Sequence[list[str]]],
    weights: Iterable[Sequence[Weights]],
) -> Iterator[Response]:
    """The responses of some dialogues.

    Args:
      first: the number of the first dialogue.
      dialogues: what is answered.
      ranked: of each dialogue and turn, the model's answers, the best first.
      weights: of each dialogue and turn, the weights of the memories; of fewer lines than were before, the last ones.
    """
    for number, (dialogue, predicted, of_turns) in enumerate(zip(dialogues, ranked, weights, strict=True), first):
        lines = list(spoken(dialogue))
        for turn, (exchange, answers, before, hops) in enumerate(
            zip(dialogue.exchanges, predicted, histories(dialogue), of_turns, strict=True)
        ):
            held = len(hops[0]) if hops else 0
            memories = [
                Memory(time + 1, *lines[time], [round(hop[i], DIGITS) for hop in hops])
                for i, time in enumerate(range(before - held, before))
            ]
            yield Response(number, turn, memories, exchange.user, exchange.bot, answers)


def spoken(dialogue: BabiDialogue) -> Iterator[tuple[str, str]]:
    """(speaker, text) of each line that can be in the memory."""
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            yield "User", line.user
            yield "Bot", line.bot
        elif isinstance(line, Unanswered):
            yield "User", line.user
        else:
            yield "User", f"{line.entity} {line.relation} {line.value}"


def lines_of(found: Iterable[Response]) -> bytes:
    """The responses as JSON lines."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in found)


def page_of(name: str, found: Sequence[Response]) -> bytes:
    """The responses as a page of HTML: a table each, which leaves out memories that get little where they are many.

    Args:
      name: of the file of dialogues.
      found: the responses.
    """
    dialogues = [
        (number, [(one, list(_rows(one.memories))) for one in of])
        for number, of in groupby(found, key=lambda one: one.dialogue)
    ]
    hops = max((len(memory.attention) for one in found for memory in one.memories), default=0)
    right = sum(one.marked[0][1] for one in found)
    page = render(
        "attention.html.jinja",
        name=name,
        dialogues=dialogues,
        hops=hops,
        right=right,
        total=len(found),
        least=FOLDED,
        short=SHORT,
    )
    return page.encode("utf-8", "replace")


def _rows(memories: Sequence[Memory]) -> Iterator[Memory | int]:
    """The memories; where they are many, for several in a row that get little, how many they are."""
    least = FOLDED if len(memories) > SHORT else 0
    for little, some in groupby(memories, key=lambda memory: max(memory.attention) < least):
        run = list(some)
        if little and len(run) > 1:
            yield len(run)
        else:
            yield from run
