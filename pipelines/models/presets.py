"""Presets of models: a paper's settings, as flags that other flags override."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parapet.pipelines.flags import StrictParser

Preset = Mapping[str, str | int | float | bool]  # flag, without dashes, to its value; True for a flag without a value

EPOCHS, STEPS = ("epochs", "patience"), ("steps", "eval_steps")
MEASUREMENTS = 10  # evaluations of the dev set during a training by --steps, unless --eval_steps is set


class TrainingParser(StrictParser):
    """The parser of a training: adds the flags of a preset, and settles whether epochs or steps end the training.

    Args:
      name, description, example, note: see :class:`StrictParser`.
      presets: by name.
      row_of: returns further flags of a preset that depend on other flags, see :meth:`Family.preset_row`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        example: str,
        note: str,
        presets: Mapping[str, Preset],
        row_of: Callable[[argparse.Namespace], Preset] = lambda _: {},
    ) -> None:
        super().__init__(name, description, example, note)
        self.presets, self.row_of = presets, row_of
        if presets:
            text = "settings of a paper, see below"
            self.group("training")("--preset", choices=list(presets), help=text)
            self.terms["presets"] = {preset: " ".join(_flags(table)) for preset, table in presets.items()}

    def parse(self, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        """Parses strictly. Flags of the command line win over those of a preset."""
        argv = self.check_flags(sys.argv[1:] if argv is None else argv, tuple)
        given = self.parse_args(argv, argparse.Namespace(**dict.fromkeys((*EPOCHS, *STEPS))))
        preset = dict(self.presets.get(getattr(given, "preset", None) or "", {}))
        if preset:
            preset |= self.row_of(given)
        for name in EPOCHS if given.steps is not None else STEPS if given.epochs is not None else ():
            preset.pop(name, None)
        args = self.parse_args(argv, argparse.Namespace(**{name: self._typed(name, preset[name]) for name in preset}))
        if "--steps" in self.flags:
            self._settle_length(args, given)
        return args, []

    def _typed(self, name: str, value: str | int | float | bool) -> Any:
        kind = self.flags[f"--{name}"].type
        return kind(str(value)) if callable(kind) else value

    def _settle_length(self, args: argparse.Namespace, given: argparse.Namespace) -> None:
        """Sets either epochs and patience or steps. Exits if a flag belongs to the other of the two."""
        by_steps = args.steps is not None
        for flag, other in (("patience", "epochs"), ("eval_steps", "steps")):
            if getattr(given, flag) is not None and by_steps == (other == "epochs"):
                self.error(f"argument --{flag}: requires --{other}")
        if given.patience is not None and args.keep == "last":
            self.error("argument --patience: requires --keep best: with --keep last nothing stops the training early")
        if by_steps:
            args.epochs = args.patience = None
            if args.eval_steps is None:
                args.eval_steps = max(1, args.steps // MEASUREMENTS)


def _flags(table: Preset) -> list[str]:
    """Formats a preset as a command line."""
    pairs = [(f"--{flag}", value) for flag, value in table.items()]
    return [part for flag, value in pairs for part in ([flag] if value is True else [flag, str(value)])]
