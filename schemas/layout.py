"""The SGD layout: ``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``, or a single schema file."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import orjson

from schemas.errors import InputError
from schemas.service import Service, parse_service

SPLITS = ("train", "dev", "test")
DIALOGUE_FILE = re.compile(r"dialogues_[0-9]+\.json")
SINGLE = "schema"  # the split name under which a single schema file is read

# Above this, a "schema file" is something else; reading it would only exhaust memory.
MAX_SCHEMA_BYTES = 64 * 2**20


class SplitSchemas(msgspec.Struct):
    """The schema file of one split.

    Attributes:
      raw: the services as the file has them, unknown keys and key order included: variants are made from these.
      services: the same, typed and checked.
    """

    split: str
    path: str
    raw: list[dict[str, Any]]
    services: list[Service]

    @property
    def relative_path(self) -> str:
        """Where the file stands below a root."""
        return "schema.json" if self.split == SINGLE else f"{self.split}/schema.json"


def sample_root() -> Path:
    """The bundled sample corpus."""
    return Path(str(resources.files("schemas") / "sample"))


def read_root(root: str | Path) -> list[SplitSchemas]:
    """Reads the schemas of a corpus, or a single schema file.

    Raises:
      InputError: nothing there, not JSON, not a schema, or one service defined in two ways by two splits.
    """
    root = Path(root)
    if root.is_file():
        return [read_schema_file(root, SINGLE)]
    if not root.exists():
        raise InputError("there is no such file or folder", root)
    found = [(split, root / split / "schema.json") for split in SPLITS]
    splits = [read_schema_file(path, split) for split, path in found if path.is_file()]
    if not splits and (root / "schema.json").is_file():
        return [read_schema_file(root / "schema.json", SINGLE)]
    if not splits:
        raise InputError("no schema here: expected train/schema.json, dev/schema.json or test/schema.json", root)
    _check_same_across_splits(splits)
    return splits


def read_schema_file(path: str | Path, split: str) -> SplitSchemas:
    """Reads and checks one ``schema.json``. Raises InputError with file, position and reason."""
    path = Path(path)
    if path.stat().st_size > MAX_SCHEMA_BYTES:
        raise InputError(f"over {MAX_SCHEMA_BYTES // 2**20} MB: this is no schema file", path)
    raw = parse_json(path.read_bytes(), path)
    if not isinstance(raw, list):
        raise InputError(f"expected a list of services, found {type(raw).__name__}", path, "$")
    if not raw:
        raise InputError("the list of services is empty", path, "$")
    services = [parse_service(item, path, f"$[{i}]") for i, item in enumerate(raw)]
    first: dict[str, int] = {}
    for i, service in enumerate(services):
        # Compared without case: on some file systems two such pages would be one.
        key = service.service_name.casefold()
        if key in first:
            raise InputError(
                f"service {service.service_name!r} stands twice (first at $[{first[key]}])",
                path,
                f"$[{i}].service_name",
            )
        first[key] = i
    return SplitSchemas(split, str(path), raw, services)


def parse_json(data: bytes, path: object) -> Any:
    """Parses UTF-8 JSON (a byte order mark is forgiven). Raises InputError with line and column."""
    if not data.strip():
        raise InputError("the file is empty", path)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", path, f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InputError("JSON nested too deeply", path) from None


def services_by_name(splits: list[SplitSchemas]) -> dict[str, Service]:
    """Every service once, by name, in the order of the splits and files."""
    return {service.service_name: service for split in splits for service in split.services}


def raw_by_name(splits: list[SplitSchemas]) -> dict[str, dict[str, Any]]:
    """Every service as its file has it, by name, in the same order as :func:`services_by_name`."""
    return {str(raw["service_name"]): raw for split in splits for raw in split.raw}


def splits_of(splits: list[SplitSchemas]) -> dict[str, list[str]]:
    """The names of the services of each schema file, by its relative path, in the order of the file."""
    return {split.relative_path: [service.service_name for service in split.services] for split in splits}


def schema_bytes(services: list[Any]) -> bytes:
    """A schema file as the published ones are: two spaces, insertion order, ASCII, a newline at the end."""
    return (json.dumps(services, indent=2) + "\n").encode("ascii")


def dialogue_bytes(dialogues: list[Any]) -> bytes:
    """A dialogue file as the published ones are: two spaces, sorted keys, ASCII, a newline at the end."""
    data = orjson.dumps(dialogues, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    if data.isascii() and b"\x7f" not in data:
        return data
    return (json.dumps(dialogues, indent=2, sort_keys=True) + "\n").encode("ascii")


def dialogue_files(root: str | Path, split: str) -> list[Path]:
    """The dialogue files of a split, sorted."""
    return sorted(path for path in Path(root, split).glob("dialogues_*.json") if DIALOGUE_FILE.fullmatch(path.name))


def _check_same_across_splits(splits: list[SplitSchemas]) -> None:
    seen: dict[str, tuple[Service, str]] = {}
    for split in splits:
        for i, service in enumerate(split.services):
            name = service.service_name
            if name in seen and seen[name][0] != service:
                raise InputError(f"service {name!r} differs from the one in {seen[name][1]}", split.path, f"$[{i}]")
            seen.setdefault(name, (service, split.path))
