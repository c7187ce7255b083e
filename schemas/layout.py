"""The SGD layout: ``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``.

Also checks that a folder is complete.

Every reader first checks that a folder written by Parapet is complete. A run moves its files into place and writes
``run.json`` last, with the name and size of each. A folder without it that has other traces of a run contains files of
two runs, or only some of one; ``dead_letters.jsonl`` is such a trace, which also exists in a copy without hidden files.
A folder without traces was written by another program, and is accepted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import orjson

from parapet.schemas.errors import InputError, install_line
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.schemas.limits import parse_json as parse_json
from parapet.schemas.limits import parse_json_line as parse_json_line
from parapet.schemas.service import Service, parse_service

if TYPE_CHECKING:
    from parapet.schemas.tools import ToolFile

T = TypeVar("T")

MANIFEST = "run.json"
PREVIOUS = ".run.previous.json"  # while a run publishes: the manifest of the previous run, with the files of both
TOOLS, NAMES = "tools.json", "names.json"  # of a variant of tools
DEAD_LETTERS = "dead_letters.jsonl"  # written by every command that writes variants or dialogues of a corpus
STAGING = ".incomplete"
OWNER = ".owner."  # in the staging folder; followed by a name that differs for each run
_RELEASE, _SUMS, _FORMAT = "MANIFEST.json", "SHA256SUMS", "parapet-release/"

# Files that people open, fill in and correct. All others must have their original size.
_FOR_PEOPLE = (".csv", ".html", ".md", ".svg", ".tex", ".toml", ".xml")
_MANIFESTS = (MANIFEST, PREVIOUS, f"{STAGING}/{PREVIOUS}")
_TRACES = (*_MANIFESTS, _RELEASE, _SUMS)
_PARTS = re.compile(r"^(train|predict|evaluate)_")

# Commands that write dialogues under the given schemas, or under schemas of their own.
_CORPORA = (
    *("language_variations", "speech_errors", "unseen_entities", "ood", "few_shot"),
    *("reminders", "restaurants", "babi_task6"),
)
_PERTURBATIONS = ("typos", "verbose", "simple", "paraphrase", "unseen_entities", "ood", "speech_errors")
_NO_VARIANTS = {*_CORPORA, *(f"perturb {name}" for name in _PERTURBATIONS)}


class Output(msgspec.Struct, frozen=True):
    """A folder with traces of a run, and the input within it.

    Attributes:
      folder: the folder of the run.
      below: the path of the input below the folder; empty if it is the folder itself.
      pipeline: the name of the run's pipeline.
      manifest: the content of ``run.json``; None if the run was interrupted.
    """

    folder: str
    below: str
    pipeline: str
    manifest: dict[str, Any] | None


def check_published(path: str | Path, flag: str = "") -> Output | None:
    """Raises InputError if the input is in an incomplete folder of Parapet's.

    Args:
      path: a local file or folder, or one in a bucket; if it does not exist, its reader reports that.
      flag: the flag that names it for messages.

    Returns:
      The output that contains it; None if it was not written by Parapet.
    """
    if (output := find_output(path)) is not None:
        check_output(output, flag)
    return output


def check_variants(folder: str | Path, flag: str) -> None:
    """Raises InputError if a folder is incomplete, or was written by a command that writes dialogues, not variants."""
    published = check_published(folder, flag)
    if published is not None and published.pipeline in _NO_VARIANTS:
        written = f"contains the output of '{command_of(published.pipeline)}'"
        raise InputError(
            f"{written}; {flag} takes variants of the schemas, such as those that 'parapet compose' writes", folder
        )


def held_by(folder: str | Path) -> str:
    """Describes what a folder without a schema contains: corpora below it, or the output of a command; may be empty."""
    path = as_path(folder)
    if not path.is_dir():
        return ""
    if below := list(variant_roots(path)):
        more = ", ..." if len(below) > 5 else ""
        return f"; these subfolders have one: {', '.join(below[:5])}{more}: give one of them"
    output = find_output(folder)
    return f"; this folder is the output of '{command_of(output.pipeline)}'" if output and output.pipeline else ""


def find_output(path: str | Path) -> Output | None:
    """Finds the nearest output folder of a run, complete or not, that has the input among its files.

    Raises:
      InputError: the folder is an incomplete release.
    """
    text = str(path).rstrip("/")
    try:
        places = [as_path(text)] if "://" in text else [Path(os.path.abspath(text)), Path(os.path.realpath(text))]
    except InputError:  # its reader reports storage that cannot be accessed
        return None
    return next(filter(None, map(_nearest, dict.fromkeys(places))), None)


def command_of(pipeline: str) -> str:
    """Returns the command of a pipeline: ``parapet train t5dst`` for ``train_t5dst``."""
    return f"parapet {_PARTS.sub(lambda match: f'{match[1]} ', pipeline)}"


def stays_within(folder: str, relative: str) -> bool:
    """Whether a file below a local ``folder`` is really inside it: no link on the way leads outside."""
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(os.path.dirname(os.path.join(folder, relative)))]) == root


def _nearest(folder: Path) -> Output | None:
    below = ""
    while True:
        if output := _output_at(folder, below):
            return output
        if folder.parent == folder:
            return None
        folder, below = folder.parent, f"{folder.name}/{below}".rstrip("/")


def _output_at(folder: Path, below: str) -> Output | None:
    """Returns the output of a folder if the input is the folder itself or among the files of the run."""
    contents = of_each((folder / name for name in _TRACES), _content)
    traces = {name: data for name in _TRACES if (data := contents[folder / name]) is not None}
    if _RELEASE in traces and _SUMS not in traces:
        _check_release(traces[_RELEASE], folder, below)
    manifests = {name: parsed for name in _MANIFESTS if (parsed := _manifest(traces.get(name)))}
    if manifest := manifests.get(MANIFEST):
        return Output(str(folder), below, manifest["pipeline"], manifest) if _has(manifest["files"], below) else None
    if MANIFEST in traces and not below and _json(traces[MANIFEST]) is None:
        raise InputError("is not JSON: it is truncated, or Parapet did not write it; remove it", folder / MANIFEST)
    for manifest in manifests.values():
        if _has(manifest["files"], below):
            return Output(str(folder), below, manifest["pipeline"], None)
    if not below and _exists(folder / STAGING):
        return Output(str(folder), below, "", None)
    # The deepest input in an output is OUT/v1/test/schema.json. A file for people may be the user's own.
    if not traces and below.count("/") < 3 and not below.endswith(_FOR_PEOPLE) and _exists(folder / DEAD_LETTERS):
        raise InputError(
            f"has {DEAD_LETTERS} but no {MANIFEST}: either a command did not finish here, or this is only a "
            "part of its output. Run the command again with a new output folder, or copy its whole output; "
            f"to use the folder as it is, remove {DEAD_LETTERS}",
            folder,
        )
    return None


def of_each(paths: Iterable[Path], ask: Callable[[Path], T]) -> dict[Path, T]:
    """Returns each path with what is asked about it, in order; questions to a bucket are asked side by side."""
    paths = list(paths)
    if not paths or "://" not in str(paths[0]):
        return {path: ask(path) for path in paths}
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(paths, pool.map(ask, paths), strict=True))


def _content(path: Path) -> bytes | None:
    with suppress(Exception):  # exceptions differ between storages; the reader of the input reports them
        return path.read_bytes()
    return None


def _exists(path: Path) -> bool:
    with suppress(Exception):
        return path.exists()
    return False


def _check_release(data: bytes, folder: Path, below: str) -> None:
    manifest = _json(data)
    is_ours = isinstance(manifest, dict) and str(manifest.get("format")).startswith(_FORMAT)
    if is_ours and below.partition("/")[0] in ("", "sgd", "data"):
        raise InputError(
            f"the release is incomplete, {_SUMS} is missing: build it again, or copy the whole folder", folder
        )


def _has(files: Collection[str], below: str) -> bool:
    return not below or below in files or any(name.startswith(f"{below}/") for name in files)


def _manifest(data: bytes | None) -> dict[str, Any]:
    """Parses the manifest of a run; empty for anything else."""
    manifest = _json(data)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("pipeline"), str):
        return {}
    return manifest if isinstance(manifest.get("files"), dict) else {}


def _json(data: bytes | None) -> Any:
    """Parses JSON; None if it is invalid."""
    with suppress(ValueError):
        return orjson.loads(data or b"")
    return None


def check_output(output: Output, flag: str = "") -> None:
    """Raises InputError if the part of an output that is read is incomplete; ``flag`` names the input for messages."""
    folder, below, command = output.folder, output.below, command_of(output.pipeline)
    if output.manifest is None:
        run = f"a run of '{command}'" if output.pipeline else "a run of Parapet"
        raise InputError(f"{run} was interrupted here: run that command again to finish it", folder, flag)
    files, root = output.manifest["files"], as_path(folder)
    read = {root / name: name for name in files if _is_read(name, below) and not name.endswith(_FOR_PEOPLE)}
    for path, size in of_each(read, _size).items():
        facts = files[read[path]]
        # a suite lists the hashes of its files alone
        if size is None or size != (facts.get("bytes", size) if isinstance(facts, dict) else size):
            difference = "has been removed" if size is None else "has been changed"
            traces = f"{MANIFEST} and {DEAD_LETTERS}" if DEAD_LETTERS in files else MANIFEST
            advice = f"run that command again, or remove {traces} to use the folder as it is"
            raise InputError(f"{difference} since '{command}' wrote this folder: {advice}", path, flag)


def _size(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size
    return None


def _is_read(name: str, below: str) -> bool:
    """Whether a file of the run is read with the input ``below``: a schema is read with the dialogues beside it."""
    if not below or name == below or name.startswith(f"{below}/"):
        return True
    folder, _, file = name.rpartition("/")
    is_beside = folder == os.path.dirname(below) and os.path.basename(below) == "schema.json"
    return is_beside and (file == "schema.json" or DIALOGUE_FILE.fullmatch(file) is not None)


_NOT_ASCII = re.compile("[\x7f-\U0010ffff]+")
_PUBLISHED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
SPLITS = ("train", "dev", "test")
DIALOGUE_FILE = re.compile(r"dialogues_[0-9]+\.json")
_SCHEMA_FILES = ("schema.json", *(f"{split}/schema.json" for split in SPLITS))
SINGLE = "schema"  # the split name for a single schema file
TRAIN, TEST = "train", "test"  # the default splits: for training sets, and for all others


class BadService(msgspec.Struct):
    """A service that breaks a rule of the format, with the error."""

    error: InputError
    raw: Any


class SplitSchemas(msgspec.Struct):
    """The schema file of one split.

    Attributes:
      raw: the services as read from the file, with unknown keys and the order of keys; variants are made from these.
      services: the same services, typed and validated.
      bad: the invalid services, which are in neither of the other lists.
      tools: the tool file, if its toolsets are the services.
    """

    split: str
    path: str
    raw: list[dict[str, Any]]
    services: list[Service]
    bad: list[BadService] = []
    tools: ToolFile | None = None

    @property
    def relative_path(self) -> str:
        """Returns the path of the file below a root."""
        if self.tools is not None:
            return TOOLS
        return "schema.json" if self.split == SINGLE else f"{self.split}/schema.json"

    def variant_files(self, services: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
        """Returns the files of a variant, by path below a root, given the services of the variant."""
        if self.tools is not None:
            return self.tools.service_files(services)
        return {self.relative_path: schema_bytes(services)}


def as_path(path: str | Path) -> Path:
    """Converts a string to a local path, or to one in a bucket (``gs://...``) with the same interface.

    Raises:
      InputError: the storage is unknown, or the extra for it is not installed.
    """
    if "://" not in str(path):
        return Path(path)
    from fsspec import get_filesystem_class
    from upath import UPath

    try:
        get_filesystem_class(str(path).partition("://")[0])
        # no cache of listings, since a folder may be written while it is read
        return cast(Path, UPath(str(path), use_listings_cache=False))
    except ImportError as error:
        raise InputError(f"cannot be read ({error}): {install_line('gcp')}", path) from None
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path) from None


def is_there(path: str | Path) -> bool:
    """Whether a local path or one in a bucket exists.

    Raises:
      InputError: the bucket cannot be accessed: no permission, no credentials, no network.
    """
    path = as_path(path)
    try:
        return path.exists()
    except Exception as error:  # exceptions differ between storages
        raise InputError(f"cannot be read: {error}", path) from None


def files_of_tasks(folder: Path) -> list[Path]:
    """Lists the files of agents' tasks in a folder, sorted, without the files that commands write beside them."""
    others = (MANIFEST, NAMES, TOOLS, DEAD_LETTERS)
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".jsonl") and path.name not in others)


