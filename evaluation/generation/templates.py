"""Templates of acts in the format of T2G2 (Kale and Rastogi 2020): inputs of models, or references of acts.

The published ones are ``generation/utterance_templates`` of ``google-research/task-oriented-dialogue``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text

if TYPE_CHECKING:
    from parapet.evaluation.generation.corpus import Act

Templates = Mapping[str, Mapping[str, str]]  # service to key to sentence


NONE: Templates = {}


VALUE, SEPARATOR = "@", "!!"


_IN_KEYS = (("True",), ("False",), ("dontcare",))  # values that are part of the key


_BY_INTENT = ("INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "OFFER_INTENT")


def read_templates(folder: str) -> tuple[Templates, list[Path]]:
    """Reads the templates of a folder, ``SERVICE.tsv`` for each service; also returns the files.

    A line is a key, a tab and a sentence, with an ``@`` in both for each value: ``INFORM!!city!!@``, ``REQUEST!!city``,
    ``INFORM!!has_wifi!!True``, ``OFFER_INTENT!!BookHotel``, ``INFORM_COUNT!!FindHotel!!count!!@``, ``GOODBYE``. Of
    lines with the same key, the last is used.

    Raises:
      InputError: the folder does not exist or has no such file, or a line has another form; names file and line.
    """
    place = as_path(folder)
    paths = sorted(place.glob("*.tsv")) if place.is_dir() else []
    if not paths:
        raise InputError(
            "contains no templates: expected a folder with SERVICE.tsv for each service", folder, "--templates"
        )
    return {path.stem: _read(path) for path in paths}, paths


def _read(path: Path) -> dict[str, str]:
    lines = read_text(path).split("\n")
    acts = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            reason = "expected a key, a tab and a sentence, as in 'INFORM!!city!!@' and 'It is in @.'"
            raise InputError(reason, path, f"line {number}")
        key, sentence = columns
        values, places = key.count(VALUE), sentence.count(VALUE)
        if values != places:
            reason = f"the key has {values} {VALUE}, but the sentence has {places}: both must have one for each value"
            raise InputError(reason, path, f"line {number}")
        acts[key] = sentence
    return acts


def key_of(act: Act) -> str:
    """Returns the key of an act's template: act, slot or intent, and the number of values or the boolean."""
    values = VALUE * len(act.values)
    if act.act in _BY_INTENT:
        intent = act.values[0] if act.act == "OFFER_INTENT" and act.values else act.intent
        parts = [act.act, intent, *(("count", values) if act.act == "INFORM_COUNT" else ())]
    else:
        parts = [act.act, act.slot, act.values[0] if act.values in _IN_KEYS else values]
    return SEPARATOR.join(part for part in parts if part)


def template_of(act: Act, templates: Templates) -> str | None:
    """Returns the template of an act; None if there is none."""
    return templates.get(act.service, {}).get(key_of(act))


def filled(template: str, values: Sequence[str]) -> str:
    """Puts values into a template."""
    pieces = zip_longest(template.split(VALUE), values[: template.count(VALUE)], fillvalue="")
    return " ".join("".join(piece + value for piece, value in pieces).split())
