"""``parapet check``: says what files are, and what is wrong with them, by kind and with the place."""

import json
from collections import Counter
from itertools import chain

import msgspec

from parapet.pipelines.app import Command
from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.schemas.layout import is_there
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option

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
        from parapet.transforms.check import KINDS, RECOGNISED, examine
        from parapet.transforms.release.reading import printable

        counts, severities = Counter[tuple[str, str]](), Counter[str]()
        shown: dict[tuple[str, str], list[str]] = {}
        with running("parapet check"):
            for finding in chain.from_iterable(map(examine, self.paths)):
                place = ": ".join(filter(None, (finding.file, finding.position or finding.pointer)))
                line = printable(f"{place}: {finding.message}")
                if finding.kind == RECOGNISED:
                    if not self.json:
                        say(line)
                    continue
                kind = finding.severity, finding.kind
                counts[kind] += 1
                severities[finding.severity] += 1
                if self.json:
                    print(json.dumps(msgspec.to_builtins(finding)))
                elif counts[kind] <= SHOWN:
                    shown.setdefault(kind, []).append(f"  {line}")
        for (severity, kind_name), lines in sorted(shown.items()):
            n, meaning = counts[severity, kind_name], KINDS.get(kind_name)
            print(f"\n{severity}: {printable(kind_name)}, {n:,}" + (f" ({meaning})" if meaning else ""))
            print(*lines, sep="\n")
            if n > SHOWN:
                print(f"  and {n - SHOWN:,} more: --json lists all")
        if not self.json:
            say(f"\n{counted(severities['error'], 'error')}, {counted(severities['warning'], 'warning')}")
        return EXIT_FAILURE if severities["error"] else 0


COMMAND = Check
