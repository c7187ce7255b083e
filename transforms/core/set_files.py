"""The files in the sets of a run made from one dialogue file, in the SGD layout."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from parapet.schemas.dialogue import BETWEEN, CLOSING, EMPTY, OPENING
from parapet.transforms.core.files import HashingWriter, Written, staged


class SetFiles:
    """The files in a run's sets made from one dialogue file. A file is opened when its first dialogue is added.

    Args:
      output: the output folder.
      sets: the folder of each set below it; empty if the set is the output folder itself.
      relative: the path of the dialogue file below each set.
      stack: closes the files; where it ends by an exception none of them is there.
      lines: whether a file is the texts alone, one after another, and not a list of them.

    Attributes:
      dialogues: the number of dialogues by set.
    """

    def __init__(self, output: str, sets: Iterable[str], relative: str, stack: ExitStack, lines: bool = False) -> None:
        self.dialogues = dict.fromkeys(sets, 0)
        self._output, self._relative, self._stack = output, relative, stack
        self._framing = (b"", b"", b"", b"") if lines else (OPENING, BETWEEN, CLOSING, EMPTY)
        self._writers: dict[str, HashingWriter] = {}

    def add(self, name: str, text: bytes) -> None:
        """Add a dialogue to a set, as formatted by ``dialogue_text``."""
        writer = self._writers.get(name) or self._open(name)
        opening, between, _, _ = self._framing
        writer.write((between if self.dialogues[name] else opening) + text)
        self.dialogues[name] += 1

    def close(self, keep_empty: bool = True) -> None:
        """Finish the files. A set without dialogues has an empty list, or no file unless ``keep_empty``."""
        _, _, closing, empty = self._framing
        for name, n in self.dialogues.items():
            if n:
                self._writers[name].write(closing)
            elif keep_empty:
                self._open(name).write(empty)

    def written(self) -> list[Written]:
        """Return the written files after the stack is closed."""
        return [self._writers[name].written(self._path(name)) for name in self.dialogues if name in self._writers]

    def _open(self, name: str) -> HashingWriter:
        handle = self._stack.enter_context(staged(self._output, self._path(name)))
        self._writers[name] = HashingWriter(handle)
        return self._writers[name]

    def _path(self, name: str) -> str:
        return f"{name}/{self._relative}" if name else self._relative
