"""The interface of translation engines, their batches, and the memory of all translations that were paid for."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas import errors, layout
from parapet.schemas.limits import open_path
from parapet.schemas.rows import MEMORY, Translation, parquet_bytes


class Limits(msgspec.Struct, frozen=True):
    """The limits of one request.

    Attributes:
      texts: the maximum number of texts.
      codepoints: the maximum total length; a longer single text is refused.
    """

    texts: int
    codepoints: int


class Engine(Protocol):
    """Translates batches. The engine is pickled and sent to the workers; ``open`` creates the connection or the model.

    Attributes:
      provider: its name in the memory.
      model: the name of its model in the memory; translations of other models are not reused.
      limits: the limits of one request.
      dollars_per_million: the price of a million codepoints in US dollars.
      parallel: the maximum number of concurrent requests of one worker; 1 if ``translate`` is not thread-safe.
    """

    provider: str
    model: str
    limits: Limits
    dollars_per_million: float = 0.0
    parallel: int = 1

    def open(self) -> None:
        """Connects, or load the model, once per worker.

        Raises:
          InputError: the user's folder or address cannot be used.
        """

    def close(self) -> None:
        """Closes the connection, or unload the model; by default, nothing."""
        return

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Returns the translations in order. The engine handles retries and deadlines itself.

        Raises:
          Refused: these texts cannot be translated.
          Stopped: no further request can succeed, for example because of a wrong key or a daily limit.
        """


class Batch(msgspec.Struct, frozen=True):
    """The texts of one request."""

    source: str
    target: str
    texts: tuple[str, ...]


def make_batches(texts: Iterable[str], source: str, target: str, limits: Limits) -> tuple[list[Batch], list[str]]:
    """Sorts texts and fill them into batches.

    Returns:
      The batches, and the texts that are too long for any batch.
    """
    batches: list[list[str]] = []
    too_long: list[str] = []
    size = 0
    for text in sorted(texts):
        if len(text) > limits.codepoints:
            too_long.append(text)
            continue
        if not batches or len(batches[-1]) == limits.texts or size + len(text) > limits.codepoints:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return [Batch(source, target, tuple(batch)) for batch in batches], too_long


ENGLISH = "en"
MEMORY_FILE = "memory.parquet"  # the name in the output of runs

Texts = dict[tuple[str, str], dict[str, str]]  # (source, target) -> text -> translation


def read_memory(path: str | Path) -> list[Translation]:
    """Reads the rows of a Parquet file, or of all ``.parquet`` files in a folder.

    Raises:
      InputError: the path does not exist, a file is invalid or lacks a column, or a row lacks a text or translation.
    """
    place = layout.as_path(path)
    if place.is_dir():
        return [row for file in sorted(place.glob("*.parquet")) for row in read_memory(file)]
    if not place.is_file():
        raise errors.InputError("there is no such file or folder", path, "--memory")
    try:
        with open_path(place) as handle:
            table = pq.read_table(handle)
        table.validate(full=True)  # a text may be invalid UTF-8
    except (OSError, pa.ArrowException) as error:
        raise errors.InputError(f"cannot be read as Parquet: {error}", path) from None
    if missing := [name for name in MEMORY.names if name not in table.column_names]:
        raise errors.InputError(f"is not a translation memory: it has no column {missing[0]!r}", path)
    rows = table.select(MEMORY.names).to_pylist()
    for i, row in enumerate(rows):
        if other := [name for name in MEMORY.names if not isinstance(row[name], str)]:
            raise errors.InputError(f"{other[0]} is not a text", place, f"row {i}")
        if not row["text"].strip() or not row["translation"].strip():
            raise errors.InputError("lacks a text or translation", place, f"row {i}")
    return [Translation(**row) for row in rows]


def merge(*memories: Iterable[Translation]) -> list[Translation]:
    """Merges memories: all rows sorted, one per text and engine; earlier memories take precedence."""
    kept: dict[tuple[str, ...], Translation] = {}
    for memory in memories:
        for row in memory:
            kept.setdefault((row.provider, row.model, row.source, row.target, row.text), row)
    return sorted(kept.values())


def by_languages(memory: Iterable[Translation], provider: str = "", model: str = "") -> Texts:
    """Returns the translations in the memory by languages: of one engine, or of any if no engine is named."""
    texts: Texts = {}
    for row in sorted(memory):
        if provider in ("", row.provider) and model in ("", row.model):
            texts.setdefault((row.source, row.target), {}).setdefault(row.text, row.translation)
    return texts


def memory_bytes(rows: Iterable[Translation]) -> bytes:
    """Formats the rows as sorted Parquet; the same rows give the same bytes."""
    return parquet_bytes(pa.Table.from_pylist([msgspec.to_builtins(row) for row in sorted(rows)], MEMORY))


def missing(texts: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Returns the unknown texts, sorted and without duplicates."""
    return sorted(set(texts) - known.keys())
