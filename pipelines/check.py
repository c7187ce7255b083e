"""``parapet check``: says what files are, and what is wrong with them, by kind and with the place."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.app import Command
from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.schemas.layout import is_there
from parapet.transforms.running import options
from parapet.transforms.running.options import REQUIRED, option

if TYPE_CHECKING:
    from parapet.transforms.check import Finding

SHOWN = 3  # findings of each kind


class Check(Command[None]):
    """``parapet check``."""

    name = "check"
    description = """Recognises a corpus, schemas, tools, tasks of agents, predictions, answers of annotators or a
        release by content, and lists what is wrong by kind, with the place and what to do. The exit status is 1 if
        there are errors, and 0 if there are only warnings."""
    example = "  parapet check my_corpus tools.json answers.csv"
    note = "Each line of --json is a finding: kind, severity, file, position, pointer (a JSON Pointer) and message."
    stopped = "nothing was changed"
    paths: list[str] = option(REQUIRED, "files and folders", metavar="PATH", path=True, positional=True)
    json: bool = option(False, "print all findings, as JSON lines", group=options.OUTPUT)

    def check(self) -> None:
        """Raises InputError if a path does not exist."""
        for path in self.paths:
            if not is_there(path):
                raise InputError("there is no such file or folder", path)

    def act(self, settings: None) -> int:
        """Prints the findings; returns the exit status."""
        from parapet.transforms.check import Contents, examine
        from parapet.transforms.release.reading import printable

        counts = Counter[tuple[str, str]]()
        shown: list[Finding] = []
        with running("parapet check"):
            for item in chain.from_iterable(map(examine, self.paths)):
                if isinstance(item, Contents):
                    if not self.json:
                        say(printable(f"{item.file}: {item.description}"))
                    continue
                counts[item.severity, item.kind] += 1
                if self.json:
                    print(json.dumps(msgspec.to_builtins(item)))
                elif counts[item.severity, item.kind] <= SHOWN:
                    shown.append(item)
        if not self.json:
            self._print(counts, shown)
        return EXIT_FAILURE if any(severity == "error" for severity, _ in counts) else 0

    def _print(self, counts: Counter[tuple[str, str]], shown: list[Finding]) -> None:
        """Prints the number of findings of each kind, and the first ones."""
        from parapet.transforms.check import KINDS
        from parapet.transforms.release.reading import printable

        for (severity, kind), n in sorted(counts.items()):
            print(f"\n{severity}: {printable(kind)}, {n:,}" + (f" ({KINDS[kind]})" if kind in KINDS else ""))
            for item in shown:
                if (item.severity, item.kind) == (severity, kind):
                    place = ": ".join(filter(None, (item.file, item.position or item.pointer)))
                    print(f"  {printable(f'{place}: {item.message}')}")
            if n > SHOWN:
                print(f"  and {n - SHOWN:,} more: --json lists all")
        errors = sum(n for (severity, _), n in counts.items() if severity == "error")
        say(f"\n{counted(errors, 'error')}, {counted(counts.total() - errors, 'warning')}")


COMMAND = Check
