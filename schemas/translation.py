"""Rows of a translation memory, and of the audit of ``back_translate``."""

from __future__ import annotations

from typing import Literal

import msgspec
import pyarrow as pa


class Translation(msgspec.Struct, frozen=True, order=True):
    """One text in another language: a row of ``memory.parquet``.

    Attributes:
      provider: the engine: ``google``, ``libretranslate``, ``local``; ``human`` for a translator's.
      model: what it says of its model.
      source: language of the text, as BCP 47 has it: ``en``, ``zh``.
      target: language of the translation.
      text: as it was sent.
      translation: as it came back.
    """

    provider: str
    model: str
    source: str
    target: str
    text: str
    translation: str


MEMORY = pa.schema([pa.field(name, pa.string(), nullable=False) for name in Translation.__struct_fields__])
MEMORY_KEY = ["provider", "model", "source", "target", "text"]


class BackTranslation(msgspec.Struct, frozen=True):
    """What became of one name or description under one pivot: a row of ``translations.parquet``.

    Attributes:
      element_id: ``SERVICE/slot/NAME`` and so on, original names.
      field: ``name`` or ``description``.
      pivot: the language it went through.
      original: as the schema has it.
      text: what was sent: of a name its words.
      pivot_text: the translation; ``""`` where there is none.
      back_text: the translation's translation; ``""`` where there is none.
      emitted: as the variant has it.
      reason: why that is the original; ``""`` where the back-translation is used.
    """

    element_id: str
    field: Literal["name", "description"]
    pivot: str
    original: str
    text: str
    pivot_text: str
    back_text: str
    emitted: str
    reason: str


AUDIT = pa.schema([pa.field(name, pa.string(), nullable=False) for name in BackTranslation.__struct_fields__])