def same_place(first: str | Path, second: str | Path) -> bool:
    """Whether two paths lead to the same file or folder."""
    return as_path(first).resolve() == as_path(second).resolve()


def is_below(path: str | Path, folder: str | Path) -> bool:
    """Whether a path is in a folder, or is the folder, by its name or by where links lead."""
    path, folder = str(path), str(folder)
    if "://" in f"{path}{folder}":
        return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
    places = ((absolute(path), absolute(folder)) for absolute in (os.path.abspath, os.path.realpath))
    return any(Path(path).is_relative_to(folder) for path, folder in places)


def sample_root() -> Path:
    """Returns the folder of Parapet's sample: a corpus, and its workers' answers in ``crowd/``.

    Example:
      >>> import parapet
      >>> sorted(path.name for path in parapet.sample_root().iterdir() if path.is_dir())
      ['crowd', 'dev', 'test', 'tools', 'train']
    """
    return Path(str(resources.files("parapet.schemas") / "sample"))


def read_root(root: str | Path, leave_out_bad: bool = False) -> list[SplitSchemas]:
    """Reads the schemas of a corpus, or a single schema file.

    Args:
      root: ``ROOT/{train,dev,test}/schema.json``, a folder with a ``schema.json`` or ``tools.json``, or such a file; or
        the folder of a split, with a ``schema.json`` for all splits beside it.
      leave_out_bad: gives services that break a rule in ``bad`` instead of raising, as long as one is good.

    Raises:
      InputError: the path does not exist, is not JSON or not a schema, two splits define a service differently, or the
        folder is an incomplete output of Parapet's.
    """
    root = as_path(root)
    if not is_there(root):
        raise InputError("there is no such file or folder", root)
    output = check_published(root)
    # other things than files are refused when they are opened
    places = [(root / split / "schema.json", split) for split in SPLITS]
    places = [(path, split) for path, split in places if path.exists()]
    for path, _ in places if output is None else ():
        check_published(path.parent)
    if not places:
        path = root
        if root.is_dir():
            path = next((root / name for name in ("schema.json", TOOLS) if (root / name).exists()), root / TOOLS)
            if root.name in SPLITS and not path.exists() and dialogue_files(root, ""):
                path = root.parent / "schema.json"  # one schema for all splits, as in MultiWOZ 2.2
        places = [(path, SINGLE)] if path.exists() else []
    if not places:
        expected = "expected train/schema.json, dev/schema.json or test/schema.json, or schema.json beside dialogues"
        raise InputError(f"contains no schema: {expected}{held_by(root)}", root)
    return compared([_read_lenient(path, split) for path, split in places], leave_out_bad)


