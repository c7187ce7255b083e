"""Presets of models: a paper's settings, as flags that other flags override."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

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
        """Parses strictly. A preset's flags come first, so that those of the command line win."""
        argv = self.check_flags(sys.argv[1:] if argv is None else argv, tuple)
        given_flags = {action.dest for token in argv if (action := self._action_of(token))}
        left_out = EPOCHS if "steps" in given_flags else STEPS if "epochs" in given_flags else ()
        preset = {flag: value for flag, value in self._preset_of(argv).items() if flag not in left_out}
        if preset:
            preset = {**preset, **self.row_of(super().parse(argv)[0])}
        args, rest = super().parse([*_flags(preset), *argv])
        if hasattr(args, "steps"):
            self._settle_length(args, given_flags)
        return args, rest

    def _action_of(self, token: str) -> argparse.Action | None:
        return self._option_string_actions.get(token.partition("=")[0])

    def _preset_of(self, argv: Sequence[str]) -> Preset:
        """Returns the requested preset; empty if there is none, or an unknown one that argparse will refuse."""
        table: Preset = {}
        for number, token in enumerate(argv):
            flag, equals, value = token.partition("=")
            if flag == "--preset":
                name = value if equals else "".join(argv[number + 1 : number + 2])
                table = self.presets.get(name, {})
        return table

    def _settle_length(self, args: argparse.Namespace, given: Iterable[str]) -> None:
        """Sets either epochs and patience or steps. Exits if a flag belongs to the other of the two."""
        by_steps = args.steps is not None
        for flag, other in (("patience", "epochs"), ("eval_steps", "steps")):
            if flag in given and by_steps == (other == "epochs"):
                self.error(f"argument --{flag}: requires --{other}")
        if "patience" in given and args.keep == "last":
            self.error("argument --patience: requires --keep best: with --keep last nothing stops the training early")
        if by_steps:
            args.epochs = args.patience = None
            if args.eval_steps is None:
                args.eval_steps = max(1, args.steps // MEASUREMENTS)


def _flags(table: Preset) -> list[str]:
    """Formats a preset as a command line."""
    pairs = [(f"--{flag}", value) for flag, value in table.items()]
    return [part for flag, value in pairs for part in ([flag] if value is True else [flag, str(value)])]
