"""``release.toml``: what a release is called, whose it is, and what goes into it."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
# Configurations and splits are folders, Parquet file names and names of datasets' builders.
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
CONFIG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,63}")
SPLIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
# OWNER/NAME of a repository of the Hugging Face Hub (the rules of huggingface_hub's validate_repo_id).
HUB = re.compile(r"(?=.{3,96}\Z)(?!.*(?:--|\.\.|\.git\Z))\w(?:[\w.\-]*\w)?/\w(?:[\w.\-]*\w)?", re.ASCII)
KEY = re.compile(r"sha256:[0-9a-f]{64}")
NO_LICENCE = "LicenseRef-not-given"  # of a suite's release, until somebody gives it a licence
RESERVED = ("schemas", "paraphrases", "all", "default")


class Author(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Who made the release: a person, or a group with a name alone."""

    name: str
    affiliation: str = ""
    orcid: str = ""


class Source(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the release is derived from; its licence may bind ours.

    Attributes:
      title: as it is cited.
      url: where it is.
      licence: its SPDX identifier.
      authors: as they are cited, in one line.
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
      name: of a single corpus; those of a folder have their folders' names.
      kind: what it is: ``original``, ``variants``, ``back-translations``, ``speech errors``, ...
      splits: those to take; all where none is named.
      hide_labels: splits whose dialogues are published without their annotation: a test whose labels stay private.
    """

    path: str
    kind: str
    name: str = ""
    splits: list[str] = []
    hide_labels: list[str] = []


class Audit(msgspec.Struct, forbid_unknown_fields=True):
    """The audit of a crowd batch, ``responses.parquet``; published without workers and times.

    Attributes:
      path: the file, or ``compose``'s folder.
    """

    path: str


class TableInput(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Parquet of any other pipeline: a translation memory, the turns of a speech set.

    Attributes:
      path: a file, or a folder of ``.parquet`` files.
      name: of the configuration.
      kind: what it is, in words.
      key: the columns that tell its rows apart.
      split: the split's name.
    """

    path: str
    name: str
    kind: str
    key: list[str]
    split: str = "full"


class Statistics(msgspec.Struct, forbid_unknown_fields=True):
    """Numbers of a pipeline (``statistics.json``) that the release shall carry."""

    path: str
    name: str


class Signing(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Who signs the release: the manifest says so, and then a signature that is taken away is missed.

    Attributes:
      key: a public key, ``sha256:`` and the SHA-256 of its DER form.
      identity: without a key of one's own: an e-mail address, or the URL of a workflow.
      issuer: the URL of the OpenID Connect provider that vouches for the identity.
    """

    key: str = ""
    identity: str = ""
    issuer: str = ""

    @property
    def who(self) -> str:
        """It in words."""
        return f"the key {self.key}" if self.key else f"{self.identity} ({self.issuer})"


class ReleaseConfig(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The whole of ``release.toml``.

    Attributes:
      name: of the dataset, and of its folder.
      version: MAJOR.MINOR.PATCH.
      licence: SPDX identifier; any other name needs ``licence_file``.
      description: a paragraph or more, Markdown.
      authors: at least one.
      date: of publication; SOURCE_DATE_EPOCH where it is not given.
      parent: the version that this one follows; by default the newest, ``none`` for none.
      changes: what is new, for CHANGELOG.md.
      licence_file: text of the licence, where it is not one that Parapet knows by name.
      allow_problems: kinds of faults in the data that are published, counted, as they are.
      shard_mb: JSON megabytes that go into one Parquet file.
      signing: who will sign it with ``release sign``, or with Sigstore's client.
      hub: OWNER/NAME, the dataset repository of the Hugging Face Hub that ``release push`` uploads to.
    """

    name: str
    version: str
    licence: str
    description: str
    authors: list[Author]
    corpora: list[Corpus]
    title: str = ""
    date: datetime.date | None = None
    homepage: str = ""
    language: list[str] = msgspec.field(default_factory=lambda: ["en"])
    parent: str = ""
    changes: str = ""
    licence_file: str = ""
    allow_problems: list[str] = []
    shard_mb: int = 64
    hub: str = ""
    signing: Signing | None = None
    sources: list[Source] = []
    audits: list[Audit] = []
    tables: list[TableInput] = []
    statistics: list[Statistics] = []


def read_config(path: str | Path) -> ReleaseConfig:
    """Reads and checks ``release.toml``. Raises InputError with the place and the reason."""
    place = as_path(path)
    if not place.is_file():
        raise InputError("there is no such file; docs/release.md shows one", path)
    return parse_config(read_text(place), path)


def parse_config(text: str, path: str | Path) -> ReleaseConfig:
    """Parses and checks the text of ``release.toml``. Raises InputError with the place and the reason."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", path) from None
    try:
        config = msgspec.convert(raw, ReleaseConfig)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    for where, reason in _problems(config):
        raise InputError(reason, path, where)
    return config


def _problems(config: ReleaseConfig) -> Any:
    if not NAME.fullmatch(config.name) or ".." in config.name:
        yield "name", "a name has letters, digits, '_', '-' and '.' (it names a folder)"
    if not VERSION.fullmatch(config.version):
        yield "version", f"{config.version!r} is not MAJOR.MINOR.PATCH, such as 1.0.0"
    if config.parent not in ("", "none") and not VERSION.fullmatch(config.parent):
        yield "parent", f"{config.parent!r} is not the version of a release, such as 1.0.0, and not 'none'"
    if not config.description.strip():
        yield "description", "is empty"
    if not config.authors:
        yield "authors", "name at least one"
    if not config.corpora:
        yield "corpora", "name at least one"
    if config.shard_mb < 1:
        yield "shard_mb", "must be 1 or more"
    if config.hub and not HUB.fullmatch(config.hub):
        yield "hub", f"{config.hub!r} is not OWNER/NAME, a dataset repository of the Hugging Face Hub"
    if (signing := config.signing) is not None:
        by_key, by_identity = bool(signing.key), bool(signing.identity and signing.issuer)
        if by_key == by_identity or (by_key and (signing.identity or signing.issuer)):
            yield "signing", "name a 'key', or an 'identity' with its 'issuer'"
        elif by_key and not KEY.fullmatch(signing.key):
            yield "signing.key", "is not sha256: and 64 hexadecimal digits, the SHA-256 of the public key's DER form"
    of_corpora = set(RESERVED)
    for i, corpus in enumerate(config.corpora):
        if corpus.name and (not CONFIG_NAME.fullmatch(corpus.name) or corpus.name in of_corpora):
            yield f"corpora[{i}].name", _bad_name(corpus.name)
        of_corpora.add(corpus.name)
    names = set(RESERVED)
    for i, table in enumerate(config.tables):
        if not CONFIG_NAME.fullmatch(table.name) or table.name in names:
            yield f"tables[{i}].name", _bad_name(table.name)
        if not SPLIT_NAME.fullmatch(table.split) or table.split == "all":
            yield f"tables[{i}].split", f"{table.split!r} cannot be one: letters, digits and '_', and not 'all'"
        if not table.key:
            yield f"tables[{i}].key", "name the columns that tell the rows apart"
        names.add(table.name)


def _bad_name(name: str) -> str:
    return f"{name!r} cannot be one: letters, digits, '_', '-', a letter first; once each; not {', '.join(RESERVED)}"