def compared(splits: list[SplitSchemas], leave_out_bad: bool = False) -> list[SplitSchemas]:
    """Compares a corpus's schemas; services that splits define differently count as bad, see :func:`read_root`."""
    _leave_out_differing(splits)
    bad = [service for split in splits for service in split.bad]
    if bad and not (leave_out_bad and any(split.services for split in splits)):
        raise bad[0].error
    return splits


def read_schema_file(path: str | Path, split: str) -> SplitSchemas:
    """Reads and validates a ``schema.json``. Raises InputError with file, position and reason."""
    schemas = _read_lenient(as_path(path), split)
    if schemas.bad:
        raise schemas.bad[0].error
    return schemas


def _read_lenient(path: Path, split: str) -> SplitSchemas:
    from parapet.schemas.tools import ToolFile, are_tools  # imports much, which the help does not need

    data = read_whole(path, MAX_SCHEMA_FILE)
    if not are_tools(data):
        try:
            schemas = parse_services(parse_json(data, path), path, split)
        except InputError as error:
            raise (InputError(reason, path) if (reason := _foreign(data, path)) else error) from None
        if not schemas.services and (reason := _foreign(data, path)):
            raise InputError(reason, path)
        return schemas
    try:
        tools = ToolFile(data, path)
    except InputError as error:
        raise (InputError(reason, path) if (reason := _foreign(data, path)) else error) from None
    schemas = parse_services(tools.services(), path, split)
    schemas.tools = tools
    schemas.bad += [
        BadService(InputError(f"{bad.reason}; it stays unchanged", path, bad.where), None) for bad in tools.bad
    ]
    return schemas


