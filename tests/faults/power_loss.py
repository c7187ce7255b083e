"""What a disk may hold after a power failure: any of the states that POSIX allows, made from the trace of a program.

The model is stricter than any file system in use. Only fsync keeps anything: that of a file its content, that of a
folder the names in it. Whatever else happened may be on the disk or not, in any order: a name without the content, the
content in part, a rename without the one before it. A rename is one step: the old name or the new one.
"""

import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kit import write

from faults.operations import Operation

Tree = dict[str, bytes]  # path below the root -> content


class _Change(NamedTuple):
    """A name in a folder that is not synchronised: it is set to a node, or gone."""

    step: int  # changes of one step are on the disk together
    folder: int
    name: str
    node: int | None


class Disk:
    """A folder as the program sees it, and as it is on the disk.

    Args:
      root: the folder; that it is there is certain.
      tree: what was in it, on the disk, when the trace began.
      folders: those that were there, empty ones too.
    """

    def __init__(self, root: Path, tree: Mapping[str, bytes], folders: Iterable[str] = ()) -> None:
        self.root = str(root)
        self.seen: dict[int, dict[str, int]] = {0: {}}  # folder -> name -> node, the step that made it
        self.kept: dict[int, dict[str, int]] = {0: {}}
        self.content: dict[int, bytearray] = {}
        self.kept_content: dict[int, bytes] = {}
        self.changes: list[_Change] = []
        self._step = 0
        for folder in folders:
            self.apply(Operation("mkdir", f"{root}/{folder}", "", 0, b""))
        for path, data in tree.items():
            self.apply(Operation("create", f"{root}/{path}", "", 0, b""))
            self.apply(Operation("write", f"{root}/{path}", "", 0, data))
        self.kept = {folder: dict(names) for folder, names in self.seen.items()}
        self.kept_content = {node: bytes(content) for node, content in self.content.items()}
        self.changes = []

    def _place(self, path: str) -> tuple[int, str]:
        """The folder of a path, and its name there."""
        *parents, name = os.path.relpath(path, self.root).split("/")
        node = 0
        for part in parents:
            node = self.seen[node][part]
        return node, name

    def _node(self, path: str) -> int:
        if path.rstrip("/") == self.root:
            return 0
        folder, name = self._place(path)
        return self.seen[folder][name]

    def _set(self, path: str, node: int | None) -> None:
        folder, name = self._place(path)
        if node is None:
            self.seen[folder].pop(name, None)
        else:
            self.seen[folder][name] = node
        self.changes.append(_Change(self._step, folder, name, node))

    def apply(self, operation: Operation) -> None:
        """What an operation does, to what the program sees."""
        self._step += 1
        kind, path = operation.kind, operation.path
        if kind == "mkdir":
            self.seen[self._step], self.kept[self._step] = {}, {}
            self._set(path, self._step)
        elif kind == "create":
            self.content[self._step], self.kept_content[self._step] = bytearray(), b""
            self._set(path, self._step)
        elif kind == "truncate":
            del self.content[self._node(path)][operation.at :]
        elif kind == "write":
            content = self.content[self._node(path)]
            content.extend(bytes(max(0, operation.at - len(content))))
            content[operation.at : operation.at + len(operation.data)] = operation.data
        elif kind in ("unlink", "rmdir"):
            self._set(path, None)
        elif kind == "rename":
            self._set(operation.other, self._node(path))
            self._set(path, None)
        elif kind == "link":
            self._set(operation.other, self._node(path))
        elif kind == "fsync":
            node = self._node(path)
            if node in self.content:
                self.kept_content[node] = bytes(self.content[node])
            else:
                for change in self.changes:
                    if change.folder == node:
                        _keep(self.kept, change)
                self.changes = [change for change in self.changes if change.folder != node]

    def states(self, drawn: random.Random, subsets: int) -> Iterator[tuple[str, Tree]]:
        """What may be there if the power fails now; each with what has been kept of what was not synchronised.

        Args:
          drawn: draws subsets.
          subsets: how many.
        """
        steps = sorted({change.step for change in self.changes})
        yield "nothing", self._tree(set(), lambda node: "none")
        for content in ("none", "torn", "zeros", "all"):
            yield f"names, content: {content}", self._tree(set(steps), lambda node, content=content: content)
        for step in steps:
            yield f"one step, {step}", self._tree({step}, lambda node: "none")
            yield f"all but step {step}", self._tree(set(steps) - {step}, lambda node: "none")
        for number in range(subsets if steps else 0):
            kept = {step for step in steps if drawn.random() < drawn.choice((0.2, 0.5, 0.8))}
            contents = {node: drawn.choice(("none", "torn", "zeros", "all")) for node in self.content}
            yield f"subset {number}", self._tree(kept, lambda node, contents=contents: contents[node])

    def _tree(self, steps: set[int], how: object) -> Tree:
        names = {folder: dict(entries) for folder, entries in self.kept.items()}
        for change in self.changes:
            if change.step in steps:
                _keep(names, change)
        tree: Tree = {}

        def walk(folder: int, place: str) -> None:
            for name, node in names.get(folder, {}).items():
                if node in self.content:
                    tree[f"{place}{name}"] = self._content(node, how(node))
                else:
                    tree[f"{place}{name}/"] = b""
                    walk(node, f"{place}{name}/")

        walk(0, "")
        return tree

    def _content(self, node: int, how: str) -> bytes:
        seen, kept = bytes(self.content[node]), self.kept_content[node]
        if seen == kept or how == "none":
            return kept
        torn, zeros = seen[: (len(seen) + len(kept)) // 2], kept + bytes(len(seen) - len(kept))
        return {"all": seen, "torn": torn, "zeros": zeros}[how]


def _keep(names: dict[int, dict[str, int]], change: _Change) -> None:
    entries = names.setdefault(change.folder, {})
    if change.node is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.node


def read_tree(root: Path) -> tuple[Tree, list[str]]:
    """The files below a folder with their contents, and the folders."""
    found = sorted(root.rglob("*"))
    files = {str(path.relative_to(root)): path.read_bytes() for path in found if path.is_file()}
    return files, [str(path.relative_to(root)) for path in found if path.is_dir()]


def put(root: Path, tree: Tree) -> None:
    """Makes a folder of a state."""
    root.mkdir(parents=True, exist_ok=True)
    for path, data in sorted(tree.items()):
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            write(root / path, data)


def after_power_failures(
    root: Path, before: tuple[Tree, list[str]], trace: Sequence[Operation], subsets: int, seed: int = 0
) -> Iterator[tuple[int, str, Tree]]:
    """Each different state after each prefix of a trace, with the number of operations and what was kept of them."""
    disk, drawn, known = Disk(root, *before), random.Random(seed), set()
    for number in range(len(trace) + 1):
        if number:
            disk.apply(trace[number - 1])
        for kept, tree in disk.states(drawn, subsets):
            key = hash(frozenset(tree.items()))
            if key not in known:
                known.add(key)
                yield number, kept, tree
