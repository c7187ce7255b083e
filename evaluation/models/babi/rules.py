"""Rules as models: the bot of tasks 1 to 5, with patterns given or learned, and rules from a file for task 6."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import resources
from types import MappingProxyType

import msgspec

from parapet.evaluation.models.babi.data import Answerer, Card, read_candidates, read_dialogues, read_facts, task_of
from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import BabiDialogue
from parapet.transforms.simulators.restaurants.bot import Bot, Course, Rules, ValueFinder, answered
from parapet.transforms.simulators.restaurants.learning import learn
from parapet.transforms.simulators.restaurants.ontology import default_ontology, read_ontology
from parapet.transforms.simulators.task6.rules import (
    Script,
    Texts,
    answers_of,
    extracted,
    optimised,
    read_script,
    values_of,
)
from parapet.transforms.toml import toml_of

ONTOLOGY = "ontology.toml"


class RuleBot(Answerer):
    """The bot, which hears what was really said before each turn.

    Args:
      ontology: of the domain, in TOML; empty for that of the simulator.
      knowledge: field to its values, and ``name`` to entities; empty where they are not known.
      course: where dialogues go on in another way than usual.

    Attributes:
      not_understood: turns of the user, in the dialogues last answered, that no pattern matched.
    """

    def __init__(
        self,
        ontology: str,
        knowledge: Mapping[str, Sequence[str]] = MappingProxyType({}),
        course: Course | None = None,
    ) -> None:
        domain = read_ontology(ontology.encode(), ONTOLOGY, simulated=False) if ontology else default_ontology()
        self.rules = Rules(domain, ValueFinder(knowledge) if knowledge else None, course)
        self.not_understood = 0

    def ranked(self, dialogues: Sequence[BabiDialogue], top: int) -> list[list[list[str]]]:
        """The only answer at each turn of each dialogue; empty where no rule applies."""
        bots = [Bot(self.rules) for _ in dialogues]
        found = [[[answer] for _, answer in answered(bot, one)] for bot, one in zip(bots, dialogues, strict=True)]
        self.not_understood = sum(bot.not_understood for bot in bots)
        return found


def learned_card(train: Sequence[str], knowledge: str) -> Card:
    """A model learned from files. Warns where it cannot answer them as they are answered.

    Args:
      train: files of dialogues, of one or more of tasks 1 to 5.
      knowledge: the file of the knowledge base.

    Raises:
      InputError: a file that cannot be read, or a knowledge base of something else.
    """
    read = {path: read_dialogues(path) for path in train}
    learned = learn([one for dialogues in read.values() for one in dialogues], read_facts(knowledge), knowledge)
    tasks = {task_of([path]) for path in train}
    card = Card(
        model="rules",
        task=tasks.pop() if len(tasks) == 1 else "",
        ontology=toml_of(learned.ontology),
        knowledge=learned.values,
        course=learned.course,
    )
    for act, text in learned.dropped:
        logging.warning("%r is left out: as %s it needs the gap of its value, once, and no other", text, act)
    bot = RuleBot(card.ontology, card.knowledge, card.course)
    for path, dialogues in read.items():
        pairs = [
            (dialogue.line, one, answer)
            for dialogue, answers in zip(dialogues, bot.answers(dialogues), strict=True)
            for one, answer in zip(dialogue.exchanges, answers, strict=True)
        ]
        wrong = [(line, one) for line, one, answer in pairs if answer != one.bot]
        if wrong:
            line, one = wrong[0]
            message = "%s: the rules learned find %s of %s answers; another one than %r in the dialogue from line %d"
            logging.warning(message, path, f"{len(pairs) - len(wrong):,}", f"{len(pairs):,}", one.bot, line)
    return card


def files_of_rules(card: Card) -> dict[str, bytes]:
    """The ontology beside the model, for ``parapet restaurants``; where it is not that of the simulator."""
    return {ONTOLOGY: card.ontology.encode()} if card.ontology else {}


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
    return (resources.files("parapet.transforms.simulators.task6") / "task6_rules.toml").read_bytes()


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
