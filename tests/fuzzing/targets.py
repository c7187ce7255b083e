"""All targets: the cases of commands, the readers and the functions of one record."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from fuzzing import functions, of_dialogues, of_rows, readers
from fuzzing.cases import Case
from fuzzing.running import Found, Workshop, round_of
from fuzzing.watching import Finding


class Target(NamedTuple):
    """What is run on mutated input.

    Attributes:
      name: the command, reader or function, and which of its inputs.
      round: runs it on new mutations: how many records, and what was found.
      again: runs it on the records or the bytes of a finding: what is wrong.
    """

    name: str
    round: Callable[[Workshop, Random, set[str]], tuple[int, list[Found]]]
    again: Callable[[Workshop, Found], list[Finding]]

    @property
    def command(self) -> str:
        """By what records are counted: a command of ``parapet``, or the name of a function."""
        return self.name.split()[0]


def _round(case: Case, workshop: Workshop, rng: Random, known: set[str]) -> tuple[int, list[Found]]:
    return round_of(workshop, case, rng, known)


def _again(case: Case, workshop: Workshop, found: Found) -> list[Finding]:
    return workshop.findings(case, found.records, found.data)


def _reader_again(reader: readers.Reader, workshop: Workshop, found: Found) -> list[Finding]:
    reader.seed(workshop.shared)  # it may be read beside others
    return readers.again(reader, workshop, found.data or b"")


def _function_again(function: functions.Function, workshop: Workshop, found: Found) -> list[Finding]:
    return functions.again(function, workshop, json.loads(found.records[0]))


CASES: list[Case] = [*of_dialogues.CASES, *of_rows.CASES]
ALL: list[Target] = [
    *(Target(case.name, partial(_round, case), partial(_again, case)) for case in CASES),
    *(
        Target(reader.name, partial(readers.round_of, reader), partial(_reader_again, reader))
        for reader in readers.READERS
    ),
    *(Target(one.name, partial(functions.round_of, one), partial(_function_again, one)) for one in functions.FUNCTIONS),
]
