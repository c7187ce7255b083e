"""Folders of variants: the variants below one, and the ``mapping.json`` that goes with them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS, as_path, check_variants, is_root, is_there, parse_json, variant_roots
from parapet.schemas.limits import read_whole
from parapet.transforms.variants.names import Names

MAPPING = "mapping.json"

Mapped = dict[str, dict[str, Names]]  # variant, original service, names: what mapping.json holds

_decoder = msgspec.json.Decoder(Mapped)


def find_variants(folder: str | Path, requested: Collection[str] = (), flag: str = "--variants") -> dict[str, Path]:
    """The variants in a folder by name, in natural order (v2 before v10); or the folder itself if it is one.

    Args:
      folder: holds ``v1/train/schema.json`` and so on, or is such a variant, a split's folder of one, or its schema.
      requested: the names of the variants; all of them if it is empty.
      flag: the flag that names the folder, for messages.

    Raises:
      InputError: no such folder, no variant in it, none of a requested name, or sets of dialogues instead of variants.
    """
    folder = as_path(folder)
    if not is_there(folder):
        raise InputError("there is no such folder", folder, flag)
    check_variants(folder, flag)
    alone = folder.is_file() or is_root(folder)
    variants = {_name_of(folder): folder} if alone else variant_roots(folder)
    if not variants:
        raise InputError("no variants here: expected folders such as v1/train/schema.json", folder, flag)
    missing = [name for name in requested if name not in variants]
    if missing:
        raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})", folder, "--variant")
    return {name: path for name, path in variants.items() if not requested or name in requested}


def _name_of(variant: Path) -> str:
    """``v1`` of the folder ``v1``, of ``v1/test`` and of ``v1/test/schema.json``."""
    path = variant.resolve()
    path = path.parent if path.is_file() else path
    return path.parent.name if path.name in SPLITS else path.name


def find_mapping(folder: str | Path, source: str) -> Mapped | None:
    """The recorded names, or None if elements are matched by position.

    Args:
      folder: the variants' folder.
      source: ``auto`` (the folder's ``mapping.json``, if it has one), ``position``, or a file.

    Raises:
      InputError: no such file, or no mapping.
    """
    if source == "position":
        return None
    path = as_path(folder) / MAPPING if source == "auto" else as_path(source)
    if not is_there(path) or not path.is_file():
        if source == "auto":
            return None
        raise InputError("there is no such file", path, "--mapping")
    return read_mapping(read_whole(path), path)


def read_mapping(data: bytes, path: object) -> Mapped:
    """Reads a ``mapping.json``. Raises InputError with file, place and reason."""
    parse_json(data, path)
    try:
        return _decoder.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except msgspec.DecodeError as error:
        raise InputError(str(error), path) from None


def mapping_bytes(mapped: Mapped) -> bytes:
    """A ``mapping.json``: two spaces, sorted variants and services, names in the order of the schema, a newline."""
    ordered = {variant: dict(sorted(names.items())) for variant, names in sorted(mapped.items())}
    text = msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
    return text.encode()