def _foreign(data: bytes, path: Path) -> str:
    """Describes a file that has neither services nor tools, and what to do; empty if unknown."""
    start = data[:4096].lstrip()
    if b'"service_name"' in data:
        return ""
    if b'"messages"' in start or b'"role"' in start:
        return (
            "contains chat messages, not schemas: a corpus has dialogues with frames, and the schemas of their "
            "services; to perturb chats, use 'parapet perturb typos --messages FILE'"
        )
    if b'"dialogue_id"' in start:
        return "contains dialogues, not schemas: give their folder, which has schema.json beside dialogues_001.json"
    if path.suffix.lower() in (".csv", ".tsv") and start[:1] not in (b"[", b"{"):
        return "contains a table, not schemas: expected JSON, a list of services or tools"
    return ""


def parse_services(items: Any, path: object, split: str) -> SplitSchemas:
    """Validates the parsed services of a schema file. Invalid services are in ``bad``.

    Args:
      items: the list of services.
      path: the path of the file for messages.
      split: the split of the corpus.

    Raises:
      InputError: it is not a list, or an empty one.
    """
    if not isinstance(items, list):
        raise InputError(f"expected a list of services, found {type(items).__name__}", path)
    if not items:
        raise InputError("the list of services is empty", path)
    schemas = SplitSchemas(split, str(path), [], [])
    # compared without case, since some file systems would mix up the pages of two such services
    places: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        if isinstance(item, dict):
            places.setdefault(str(item.get("service_name")).casefold(), []).append(i)
    for i, item in enumerate(items):
        try:
            service = parse_service(item, path, f"[{i}]")
            same = places[service.service_name.casefold()]
            if len(same) > 1:
                others = ", ".join(f"[{j}]" for j in same[:4] if j != i)
                reason = f"service {service.service_name!r} appears twice (see {others})"
                raise InputError(reason, path, f"[{i}].service_name")
        except InputError as error:
            schemas.bad.append(BadService(error, item))
        else:
            schemas.raw.append(item)
            schemas.services.append(service)
    return schemas


