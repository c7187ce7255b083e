"""Rules from a file as a model, for task 6 of the bAbI dialog tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import resources

import msgspec

from parapet.evaluation.models.babi.data import read_candidates, read_dialogues, read_facts, task_of
from parapet.evaluation.models.babi.saving import Answerer, Card
from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import BabiDialogue
from parapet.transforms.dstc2.rules import (
    Script,
    Texts,
    answers_of,
    extracted,
    optimised,
    read_script,
    values_of,
)
from parapet.transforms.toml import toml_of

RULES = "rules.toml"


class ScriptBot(Answerer):
    """Rules from a file, with the texts of their patterns.

    Args:
      script: the rules.
      values: slot to its values.
      candidates: what may be answered; empty for anything.
    """

    def __init__(self, script: Script, values: Mapping[str, Sequence[str]], candidates: Sequence[str]) -> None:
        self.script, self.texts, self.candidates = script, Texts(script, values), frozenset(candidates)

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """The only answer at each turn of each dialogue; empty where no rule fires."""
        return [
            [[answer] for answer in answers_of(self.script, self.texts, self.candidates, dialogue)]
            for dialogue in dialogues
        ]


def built_in_rules() -> bytes:
    """Those for task 6 that come with Parapet."""
    return (resources.files("parapet.transforms.dstc2") / "task6_rules.toml").read_bytes()


def scripted_card(
    data: bytes, path: str, train: Sequence[str], dev: Sequence[str], knowledge: str, candidates: str | None
) -> Card:
    """A model of rules: patterns are extracted from ``train``, the order of rules is chosen on ``dev``.

    Args:
      data: the rules, in TOML.
      path: of the rules, for messages.
      train: files of dialogues.
      dev: files of dialogues; none to keep the order of the file.
      knowledge: the file of the knowledge base.
      candidates: the file of what may be answered; None for anything.

    Raises:
      InputError: a file that cannot be read or used, or no pattern has a text in ``train``.
    """
    script = read_script(data, path)
    dialogues = [one for name in train for one in read_dialogues(name)]
    texts = read_candidates(candidates) if candidates is not None else []
    values = values_of(script, dialogues, read_facts(knowledge))
    finder = Texts(script, values)
    script = extracted(script, dialogues, finder)
    without = [name for name, pattern in script.patterns.items() if not pattern.text]
    if len(without) == len(script.patterns):
        raise InputError("no pattern selects any response of --train: are they of this domain?", path)
    if without:
        logging.warning("%s: no response of --train for the patterns %s", path, ", ".join(without))
    if held_out := [one for name in dev for one in read_dialogues(name)]:
        script, before, after = optimised(script, finder, frozenset(texts), held_out)
        message = "%.1f %% of the responses of --dev are right, %.1f %% in the order of the file"
        logging.info(message, 100 * after, 100 * before)
    return Card(model="rules", task=task_of([*train, *dev]), candidates=texts, knowledge=values, script=script)


def files_of_script(card: Card) -> dict[str, bytes]:
    """The rules beside the model, in the chosen order and with the texts of their patterns."""
    assert card.script is not None
    return {RULES: toml_of(msgspec.json.decode(msgspec.json.encode(card.script))).encode()}
