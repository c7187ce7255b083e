"""What a suite remembers between runs: from what each step was made, and the bytes that it wrote.

A step is made again where its options, its inputs (by content) or Parapet's code differ from those of the last time,
or where its output is not what it wrote. A file is hashed again when its size, its times or its inode have changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.suite.steps import SAMPLE, Options, Step, place_of, references
from parapet.schemas.errors import InputError, code_sha256
from parapet.schemas.layout import sample_root, stays_within
from parapet.transforms import disk, plugins

FOLDER = ".suite"  # below the output: state, logs, locks
_STATE, _HASHES, _SETS = "state.json", "hashes.json", "sets.json"
_PACKAGES = (
    *("apache-beam", "pyarrow", "numpy", "nltk", "rapidfuzz", "simplemma", "spacy", "torch", "transformers"),
    "pocketsphinx",
)


class Record(msgspec.Struct, frozen=True):
    """From what a step was made.

    Attributes:
      fingerprint: of its options, inputs and code.
      output: hash of what it wrote; empty while it is being made.
      seconds: how long it took.
      command: as one would type it, with OUT for the suite's output folder.
    """

    fingerprint: str
    output: str
    seconds: float
    command: str


class State:
    """The records of an output folder.

    Args:
      output: the suite's output folder.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder, self.logs = output, output / FOLDER, output / FOLDER / "logs"
        self.records: dict[str, Record] = _read(self.folder / _STATE, dict[str, Record])
        self._hashes: dict[str, tuple[list[int], str]] = _read(self.folder / _HASHES, dict[str, tuple[list[int], str]])
        self._sets: dict[str, tuple[list[str], bool]] = _read(self.folder / _SETS, dict[str, tuple[list[str], bool]])
        self._code = _code()

    def sets_of(self, perturbation: str, options: Options) -> tuple[Sequence[str], bool]:
        """The sets that a perturbation makes, remembered: to look at its class takes Beam, and seconds."""
        from parapet.pipelines.suite.options import sets_of

        key = hashlib.sha256(
            json.dumps([self._code, perturbation, options], sort_keys=True, default=str).encode()
        ).hexdigest()
        if key not in self._sets:
            sets, in_folders = sets_of(perturbation, options)
            self._sets[key] = list(sets), in_folders
        return self._sets[key]

    def fingerprint(self, step: Step, folder: Path) -> str:
        """The fingerprint of a step whose inputs are there.

        Args:
          step: the step.
          folder: where relative paths start.
        """
        own = {str(self.output / path) for path in step.files}

        def described(value: object) -> object:
            """A value with the content of what it names. The place of an input outside does not count."""
            if isinstance(value, Mapping):
                return {key: described(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [described(item) for item in value]
            if not isinstance(value, str):
                return value
            places = [place for place in _places(value, folder, self.output) if place not in own]
            return [os.path.basename(value) if os.path.isabs(value) else value, *map(self.hash_of, map(Path, places))]

        known = [self._code, step.name, step.command, described(step.options), step.files, described(step.reads)]
        if ":" in str(step.options.get("model", "")):
            known.append(source_hash(str(step.options["model"]), folder))
        if step.pipeline in ("compose", "compose_variations"):
            known.append(_worker_key())
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()

    def is_current(self, step: Step, fingerprint: str) -> bool:
        """Whether a step's output is there, whole, and made from the same."""
        record = self.records.get(step.name)
        return (
            record is not None
            and record.fingerprint == fingerprint
            and record.output == self.hash_of(self.output / step.name)
        )

    def finished(self, step: Step, seconds: float) -> None:
        """Records that a step is done."""
        record, output = self.records[step.name], self.hash_of(self.output / step.name)
        self.records[step.name] = msgspec.structs.replace(record, output=output, seconds=round(seconds, 3))
        self.save()

    def started(self, step: Step, fingerprint: str, command: Sequence[str]) -> None:
        """Records that a step is being made, and clears away what its command would not replace.

        A broken-off run of the same step goes on where it was; a training of other options must not, and a release of
        this suite is rebuilt under its version until it is published.
        """
        record = self.records.get(step.name)
        folder = self.output / step.name
        other_training = step.pipeline == "train" and (record is None or record.fingerprint != fingerprint)
        if other_training or step.command == ("release", "build"):
            if not stays_within(str(self.output), step.name):
                raise InputError("leads outside of the suite's folder by a link: remove the link", folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
        words = [word.replace(f"{self.output}{os.sep}", f"OUT{os.sep}") for word in command]
        words = [word.replace(str(sample_root()), SAMPLE) for word in words]
        seconds = record.seconds if record is not None else 0.0
        self.records[step.name] = Record(fingerprint, "", seconds, shlex.join(["parapet", *words]))
        self.save()

    def output_of(self, name: str) -> str:
        """The hash of what a step wrote when it last finished; empty where it has not."""
        record = self.records.get(name)
        return record.output if record is not None else ""

    def hash_of(self, path: Path) -> str:
        """The hash of a file's content, or of a folder's file names and contents; of what is not there, "missing"."""
        if path.is_dir():
            digest = hashlib.sha256()
            for file in sorted(_files(str(path))):
                digest.update(
                    f"{os.path.relpath(file, path)}\0{self._hash_of_file(file)}\0".encode("utf-8", "surrogateescape")
                )
            return digest.hexdigest()
        return self._hash_of_file(str(path)) if path.is_file() else "missing"

    def _hash_of_file(self, path: str) -> str:
        try:
            info = os.stat(path)
        except OSError:  # removed meanwhile, or a link that leads nowhere
            return "missing"
        if not stat.S_ISREG(info.st_mode):  # a FIFO would wait for ever
            return "missing"
        # Two files of one size and time may trade places: those of an archive, or generated ones.
        facts = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._hashes.get(path)
        if known is not None and known[0] == facts:
            return known[1]
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        self._hashes[path] = (facts, digest)
        return digest

    def save(self) -> None:
        """Writes the records."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write(self.folder / _STATE, msgspec.json.format(msgspec.json.encode(self.records, order="sorted"), indent=1))
        write(self.folder / _SETS, msgspec.json.encode(self._sets))
        write(self.folder / _HASHES, msgspec.json.encode(self._hashes))


def write(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name and renames it; one of the same content stays as it is."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass
    disk.write(path, content)


def _read(path: Path, kind: Any) -> Any:
    """The content of a state file; nothing where it is not there or damaged: everything is then made again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return {}


def _code() -> str:
    """Parapet's code, that of plug-ins, and what they run on."""
    others = [
        [plugin.name, plugin.version, source_hash(plugin.target)]
        for group in plugins.GROUPS
        for plugin in plugins.installed(group)
        if not plugin.built_in
    ]
    return f"{code_sha256()} {json.dumps([versions(), others])}"


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that shape what is computed, as far as they are installed."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def source_hash(target: str, folder: Path | None = None) -> str:
    """The hash of the user's code behind ``FILE.py:NAME`` or ``MODULE:NAME``; empty where there is none.

    ``folder`` is that of the suite's file, which is on the path while a model runs. The hash covers the module and the
    modules that it imports from its own folder and from ``folder``, or from its own package where it is installed.
    Modules that are named only while the code runs, and files that it reads, are not covered.
    """
    place = target.rpartition(":")[0]
    first: Path | None
    if place.endswith(".py"):
        first = (folder or Path()) / place
        root, prefix = first.parent, ""
    else:
        if not all(part.isidentifier() for part in place.split(".")):
            return ""
        beside = folder.joinpath(*place.split(".")) if folder else Path()
        files = (beside.with_suffix(".py"), beside / "__init__.py") if folder else ()
        first = next((path for path in files if path.is_file()), None)
        if first is None:
            try:
                spec = find_spec(place)
            except (ImportError, ValueError):
                return ""
            if spec is None or not spec.origin:
                return ""
            first = Path(spec.origin)
        above = len(place.split(".")) - (first.name != "__init__.py")
        root = first.parents[above]
        prefix = place.partition(".")[0] if root.name in ("site-packages", "dist-packages") else ""
    roots = list(dict.fromkeys([root, folder] if folder and not prefix else [root]))
    digest = hashlib.sha256()
    for file in sorted(_imported_files(first, roots, prefix)):
        digest.update(f"{os.path.relpath(file, root)}\0".encode("utf-8", "surrogateescape") + file.read_bytes())
    return digest.hexdigest()


def _imported_files(first: Path, roots: Sequence[Path], prefix: str) -> set[Path]:
    """A module's file, and those below the roots that it imports, directly or not; with a prefix that package's alone.

    ``first`` is below the first root.
    """
    files, waiting = set[Path](), [(first, roots[0])]
    while waiting:
        file, above = waiting.pop()
        if file in files or not file.is_file():
            continue
        files.add(file)
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue  # the step will say so
        for node in ast.walk(tree):
            for name in _imported_names(node, file.parent.relative_to(above).parts):
                parts = name.split(".")
                for root in roots if prefix in ("", parts[0]) else ():
                    for i in range(1, len(parts) + 1):
                        module = root.joinpath(*parts[:i])
                        waiting += [(module.with_suffix(".py"), root), (module / "__init__.py", root)]
    return files


def _imported_names(node: ast.AST, package: Sequence[str]) -> Iterator[str]:
    """The full names that an import statement may mean as modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [*package[: len(package) - node.level + 1]] if node.level else []
        base += [node.module] if node.module else []
        yield from (".".join([*base, alias.name]) for alias in node.names if alias.name != "*")
        if base:
            yield ".".join(base)


def _worker_key() -> str:
    """The hash of the key with which worker ids are hashed: answers look different under another."""
    from parapet.transforms.crowd.worker_ids import load_worker_key

    return hashlib.sha256(load_worker_key()).hexdigest()


def _places(value: str, folder: Path, output: Path) -> Iterator[str]:
    """The files and folders that an option names: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    if not value or "\0" in value:
        return
    for reference in references(value):
        yield place_of(reference, output)
    for text in dict.fromkeys([value, value.partition("=")[2], value.rpartition(":")[0], *value.split(",")]):
        if text and not text.startswith("@") and len(text) < 4096 and os.path.exists(folder / text):
            yield str(folder / text)


def _files(folder: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """All files below a folder, through links too, but for those of a run that was broken off, or of a suite."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that it is in
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield path
        elif name not in ("__pycache__", ".incomplete", FOLDER) and not os.path.isdir(os.path.join(path, FOLDER)):
            yield from _files(path, (*above, real))
