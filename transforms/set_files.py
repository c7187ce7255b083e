"""One dialogue file as several sets have it: dialogues go in one by one, whole files come out in staging."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING
from parapet.transforms.files import HashingWriter, Written, staged


class SetFiles:
    """The files of a run's sets that come of one dialogue file.

    Args:
      output: the output folder.
      names: the sets: folders below it.
      relative: the dialogue file's path below each set.
      stack: closes the files; where it ends by an exception none of them is there.
    """

    def __init__(self, output: str, names: Iterable[str], relative: str, stack: ExitStack) -> None:
        self.relative = relative
        self._writers = {
            name: HashingWriter(stack.enter_context(staged(output, f"{name}/{relative}"))) for name in names
        }
        self.dialogues = dict.fromkeys(self._writers, 0)

    def add(self, name: str, text: bytes) -> None:
        """Takes a dialogue of one set, as ``dialogue_text`` has it."""
        writer = self._writers[name]
        writer.write(BETWEEN if self.dialogues[name] else OPENING)
        writer.write(text)
        self.dialogues[name] += 1

    def close(self) -> None:
        """Ends the files; one without a dialogue is an empty list."""
        for name, writer in self._writers.items():
            writer.write(CLOSING if self.dialogues[name] else EMPTY)

    def written(self) -> list[Written]:
        """What was written, once the stack is closed."""
        return [writer.written(f"{name}/{self.relative}") for name, writer in self._writers.items()]
