"""The rule-based bot of tasks 1 to 5 as a model, with the patterns of an ontology or those learned from files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from parapet.evaluation.models.babi.data import read_dialogues, read_facts, task_of
from parapet.evaluation.models.babi.saving import Answerer, Card
from parapet.transforms.babi_format import BabiDialogue
from parapet.transforms.restaurants.bot import Bot, Course, Rules, ValueFinder, answered
from parapet.transforms.restaurants.learning import learn
from parapet.transforms.restaurants.ontology import default_ontology, read_ontology
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
