"""What a suite remembers between runs: from what each step was made, and the bytes that it wrote.

A step is made again where its options, its inputs (by content) or Parapet's code differ from those of the last time,
or where its output is not what it wrote. A file is hashed once: if its size and time are unchanged, so is its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.suite.references import place_of, references
from parapet.pipelines.suite.steps import Step
from parapet.pipelines.suite.suite_file import SAMPLE, Options
from parapet.schemas.distribution import code_sha256
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.schemas.published import stays_within
from parapet.transforms import durable, plugins

FOLDER = ".suite"  # below the output: state, logs, locks
_STATE, _HASHES, _SETS = "state.json", "hashes.json", "sets.json"
_PACKAGES = (
    "apache-beam",
    "pyarrow",
    "numpy",
    "nltk",
    "rapidfuzz",
    "simplemma",
    "spacy",
    "torch",
    "transformers",
    "pocketsphinx",
)


class Record(msgspec.Struct, frozen=True):
    """From what a step was made.

    Attributes:
      fingerprint: of its options, inputs and code.
      output: hash of what it wrote; empty while it is being made.
      seconds: how long it took.
      command: as one would type it, with OUT for the suite's output folder.
      cpu: seconds, user and system, of all its processes.
      memory: megabytes: the sum of the peaks of all its processes.
    """

    fingerprint: str
    output: str
    seconds: float
    command: str
    cpu: float = 0.0
    memory: float = 0.0


class State:
    """The records of an output folder.

    Args:
      output: the suite's output folder.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.folder, self.logs = output, output / FOLDER, output / FOLDER / "logs"
        self.records: dict[str, Record] = _read(self.folder / _STATE, dict[str, Record])
        self._hashes: dict[str, tuple[int, int, str]] = _read(self.folder / _HASHES, dict[str, tuple[int, int, str]])
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
        inputs = {
            place: self.hash_of(Path(place))
            for place in sorted(_places(step.options, folder, self.output))
            if place not in own
        }
        known = [self._code, step.name, step.command, _portable(step.options), step.files, sorted(inputs.values())]
        if ":" in str(step.options.get("model", "")):
            known.append(_module_hash(str(step.options["model"])))
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

    def finished(self, step: Step, seconds: float, cpu: float, memory: float) -> None:
        """Records that a step is done, and what it has used."""
        output = self.hash_of(self.output / step.name)
        used = {"seconds": round(seconds, 3), "cpu": round(cpu, 3), "memory": round(memory, 1)}
        self.records[step.name] = msgspec.structs.replace(self.records[step.name], output=output, **used)
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
        before = (record.seconds, record.cpu, record.memory) if record is not None else (0.0, 0.0, 0.0)
        seconds, cpu, memory = before
        self.records[step.name] = Record(fingerprint, "", seconds, shlex.join(["parapet", *words]), cpu, memory)
        self.save()

    def output_of(self, name: str) -> str:
        """The hash of what a step wrote when it last finished; empty where it has not."""
        record = self.records.get(name)
        return record.output if record is not None else ""

    def hash_of(self, path: Path) -> str:
        """The hash of a file's content, or of a folder's file names and contents; of what is not there, "missing"."""
        if path.is_dir():
            digest = hashlib.sha256()
            for file in sorted(_files(path)):
                digest.update(
                    f"{os.path.relpath(file, path)}\0{self._hash_of_file(file)}\0".encode("utf-8", "surrogateescape")
                )
            return digest.hexdigest()
        return self._hash_of_file(str(path)) if path.is_file() else "missing"

    def _hash_of_file(self, path: str) -> str:
        try:
            info = os.stat(path)
        except FileNotFoundError:  # removed meanwhile
            return "missing"
        known = self._hashes.get(path)
        if known is not None and known[:2] == (info.st_size, info.st_mtime_ns):
            return known[2]
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        self._hashes[path] = (info.st_size, info.st_mtime_ns, digest)
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
    durable.write(path, content)


def _read(path: Path, kind: Any) -> Any:
    """The content of a state file; nothing where it is not there or damaged: everything is then made again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return {}


def _code() -> str:
    """Parapet's code, that of plug-ins, and what they run on."""
    others = [
        [plugin.name, plugin.version, _module_hash(plugin.target)]
        for group in plugins.GROUPS
        for plugin in plugins.installed(group)
        if not plugin.built_in
    ]
    return f"{code_sha256()} {json.dumps([versions(), others])}"


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that shape what is computed, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _module_hash(target: str) -> str:
    """The hash of the file of ``MODULE:NAME``; empty where there is none. Only the packages it is in are imported."""
    module = target.partition(":")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        return ""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return ""
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return hashlib.sha256(origin.read_bytes()).hexdigest() if origin is not None and origin.is_file() else ""


def _worker_key() -> str:
    """The hash of the key with which worker ids are hashed: answers look different under another."""
    from parapet.transforms.crowd.worker_key import load_worker_key

    return hashlib.sha256(load_worker_key()).hexdigest()


def _portable(value: object) -> object:
    """Options without the places of inputs outside: their content counts, wherever they are."""
    if isinstance(value, Mapping):
        return {key: _portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(item) for item in value]
    return os.path.basename(value) if isinstance(value, str) and os.path.isabs(value) else value


def _places(value: object, folder: Path, output: Path) -> Iterator[str]:
    """The files and folders that options name: as a whole, after ``NAME=``, before ``:NAME``, or by ``@STEP``."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _places(item, folder, output)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _places(item, folder, output)
    elif isinstance(value, str) and value and "\0" not in value:
        for reference in references(value):
            yield place_of(reference, output)
        for text in {value, value.partition("=")[2], value.rpartition(":")[0], *value.split(",")}:
            if text and not text.startswith("@") and len(text) < 4096 and os.path.exists(folder / text):
                yield str(folder / text)


def _files(folder: Path) -> Iterator[str]:
    """All files below a folder, but for those of a run that was broken off."""
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".incomplete", FOLDER)]
        for name in names:
            yield os.path.join(root, name)
