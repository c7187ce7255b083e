"""``MANIFEST.json``: what a release holds, and what it was made of. Other programs read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS, parse_json
from parapet.schemas.release_config import Author, Signing, Source

FORMAT = "parapet-release/1"

MANIFEST = "MANIFEST.json"
SUMS = "SHA256SUMS"
SIGNATURE = f"{MANIFEST}.sigstore.json"  # of the manifest; neither it nor SHA256SUMS lists it
CARD = "README.md"
CROISSANT = "croissant.json"
CITATION = "CITATION.cff"
LICENCE = "LICENSE"
CHANGELOG = "CHANGELOG.md"
REPORT = "report/index.html"
DOCUMENTS = (CARD, CHANGELOG, CITATION, CROISSANT, LICENCE, REPORT)

COUNTED = ("services", "intents", "slots", "dialogues", "turns")  # the keys of Manifest.counts, in their order


class InputFile(msgspec.Struct):
    """A file that went in; ``path`` is relative to its input."""

    path: str
    bytes: int
    sha256: str


class Input(msgspec.Struct):
    """One input of ``release.toml``.

    Attributes:
      name: of the corpus or table.
      kind: what it is, in words.
      files: sorted by path.
    """

    name: str
    kind: str
    files: list[InputFile]


class File(msgspec.Struct, omit_defaults=True):
    """A file of the release.

    Attributes:
      path: below the version's folder.
      bytes: its size.
      sha256: of its bytes.
      rows: of a Parquet file.
      logical_sha256: of a Parquet file: over its rows as sorted JSON, a line each; no version of a library changes it.
    """

    path: str
    bytes: int
    sha256: str
    rows: int | None = None
    logical_sha256: str = ""


class Column(msgspec.Struct):
    """A column and its Arrow type, as text."""

    name: str
    type: str


class SplitInfo(msgspec.Struct):
    """One split of a configuration.

    Attributes:
      rows: of all its files.
      files: their paths.
      logical_sha256: over those of its files.
    """

    rows: int
    files: list[str]
    logical_sha256: str


class Config(msgspec.Struct):
    """A configuration, as ``load_dataset(path, name)`` loads it.

    Attributes:
      kind: what it is, in words: ``original``, ``variants``, ``schemas``.
      record: what a row is: ``dialogue``, ``service``, ``paraphrase``, or ``row``.
      key: the columns that tell its rows apart.
      columns: in their order.
      splits: by name.
    """

    kind: str
    record: str
    key: list[str]
    columns: list[Column]
    splits: dict[str, SplitInfo]


class Parent(msgspec.Struct):
    """The release that this one follows."""

    version: str
    manifest_sha256: str


class SplitChange(msgspec.Struct):
    """How the rows of a split differ from the parent's.

    Attributes:
      level: what that asks of the version: ``major``, ``minor``, ``patch``.
    """

    config: str
    split: str
    level: str
    added: int
    removed: int
    changed: int
    columns_added: list[str]
    columns_removed: list[str]


class Changes(msgspec.Struct):
    """The difference to the parent.

    Attributes:
      level: the highest of the splits'; ``patch`` where no row differs.
      splits: those that differ.
    """

    level: str
    splits: list[SplitChange]


class Manifest(msgspec.Struct):
    """The whole of ``MANIFEST.json``.

    Attributes:
      counts: what -> corpus -> split -> n: services, intents, slots, dialogues, turns, utterances of users.
      statistics: by name, as the pipelines wrote them.
      dispositions: of the paraphrases: what became of the answers.
      rejections: reason -> answers rejected for it.
      known_problems: kind of fault -> n, published as they are.
      code: ``parapet``'s version, and ``sha256`` over its source files.
      created: the date of publication, or nothing.
      signing: who signs the manifest, if anybody; the signature stands beside it, in ``MANIFEST.json.sigstore.json``.
    """

    format: str
    name: str
    version: str
    title: str
    description: str
    licence: str
    language: list[str]
    created: str
    homepage: str
    authors: list[Author]
    sources: list[Source]
    release_notes: str
    parent: Parent | None
    changes: Changes | None
    code: dict[str, str]
    libraries: dict[str, str]
    configuration: dict[str, Any]
    configuration_sha256: str
    inputs: list[Input]
    configs: dict[str, Config]
    counts: dict[str, dict[str, dict[str, int]]]
    statistics: dict[str, Any]
    dispositions: dict[str, int]
    rejections: dict[str, int]
    known_problems: dict[str, int]
    files: list[File]
    signing: Signing | UnsetType = UNSET

    @property
    def rows(self) -> int:
        """The rows of all configurations."""
        return sum(info.rows for config in self.configs.values() for info in config.splits.values())

    @property
    def size(self) -> int:
        """The bytes of all files that are listed."""
        return sum(file.bytes for file in self.files)

    @property
    def splits(self) -> list[str]:
        """The splits of all configurations."""
        return in_order({split for config in self.configs.values() for split in config.splits})


def in_order(splits: Iterable[str]) -> list[str]:
    """Sorts splits: train, dev and test first, then the others by name."""
    return sorted(splits, key=lambda split: (SPLITS.index(split) if split in SPLITS else len(SPLITS), split))


def manifest_bytes(manifest: Manifest) -> bytes:
    """The file: two spaces, a newline at the end; lists and keys in the order of the record."""
    return orjson.dumps(msgspec.to_builtins(manifest), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_manifest(data: bytes, path: object) -> Manifest:
    """Reads the file. Raises InputError where it is not a manifest, or one of another format."""
    raw = parse_json(data, path)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"not a manifest of the format {FORMAT}", path)
    try:
        return msgspec.convert(raw, Manifest)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