def split_of_folder(root: str | Path) -> str | None:
    """Returns the split of a folder or schema file by the folder's name; None if it is not the name of a split."""
    path = as_path(root)
    folder = (path.parent if path.suffix == ".json" else path).resolve()
    return folder.name if folder.name in SPLITS and (folder / "schema.json").is_file() else None


def counterpart(schemas: SplitSchemas, others: Sequence[SplitSchemas]) -> SplitSchemas | None:
    """Returns the schema file of another corpus or variant for the same split.

    The split of a single file is determined by its folder's name; otherwise, the file with most of its services is
    used, by their names or by names with a suffix. For a corpus with splits, a single file of the other corpus stands
    for all splits, unless its folder names one.

    Args:
      schemas: the schemas of one split, or a single file.
      others: the schema files of the other corpus.
    """
    same = [other for other in others if other.split == schemas.split]
    if same or not others:
        return same[0] if same else None
    if schemas.split != SINGLE:
        single = [other for other in others if other.split == SINGLE]
        return single[0] if single and split_of_folder(single[0].path) in (None, schemas.split) else None
    if split := split_of_folder(schemas.path):
        return next((other for other in others if other.split == split), None)

    def shared(other: SplitSchemas) -> int:
        names = [service.service_name for service in other.services]
        return sum(any(name.startswith(service.service_name) for name in names) for service in schemas.services)

    return max(others, key=shared)


