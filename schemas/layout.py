"""The SGD layout: ``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``, or a single schema file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, cast

import msgspec
import orjson

from parapet.schemas.distribution import install_line
from parapet.schemas.errors import InputError
from parapet.schemas.json_text import items_in, parse_exactly, too_deep, without_mark
from parapet.schemas.json_text import parse_json as parse_json
from parapet.schemas.json_text import parse_json_line as parse_json_line
from parapet.schemas.limits import MAX_DEPTH, MAX_SCHEMA_FILE, MAX_SERVICES, read_whole
from parapet.schemas.published import check_published, held_by
from parapet.schemas.service import Service, parse_service

SPLITS = ("train", "dev", "test")
DIALOGUE_FILE = re.compile(r"dialogues_[0-9]+\.json")
_NAME = re.compile(rb'"service_name"\s*+:\s*+"([^"\\]*+)"')
SINGLE = "schema"  # the split name under which a single schema file is read
TRAIN, TEST = "train", "test"  # whose dialogues, where no flag says it: of training sets, and of all others


class BadService(msgspec.Struct):
    """A service that breaks a rule of the format, with the error that says which, and where."""

    error: InputError
    raw: Any


class SplitSchemas(msgspec.Struct):
    """The schema file of one split.

    Attributes:
      raw: the services as the file has them, unknown keys and key order included: variants are made from these.
      services: the same, typed and checked.
      bad: those that could not be taken; they are in neither of the others.
    """

    split: str
    path: str
    raw: list[dict[str, Any]]
    services: list[Service]
    bad: list[BadService] = []

    @property
    def relative_path(self) -> str:
        """Where the file stands below a root."""
        return "schema.json" if self.split == SINGLE else f"{self.split}/schema.json"


def as_path(path: str | Path) -> Path:
    """A local path, or one of a bucket (``gs://...``) that is read in the same way.

    Raises:
      InputError: no such storage is known, or the extra that reads it is not installed.
    """
    if "://" not in str(path):
        return Path(path)
    from fsspec import get_filesystem_class
    from upath import UPath

    try:
        get_filesystem_class(str(path).partition("://")[0])
        # Listings are not kept: a folder may be written while it is read.
        return cast(Path, UPath(str(path), use_listings_cache=False))
    except ImportError as error:
        raise InputError(f"cannot be read ({error}): {install_line('gcp')}", path) from None
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path) from None


def is_there(path: str | Path) -> bool:
    """Whether there is such a file or folder, local or in a bucket.

    Raises:
      InputError: the bucket does not answer that: no access, no credentials, no network.
    """
    path = as_path(path)
    try:
        return path.exists()
    except Exception as error:  # every storage has its own
        raise InputError(f"cannot be read: {error}", path) from None


def same_place(first: str | Path, second: str | Path) -> bool:
    """Whether two paths mean one file or folder, however they are written."""
    return as_path(first).resolve() == as_path(second).resolve()


def is_below(path: str | Path, folder: str | Path) -> bool:
    """Whether a local path lies in a local folder, or is the folder, however they are written."""
    return "://" not in f"{path}{folder}" and Path(path).resolve().is_relative_to(Path(folder).resolve())


def sample_root() -> Path:
    """The folder of the sample that comes with Parapet: a corpus, and in ``crowd/`` the answers of its workers.

    Example:
      >>> import parapet
      >>> sorted(path.name for path in parapet.sample_root().iterdir() if path.is_dir())
      ['crowd', 'dev', 'test', 'train']
    """
    return Path(str(resources.files("parapet.schemas") / "sample"))


def read_root(root: str | Path, leave_out_bad: bool = False) -> list[SplitSchemas]:
    """Reads the schemas of a corpus, or a single schema file.

    Args:
      root: ``ROOT/{train,dev,test}/schema.json``, a folder with a ``schema.json``, or such a file.
      leave_out_bad: gives services that break a rule in ``bad`` instead of raising, as long as one is good.

    Raises:
      InputError: nothing there, not JSON, not a schema, one service defined in two ways by two splits, or a folder of
        Parapet's that is not whole.
    """
    root = as_path(root)
    if not is_there(root):
        raise InputError("there is no such file or folder", root)
    output = check_published(root)
    # What stands there and is no file is refused by whoever opens it.
    found = [(root / split / "schema.json", split) for split in SPLITS]
    found = [(path, split) for path, split in found if path.exists()]
    for path, _ in found if output is None else ():
        check_published(path.parent)
    if not found:
        path = root / "schema.json" if root.is_dir() else root
        found = [(path, SINGLE)] if path.exists() else []
    if not found:
        expected = "expected train/schema.json, dev/schema.json or test/schema.json"
        raise InputError(f"no schema here: {expected}{held_by(root)}", root)
    return compared([_read_lenient(path, split) for path, split in found], leave_out_bad)


def compared(splits: list[SplitSchemas], leave_out_bad: bool = False) -> list[SplitSchemas]:
    """The schemas of a corpus; services that splits define in different ways are bad. As :func:`read_root` has it."""
    _leave_out_differing(splits)
    bad = [service for split in splits for service in split.bad]
    if bad and not (leave_out_bad and any(split.services for split in splits)):
        raise bad[0].error
    return splits


def read_schema_file(path: str | Path, split: str) -> SplitSchemas:
    """Reads and checks one ``schema.json``. Raises InputError with file, position and reason."""
    schemas = _read_lenient(as_path(path), split)
    if schemas.bad:
        raise schemas.bad[0].error
    return schemas


def _read_lenient(path: Path, split: str) -> SplitSchemas:
    return parse_services(parse_schema_items(read_whole(path, MAX_SCHEMA_FILE), path), path, split)


def parse_schema_items(data: bytes, path: object) -> Any:
    """What a schema file has, each service as it stands; one that cannot be kept so is a ``BadService``.

    Raises:
      InputError: not JSON.
    """
    data = without_mark(data, path)
    items = items_in(data)
    if items is None:
        return parse_json(data, path)  # says what is wrong
    services: list[Any] = []
    for i, item in enumerate(items[: MAX_SERVICES + 1]):
        try:
            services.append(parse_exactly(item))
        except InputError as error:
            name = _NAME.search(item)
            raw = {"service_name": name[1].decode("utf-8", "replace")} if name else None
            services.append(BadService(InputError(error.reason, path, f"[{i}]{error.where}"), raw))
        except ValueError:
            return parse_json(data, path)
    return services


def parse_services(items: Any, path: object, split: str) -> SplitSchemas:
    """Checks what a schema file has, as parsed. Services that break a rule are in ``bad``.

    Args:
      items: the list of services.
      path: of the file, for messages.
      split: of the corpus.

    Raises:
      InputError: it is no list, or an empty one.
    """
    if not isinstance(items, list):
        raise InputError(f"expected a list of services, found {type(items).__name__}", path)
    if not items:
        raise InputError("the list of services is empty", path)
    if len(items) > MAX_SERVICES:
        raise InputError(f"has more than {MAX_SERVICES:,} services", path)
    schemas = SplitSchemas(split, str(path), [], [])
    # Compared without case: on some file systems the pages of two such services would be one.
    places: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        if isinstance(item, dict):
            places.setdefault(str(item.get("service_name")).casefold(), []).append(i)
    for i, item in enumerate(items):
        if isinstance(item, BadService):
            schemas.bad.append(item)
            continue
        if place := too_deep(item):
            # It cannot be written down either: the name has to do.
            error = InputError(f"nested more than {MAX_DEPTH} levels deep", path, f"[{i}]{place}")
            known = {"service_name": item.get("service_name")} if isinstance(item, dict) else None
            schemas.bad.append(BadService(error, known))
            continue
        try:
            service = parse_service(item, path, f"[{i}]")
            same = places[service.service_name.casefold()]
            if len(same) > 1:
                others = ", ".join(f"[{j}]" for j in same[:4] if j != i)
                reason = f"service {service.service_name!r} stands twice (see {others})"
                raise InputError(reason, path, f"[{i}].service_name")
        except InputError as error:
            schemas.bad.append(BadService(error, item))
        else:
            schemas.raw.append(item)
            schemas.services.append(service)
    return schemas


def split_of_folder(root: str | Path) -> str | None:
    """Which split a folder with a schema is, or such a file, by the folder's name; None where that is another."""
    path = as_path(root)
    folder = (path.parent if path.suffix == ".json" else path).resolve()
    return folder.name if folder.name in SPLITS and (folder / "schema.json").is_file() else None


def counterpart(schemas: SplitSchemas, others: Sequence[SplitSchemas]) -> SplitSchemas | None:
    """The schema file of another corpus or variant that stands for the same split.

    A single file is that of the split whose folder it is in; or, where the folder says nothing, the one that has most
    of its services, under their own names or with something behind them. For a corpus with splits another's single file
    stands for all of them, unless its folder says of which it is.

    Args:
      schemas: of one split, or a single file.
      others: of the other corpus.
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
        return sum(any(name.startswith(one.service_name) for name in names) for one in schemas.services)

    return max(others, key=shared)


def services_by_name(splits: list[SplitSchemas]) -> dict[str, Service]:
    """Every service once, by name, in the order of the splits and files."""
    return {service.service_name: service for split in splits for service in split.services}


def raw_by_name(splits: list[SplitSchemas]) -> dict[str, dict[str, Any]]:
    """Every service as its file has it, by name, in the same order as :func:`services_by_name`."""
    return {str(raw["service_name"]): raw for split in splits for raw in split.raw}


def splits_of(splits: list[SplitSchemas]) -> dict[str, list[str]]:
    """The names of the services of each schema file, by its relative path, in the order of the file."""
    return {split.relative_path: [service.service_name for service in split.services] for split in splits}


def schema_bytes(services: Sequence[Any]) -> bytes:
    """A schema file as the published ones are: two spaces, insertion order, ASCII, a newline at the end."""
    return (json.dumps(services, indent=2) + "\n").encode("ascii")


def dialogue_bytes(dialogues: Sequence[Any]) -> bytes:
    """A dialogue file as the published ones are: two spaces, sorted keys, ASCII, a newline at the end."""
    data = orjson.dumps(dialogues, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    if data.isascii() and b"\x7f" not in data:
        return data
    return (json.dumps(dialogues, indent=2, sort_keys=True) + "\n").encode("ascii")


def is_root(path: Path) -> bool:
    """Whether a folder is a corpus: has a schema file, of a split or by itself."""
    return any((path / below / "schema.json").is_file() for below in ("", *SPLITS))


def variant_roots(folder: Path) -> dict[str, Path]:
    """The variants below a folder, such as ``v1``, by name, in natural order (v2 before v10)."""
    found = [path for path in folder.iterdir() if not path.name.startswith(".") and is_root(path)]
    return {path.name: path for path in sorted(found, key=lambda path: _natural(path.name))}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if i % 2 else -1, part) for i, part in enumerate(re.split(r"([0-9]+)", name))]


def dialogue_files(root: str | Path, split: str) -> list[Path]:
    """The dialogue files of a split, sorted; those beside it where the root is a schema file."""
    root = as_path(root)
    root = root.parent if root.suffix == ".json" else root
    folder = root / split if split else root
    return sorted(path for path in folder.glob("dialogues_*.json") if DIALOGUE_FILE.fullmatch(path.name))


def _leave_out_differing(splits: list[SplitSchemas]) -> None:
    """Services that two splits define in different ways are bad, wherever they stand: neither can be chosen.

    Names that differ only in case are one name here, as within a file.
    """
    of_name: dict[str, list[tuple[SplitSchemas, dict[str, Any]]]] = {}
    for split in splits:
        for raw in split.raw:
            of_name.setdefault(str(raw["service_name"]).casefold(), []).append((split, raw))
    for found in of_name.values():
        # As the files have them: a key of another program must be the same too, for one variant stands for all.
        if any(raw != found[0][1] for _, raw in found):
            for split, raw in found:
                others = ", ".join(other.path for other, _ in found if other is not split)
                error = InputError(f"service {raw['service_name']!r} differs from the one in {others}", split.path)
                i = split.raw.index(raw)
                del split.services[i]
                split.bad.append(BadService(error, split.raw.pop(i)))
