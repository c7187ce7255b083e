"""The rule-based bot (Bordes et al. 2017, section 4.1): it knows the patterns of a domain, and learns nothing."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.transforms.babi_format import BabiDialogue, Exchange
from parapet.transforms.restaurants.bot import Bot, Rules
from parapet.transforms.restaurants.ontology import default_ontology, read_ontology


class RuleBot:
    """The simulator's bot, which hears what was really said before each turn.

    Args:
      ontology: of the domain, in TOML; empty for that of the simulator.
    """

    def __init__(self, ontology: str) -> None:
        self.rules = Rules(read_ontology(ontology.encode(), "ontology") if ontology else default_ontology())

    def answers(self, dialogues: Sequence[BabiDialogue]) -> list[list[str]]:
        """The answers at each turn of each dialogue; empty where no rule applies."""
        return [self._of_dialogue(dialogue) for dialogue in dialogues]

    def _of_dialogue(self, dialogue: BabiDialogue) -> list[str]:
        bot = Bot(self.rules)
        found = []
        for line in dialogue.lines:
            if isinstance(line, Exchange):
                found.append(bot.answer(line.user))
                bot.hear(line.bot)
            else:
                bot.read(line)
        return found
