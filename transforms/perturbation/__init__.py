"""The framework of perturbations; this module declares them as commands, and imports nothing heavy, for fast help."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a perturbation as a flag.

    Attributes:
      name: the name of the flag, and of the keyword argument of the class.
      help: the text in help.
      metavar: the placeholder for its value; empty for switches and flags with choices.
      default: the default of the flag.
      choices: the allowed values.
      type: the type of its value.
      many: whether it accepts several values.
      reads: whether its values are files or folders that must exist.
      apart: whether its value may be a folder, which must differ from the output.
      rare: whether only ``--help-all`` shows it.
    """

    name: str
    help: str
    metavar: str = ""
    default: Any = None
    choices: Container[str] | None = None
    type: type = str
    many: bool = False
    reads: bool = False
    apart: bool = False
    rare: bool = False

    def flag(self) -> dict[str, Any]:
        """Return the arguments for ``add`` of a parser's group."""
        flag: dict[str, Any] = {"help": self.help, "rare": self.rare}
        if not self.metavar and self.choices is None:
            return flag | {"action": "store_true"}
        flag |= {"reads": self.reads, "apart": self.apart, "type": self.type}
        flag |= {"required": True} if self.default is REQUIRED else {"default": self.default}
        further = {"metavar": self.metavar or None, "choices": self.choices, "nargs": "+" if self.many else None}
        return flag | {name: value for name, value in further.items() if value is not None}


REQUIRED: Any = object()  # the default of a required flag


class Command(NamedTuple):
    """The command of a perturbation.

    Attributes:
      target: ``module:class``.
      description: the description in help.
      examples: command lines.
      groups: the options of this perturbation, by the title of their group in help.
      records: the records that ``--max_bad`` is a share of.
      done: what could not be done to a bad record, for messages.
      unusable: what becomes of bad records, for messages.
      has_messages: whether it perturbs chat messages, too, which have no annotation.
      has_split: whether it perturbs some splits; else all there are.
      has_seed: whether something is drawn.
      has_dry_run: whether it can say what a run would cost: its class has ``plan_lines``.
      is_slow: whether a few dialogues repay the start of several workers.
    """

    target: str
    description: str
    examples: str
    groups: Mapping[str, Sequence[Option]] = {}
    records: str = "dialogues"
    done: str = "perturbed"
    unusable: str = "left out"
    has_messages: bool = False
    has_split: bool = True
    has_seed: bool = True
    has_dry_run: bool = False
    is_slow: bool = False

    @property
    def options(self) -> list[Option]:
        """Return the options of all groups."""
        return [option for options in self.groups.values() for option in options]
