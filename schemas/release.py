"""The configuration of a release, ``release.toml``, and its contents, ``MANIFEST.json``.

Other programs read ``MANIFEST.json``, too.
"""

import datetime
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS, as_path, parse_json
from parapet.schemas.limits import read_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
# Names of configurations are used for folders, Parquet files and datasets' builders.
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
CONFIG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,63}")
# OWNER/NAME of a repository on the Hugging Face Hub (the rules of huggingface_hub's validate_repo_id).
HUB = re.compile(r"(?=.{3,96}\Z)(?!.*(?:--|\.\.|\.git\Z))\w(?:[\w.\-]*\w)?/\w(?:[\w.\-]*\w)?", re.ASCII)
ORCID = re.compile(r"[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X]")
# SPDX identifiers of licences, and their names.
LICENCES = {
    "CC0-1.0": "Creative Commons Zero 1.0 Universal",
    "CC-BY-3.0": "Creative Commons Attribution 3.0 Unported",
    "CC-BY-4.0": "Creative Commons Attribution 4.0 International",
    "CC-BY-SA-3.0": "Creative Commons Attribution-ShareAlike 3.0 Unported",
    "CC-BY-SA-4.0": "Creative Commons Attribution-ShareAlike 4.0 International",
    "CC-BY-NC-4.0": "Creative Commons Attribution-NonCommercial 4.0 International",
    "CC-BY-NC-SA-4.0": "Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International",
    "ODC-By-1.0": "Open Data Commons Attribution License 1.0",
    "ODbL-1.0": "Open Data Commons Open Database License 1.0",
    "PDDL-1.0": "Open Data Commons Public Domain Dedication and License 1.0",
    "CDLA-Permissive-1.0": "Community Data License Agreement Permissive 1.0",
    "CDLA-Sharing-1.0": "Community Data License Agreement Sharing 1.0",
    "MIT": "MIT License",
    "Apache-2.0": "Apache License 2.0",
    "BSD-3-Clause": "BSD 3-Clause License",
}
NO_LICENCE = "LicenseRef-not-given"  # for a suite's release until it is given a licence
# The kinds of problems, as named by ``allow_problems``.
KINDS = {
    "format": "a dialogue that is not of the SGD format",
    "reference": "a service, slot or intent that the schemas of the same corpus and split do not have",
    "span": "a span that is not inside its utterance",
    "span_value": "a span whose text is not one of the slot's values in its frame",
}
RESERVED = ("schemas", "paraphrases", "all", "default")


