"""The state of a suite's output between runs: what each step was made from.

A step runs again if its command, its inputs (by content) or Parapet's code have changed since the last run, or if its
output has been modified. A file is hashed again if its size, times or inode have changed.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from parapet.pipelines.suite.steps import SAMPLE, Step, place_of, references, texts
from parapet.schemas.errors import InputError, code_sha256
from parapet.schemas.layout import sample_root, stays_within
from parapet.transforms.running import plugins
from parapet.transforms.storage import disk

FOLDER = ".suite"  # folder in the output, with state, logs and locks
_PACKAGES = (
    *("apache-beam", "pyarrow", "numpy", "nltk", "rapidfuzz", "simplemma", "spacy", "torch", "transformers"),
    *("hibari-tts", "moonshine-voice"),
)


class Record(msgspec.Struct, frozen=True):
    """The record of how a step was made.

    Attributes:
      fingerprint: the hash of its command, inputs and code.
      output: the hash of its output; empty while it is running.
      command: the command line, with OUT for the suite's output folder.
    """

    fingerprint: str
    output: str
    command: str


class _Saved(msgspec.Struct):
    records: dict[str, Record] = {}
    hashes: dict[str, tuple[list[int], str]] = {}  # path to what identifies its content, and the hash


class State:
    """The records of an output folder.

    Args:
      output: the suite's output folder.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder = output, output / FOLDER
        self._saved = _Saved()
        with suppress(OSError, msgspec.DecodeError):  # if it is missing or damaged, all steps run again
            self._saved = msgspec.json.decode((self.folder / "state.json").read_bytes(), type=_Saved)
        self.records = self._saved.records
        self._code = _code()

    def fingerprint(self, step: Step, folder: Path) -> str:
        """Computes the fingerprint of a step whose inputs exist.

        Args:
          step: the step.
          folder: the folder from which relative paths start.
        """
        # A cache of answers grows while a step runs, and does not change its results.
        options = {key: value for key, value in step.options.items() if key != "cache"}
        paths = _paths([options, step.reads], folder, self.output)
        known = [self._code, step.name, step.command, options, step.files, step.reads]
        known += [self.hash_of(path) for path in paths if path.name not in step.files]
        if ":" in str(options.get("model", "")):
            known.append(source_hash(str(options["model"]), folder))
        if step.command[0] in ("compose", "compose_variations"):
            from parapet.transforms.crowd.worker_ids import load_worker_key

            known.append(hashlib.sha256(load_worker_key()).hexdigest())  # with another key, answers have other ids
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()

    def is_current(self, step: Step, fingerprint: str) -> bool:
        """Whether a step's output exists, is complete, and was made from the same inputs."""
        record = self.records.get(step.name)
        current = (fingerprint, self.hash_of(self.output / step.name))
        return record is not None and (record.fingerprint, record.output) == current

    def started(self, step: Step, fingerprint: str, command: Sequence[str]) -> None:
        """Records that a step is running, and deletes output that its command would not replace.

        An interrupted run of the same step continues from its files. A training with other options must not, and a
        release may be rebuilt under the same version until it is published.
        """
        before = self.records.get(step.name)
        other_training = step.command[0] == "train" and (before is None or before.fingerprint != fingerprint)
        if other_training or step.command == ("release", "build"):
            folder = self.output / step.name
            if not stays_within(str(self.output), step.name):
                raise InputError("leads outside of the suite's folder by a link: remove the link", folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
        words = [word.replace(f"{self.output}{os.sep}", f"OUT{os.sep}") for word in command]
        words = [word.replace(str(sample_root()), SAMPLE) for word in words]
        self.records[step.name] = Record(fingerprint, "", shlex.join(["parapet", *words]))
        self.save()

    def finished(self, step: Step) -> None:
        """Records that a step has finished."""
        output = self.hash_of(self.output / step.name)
        self.records[step.name] = msgspec.structs.replace(self.records[step.name], output=output)
        self.save()

    def output_of(self, name: str) -> str:
        """Returns the hash of a step's last finished output; empty if it has not finished."""
        return self.records[name].output if name in self.records else ""

    def hash_of(self, path: Path) -> str:
        """Hashes a file's content, or a folder's file names and contents; "missing" if the path does not exist."""
        if not path.is_dir():
            return self._hash_of_file(str(path))
        digest = hashlib.sha256()
        for file in sorted(_files(str(path))):
            line = f"{os.path.relpath(file, path)}\0{self._hash_of_file(file)}\0"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _hash_of_file(self, path: str) -> str:
        if not os.path.isfile(path):  # removed meanwhile, a broken link, or a FIFO, whose reading would block for ever
            return "missing"
        info = os.stat(path)
        # Two files with equal size and time may be swapped, such as extracted or generated ones; their inodes differ.
        facts = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._saved.hashes.get(path)
        if known is None or known[0] != facts:
            with open(path, "rb") as handle:
                known = facts, hashlib.file_digest(handle, "sha256").hexdigest()
            self._saved.hashes[path] = known
        return known[1]

    def save(self) -> None:
        """Writes the records to disk."""
        write(self.folder / "state.json", msgspec.json.encode(self._saved))


def write(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it; leaves a file with the same content untouched."""
    if not path.is_file() or path.read_bytes() != content:
        disk.write(path, content)


def _code() -> str:
    """Hashes Parapet's code, that of plug-ins, and the packages they depend on."""
    others = [
        [plugin.name, plugin.version, source_hash(plugin.target)]
        for group in plugins.GROUPS
        for plugin in plugins.installed(group)
        if not plugin.built_in
    ]
    return f"{code_sha256()} {json.dumps([versions(), others])}"


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that influence results."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def source_hash(target: str, folder: Path | None = None) -> str:
    """Hashes the user's code behind ``FILE.py:NAME`` or ``MODULE:NAME``; empty for ours and without a file.

    The hash covers the file, or all modules of the package, and unless it is installed what they import from its folder
    and from ``folder``, that of the suite's file, which is on the path while a model runs. Modules imported by computed
    names, and data files, are not covered.
    """
    place = target.rpartition(":")[0]
    roots = [folder] if folder else []
    if place.endswith(".py"):
        own = [((folder or Path()) / place).absolute()]
    else:
        top = place.partition(".")[0]  # parapet's own modules are part of code_sha256
        is_name = top.isidentifier() and top != "parapet"
        spec = PathFinder.find_spec(top, [*map(str, roots), *sys.path]) if is_name else None
        if spec is None:
            return ""
        own = list(map(Path, spec.submodule_search_locations or [spec.origin or ""]))
    files = {file for path in own for file in (path.rglob("*.py") if path.is_dir() else [path])}
    root = own[0].parent
    if root.name not in ("site-packages", "dist-packages"):
        files = _with_imports(files, [root, *roots])
    digest = hashlib.sha256()
    for file in sorted(filter(Path.is_file, files)):
        digest.update(f"{os.path.relpath(file, root)}\0".encode("utf-8", "surrogateescape") + file.read_bytes())
    return digest.hexdigest()


def _with_imports(first: Iterable[Path], roots: Sequence[Path]) -> set[Path]:
    """Lists files and the files below the roots that they import, directly or indirectly."""
    files, waiting = set[Path](), list(first)
    while waiting:
        file = waiting.pop()
        if file in files or not file.is_file():
            continue
        files.add(file)
        with suppress(SyntaxError, ValueError):  # the step will report it
            for node in ast.walk(ast.parse(file.read_bytes())):
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    continue
                level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
                for place, alias in itertools.product([*file.parents][level - 1 : level] or roots, node.names):
                    for name in module.split(".") + alias.name.split("."):
                        place /= name
                        waiting += [place.with_suffix(".py"), place / "__init__.py"]
    return files


def _paths(value: object, folder: Path, output: Path) -> Iterator[Path]:
    """Yields the paths that options name: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    for text in texts(value):
        for reference in references(text):
            yield Path(place_of(reference, output))
        for part in dict.fromkeys([text, text.partition("=")[2], text.rpartition(":")[0], *text.split(",")]):
            with suppress(OSError, ValueError):  # not the name of a file
                if part and not part.startswith("@") and (folder / part).exists():
                    yield folder / part


def _files(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yields all files below a folder, also through links, except for those of interrupted runs and of suites."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that contains it
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield path
        elif name not in ("__pycache__", ".incomplete", FOLDER) and not os.path.isdir(os.path.join(path, FOLDER)):
            yield from _files(path, (*above, real))