def services_by_name(splits: list[SplitSchemas]) -> dict[str, Service]:
    """Returns all services by name, in the order of splits and files."""
    return {service.service_name: service for split in splits for service in split.services}


def raw_by_name(splits: list[SplitSchemas]) -> dict[str, dict[str, Any]]:
    """Returns all services as read from their files, by name, in the order of :func:`services_by_name`."""
    return {str(raw["service_name"]): raw for split in splits for raw in split.raw}


def splits_of(splits: list[SplitSchemas]) -> dict[str, list[str]]:
    """Returns relative path → names of services, in the order of the file, for each schema file."""
    return {split.relative_path: [service.service_name for service in split.services] for split in splits}


def schema_bytes(services: Sequence[Any]) -> bytes:
    """Formats a schema file like the published ones: two spaces, insertion order, ASCII, a newline at the end."""
    return (json.dumps(services, indent=2) + "\n").encode("ascii")


def dialogue_bytes(dialogues: Sequence[Any]) -> bytes:
    """Formats a dialogue file like the published ones: two spaces, sorted keys, ASCII, a newline at the end."""
    return as_ascii(orjson.dumps(dialogues, option=_PUBLISHED | orjson.OPT_APPEND_NEWLINE))


def as_ascii(data: bytes) -> bytes:
    """Escapes every character outside of ASCII, and DEL, as Python's json module does."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], data.decode()).encode("ascii")


def is_root(path: Path) -> bool:
    """Whether a folder is a corpus, with a schema file of a split or a single one, or a variant of tools."""
    return any((path / below).is_file() for below in (*_SCHEMA_FILES, TOOLS))


def variant_roots(folder: Path) -> dict[str, Path]:
    """Returns the variants below a folder, such as ``v1``, by name, in natural order (v2 before v10)."""
    roots = [path for path in folder.iterdir() if not path.name.startswith(".") and is_root(path)]
    return {path.name: path for path in sorted(roots, key=lambda path: _natural(path.name))}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if i % 2 else -1, part) for i, part in enumerate(re.split(r"([0-9]+)", name))]


def dialogue_files(root: str | Path, split: str) -> list[Path]:
    """Lists the dialogue files of a split, sorted; if the root is a schema file, those beside it."""
    root = as_path(root)
    root = root.parent if root.suffix == ".json" else root
    folder = root / split if split else root
    return sorted(path for path in folder.glob("dialogues_*.json") if DIALOGUE_FILE.fullmatch(path.name))


def _leave_out_differing(splits: list[SplitSchemas]) -> None:
    """Treats services that two splits define differently as bad in all splits, since none can be preferred.

    Names that differ only in case are equal here, as within a file.
    """
    of_name: dict[str, list[tuple[SplitSchemas, dict[str, Any]]]] = {}
    for split in splits:
        for raw in split.raw:
            of_name.setdefault(str(raw["service_name"]).casefold(), []).append((split, raw))
    for versions in of_name.values():
        # compared as read: unknown keys must be equal, too, since one variant is used for all
        if any(raw != versions[0][1] for _, raw in versions):
            for split, raw in versions:
                others = ", ".join(other.path for other, _ in versions if other is not split)
                error = InputError(f"service {raw['service_name']!r} differs from the one in {others}", split.path)
                i = split.raw.index(raw)
                del split.services[i]
                split.bad.append(BadService(error, split.raw.pop(i)))