class Author(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An author of the release: a person, as ``Family, Given``, or a group with any other name."""

    name: str
    affiliation: str = ""
    orcid: str = ""


class Source(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A source from which the release is derived; its licence may apply to the release.

    Attributes:
      title: the title for citations.
      url: its address.
      licence: its SPDX identifier.
      authors: the authors for citations, in one line.
      citation: the paper, in one line.
    """

    title: str
    url: str
    licence: str
    authors: str = ""
    citation: str = ""


class Corpus(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Schemas, with or without dialogues, in the SGD layout.

    Attributes:
      path: a corpus, or a folder of several (``v1``, ``v2``, ...), relative to the TOML.
      name: the name of a single corpus; corpora in a folder are named after their folders.
      kind: the kind: ``original``, ``variants``, ``back-translations``, ``speech errors``, ...
      splits: the splits to include; if empty, all.
      hide_labels: splits whose dialogues are published without annotation, for tests with private labels.
    """

    path: str
    kind: str
    name: str = ""
    splits: list[str] = []
    hide_labels: list[str] = []


class TasksInput(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Agents' tasks in BFCL's format, with their expected calls.

    Attributes:
      path: a file, a folder of files, or a folder of such folders (``v1``, ``v2``, ...), as written by ``rewrite
        --tasks``.
      name: the name of a single set; sets in a folder are named after their folders.
      kind: the kind, in words.
    """

    path: str
    kind: str
    name: str = ""


class Audit(msgspec.Struct, forbid_unknown_fields=True):
    """The audit of a crowd batch, ``responses.parquet``; published without workers and times.

    Attributes:
      path: the file, or the output folder of ``compose``.
    """

    path: str


class TableInput(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A Parquet table of another pipeline: a translation memory, the turns of a speech set.

    Attributes:
      path: a file, or a folder of ``.parquet`` files.
      name: the name of the configuration.
      kind: the kind, in words.
      key: the columns that identify a row.
    """

    path: str
    name: str
    kind: str
    key: list[str]


class Statistics(msgspec.Struct, forbid_unknown_fields=True):
    """The statistics of a pipeline (``statistics.json``) to include in the release."""

    path: str
    name: str


class ReleaseConfig(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The configuration in ``release.toml``.

    Attributes:
      name: the name of the dataset, and of its folder.
      version: MAJOR.MINOR.PATCH.
      licence: an SPDX identifier; any other name requires ``licence_file``.
      description: one or more paragraphs in Markdown.
      authors: at least one.
      date: the date of publication.
      parent: the preceding version; by default the newest, ``none`` for none.
      changes: what is new, for CHANGELOG.md.
      licence_file: the text of the licence, if Parapet does not know it by name.
      allow_problems: kinds of faults in the data that are published and counted.
      hub: OWNER/NAME of the dataset repository on the Hugging Face Hub to which ``release push`` uploads.
    """

    name: str
    version: str
    licence: str
    description: str
    authors: list[Author]
    corpora: list[Corpus] = []
    title: str = ""
    date: datetime.date | None = None
    homepage: str = ""
    language: list[str] = msgspec.field(default_factory=lambda: ["en"])
    parent: str = ""
    changes: str = ""
    licence_file: str = ""
    allow_problems: list[str] = []
    hub: str = ""
    sources: list[Source] = []
    tasks: list[TasksInput] = []
    audits: list[Audit] = []
    tables: list[TableInput] = []
    statistics: list[Statistics] = []


def read_config(path: str | Path) -> ReleaseConfig:
    """Reads and validates ``release.toml``. Raises InputError with place and reason."""
    place = as_path(path)
    if not place.is_file():
        raise InputError("there is no such file; docs/release.md shows an example", path)
    return parse_config(read_text(place), path)


def parse_config(text: str, path: str | Path) -> ReleaseConfig:
    """Parses and validates the text of ``release.toml``. Raises InputError with place and reason."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", path) from None
    for spelling, own in (("license", "licence"), ("license_file", "licence_file")):
        if spelling in raw and own not in raw:
            raw[own] = raw.pop(spelling)
    required = [field.name for field in msgspec.structs.fields(ReleaseConfig) if field.required]
    if missing := [name for name in required if name not in raw]:
        raise InputError(f"lacks {', '.join(missing)}; docs/release.md shows a complete file", path)
    try:
        config = msgspec.convert(raw, ReleaseConfig)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    for where, holds, reason in _rules(config):
        if not holds:
            raise InputError(reason, path, where)
    return config


def _rules(config: ReleaseConfig) -> Iterator[tuple[str, object, str]]:
    """(key, whether what must hold of it holds, what is wrong with it otherwise)."""
    version = "must be MAJOR.MINOR.PATCH, such as 1.0.0"
    is_parent = config.parent in ("", "none") or VERSION.fullmatch(config.parent)
    is_name = NAME.fullmatch(config.name) and ".." not in config.name
    yield "name", is_name, "must consist of letters, digits, '_', '-' and '.'"
    yield "version", VERSION.fullmatch(config.version), f"{config.version!r} {version}"
    yield "parent", is_parent, f"{config.parent!r} {version}, or 'none'"
    yield "description", config.description.strip(), "must not be empty"
    is_known = config.licence in LICENCES or config.licence_file
    licence = f"{config.licence!r} must be one of {', '.join(LICENCES)}, or have its text in licence_file"
    yield "licence", is_known, licence
    yield "authors", config.authors, "must name at least one author"
    for i, author in enumerate(config.authors):
        is_orcid = not author.orcid or ORCID.fullmatch(author.orcid)
        yield f"authors[{i}].orcid", is_orcid, f"{author.orcid!r} is no ORCID, such as 0000-0002-1825-0097"
    yield "corpora", config.corpora or config.tasks, "must name at least one corpus, unless there is a [[tasks]] entry"
    for kind in config.allow_problems:
        yield "allow_problems", kind in KINDS, f"there is no kind {kind!r}: must be one of {', '.join(KINDS)}"
    yield "hub", not config.hub or HUB.fullmatch(config.hub), f"{config.hub!r} must be OWNER/NAME"
    for key, entries in (("corpora", config.corpora), ("tasks", config.tasks), ("tables", config.tables)):
        names = [entry.name for entry in entries]
        for i, name in enumerate(names):
            is_free = not name and key != "tables"  # corpora in a folder are named after their folders
            yield f"{key}[{i}].name", is_free or (can_name(name) and name not in names[:i]), f"{name!r} {_NAMES}"
    for i, table in enumerate(config.tables):
        yield f"tables[{i}].key", table.key, "must name the columns that identify a row"


_NAMES = (
    "cannot be used: a name starts with a letter, consists of letters, digits, '_' and '-', appears once, and "
    f"is not reserved ({', '.join(RESERVED)})"
)


def can_name(name: str) -> bool:
    """Whether a configuration may have this name."""
    return bool(CONFIG_NAME.fullmatch(name)) and name not in RESERVED


FORMAT = "parapet-release/1"

MANIFEST = "MANIFEST.json"
SUMS = "SHA256SUMS"
CARD = "README.md"
CROISSANT = "croissant.json"
CITATION = "CITATION.cff"
LICENCE = "LICENSE"
CHANGELOG = "CHANGELOG.md"
REPORT = "report/index.html"
DOCUMENTS = (CARD, CHANGELOG, CITATION, CROISSANT, LICENCE, REPORT)

# The keys of Manifest.counts, in order.
COUNTED = ("services", "intents", "slots", "dialogues", "turns", "tasks", "tools")


class InputFile(msgspec.Struct):
    """An input file; ``path`` is relative to its input."""

    path: str
    bytes: int
    sha256: str


class Input(msgspec.Struct):
    """An input in ``release.toml``.

    Attributes:
      name: the name of the corpus or table.
      kind: the kind, in words.
      files: the files, sorted by path.
    """

    name: str
    kind: str
    files: list[InputFile]


class File(msgspec.Struct, omit_defaults=True):
    """A file of the release.

    Attributes:
      path: the path below the version's folder.
      bytes: the size.
      sha256: the hash of its bytes.
      rows: the number of rows of a Parquet file.
      logical_sha256: for a Parquet file, the hash of its rows as sorted JSON, one per line, which does not depend on
        versions of libraries.
    """

    path: str
    bytes: int
    sha256: str
    rows: int | None = None
    logical_sha256: str = ""


class Column(msgspec.Struct):
    """A column and its Arrow type as text."""

    name: str
    type: str


class SplitInfo(msgspec.Struct):
    """A split of a configuration.

    Attributes:
      rows: the number of rows in all its files.
      files: the paths of its files.
      logical_sha256: the hash over those of its files.
    """

    rows: int
    files: list[str]
    logical_sha256: str


class Config(msgspec.Struct):
    """A configuration, as loaded by ``load_dataset(path, name)``.

    Attributes:
      kind: the kind, in words: ``original``, ``variants``, ``schemas``.
      record: the kind of a row: ``dialogue``, ``service``, ``paraphrase``, or ``row``.
      key: the columns that identify a row.
      columns: the columns, in order.
      splits: the splits by name.
    """

    kind: str
    record: str
    key: list[str]
    columns: list[Column]
    splits: dict[str, SplitInfo]


class Parent(msgspec.Struct):
    """The preceding release."""

    version: str
    manifest_sha256: str


class SplitChange(msgspec.Struct):
    """The differences between the rows of a split and the parent's.

    Attributes:
      level: the part of the version to increase: ``major``, ``minor``, ``patch``.
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
    """The differences from the parent.

    Attributes:
      level: the highest level of the splits; ``patch`` if no row differs.
      splits: the splits that differ.
    """

    level: str
    splits: list[SplitChange]


class Manifest(msgspec.Struct):
    """The content of ``MANIFEST.json``.

    Attributes:
      counts: what -> corpus -> split -> number of services, intents, slots, dialogues, turns, user utterances.
      statistics: the pipelines' statistics, by name.
      dispositions: disposition of an answer -> number of answers.
      rejections: reason -> number of rejected answers.
      answer_sources: source of answers -> number of answers; empty in releases of earlier versions.
      is_blind: false if the paraphrases contain answers of workers who saw the hidden texts.
      known_problems: kind of fault -> number of faults that are published.
      code: ``parapet``'s version, and ``sha256`` over its source files.
      created: the date of publication; may be empty.
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
    answer_sources: dict[str, int] = {}
    is_blind: bool | UnsetType = UNSET

    @property
    def rows(self) -> int:
        """Returns the number of rows in all configurations."""
        return sum(info.rows for config in self.configs.values() for info in config.splits.values())

    @property
    def size(self) -> int:
        """Returns the number of bytes of all listed files."""
        return sum(file.bytes for file in self.files)

    @property
    def splits(self) -> list[str]:
        """Returns the splits of all configurations."""
        return in_order({split for config in self.configs.values() for split in config.splits})


def in_order(splits: Iterable[str]) -> list[str]:
    """Sorts splits: train, dev and test first, then the others by name."""
    return sorted(splits, key=lambda split: (SPLITS.index(split) if split in SPLITS else len(SPLITS), split))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Formats the manifest: two spaces, a newline at the end; lists and keys in the order of the record."""
    return orjson.dumps(msgspec.to_builtins(manifest), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_manifest(data: bytes, path: object) -> Manifest:
    """Parses a manifest. Raises InputError if it is not one, or has another format."""
    raw = parse_json(data, path)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"not a manifest in the format {FORMAT}", path)
    try:
        return msgspec.convert(raw, Manifest)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
