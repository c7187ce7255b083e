"""The input of a model: a template for each act of a turn, concatenated (T2G2; Kale and Rastogi 2020).

Users may write templates of their own, in the format that T2G2's were published in
(``generation/utterance_templates`` of ``google-research/task-oriented-dialogue``). Other acts have a sentence that is
built from the schema's words, as the references of SGSAcc are, so that an unseen service, or a variant of one, has
some too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby, zip_longest
from pathlib import Path

from parapet.evaluation.generation.references import Act, ServiceWords, act_name, references
from parapet.schemas.dialogue import is_marker
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text

Templates = Mapping[str, Mapping[str, str]]  # service to key to sentence
NONE: Templates = {}

VALUE, SEPARATOR = "@", "!!"
_IN_KEYS = (("True",), ("False",), ("dontcare",))  # values that are part of the key
_BY_INTENT = ("INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "OFFER_INTENT")

# As in T2G2: which acts of a frame come first, others last; and what a frame with a CONFIRM begins with.
ORDER = ("SELECT", "INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "INFORM", "REQUEST", "CONFIRM")
CONFIRM = "Please confirm the following details:"

# Before a sentence that does not name its act; other acts have their name.
LEADS = {"INFORM": "", "OFFER": "How about this:", "CONFIRM": ""}


def read_templates(folder: str) -> tuple[Templates, list[Path]]:
    """Reads the templates of a folder, ``SERVICE.tsv`` for each service; and the files.

    A line is a key, a tab and a sentence, with an ``@`` in both for each value: ``INFORM!!city!!@``, ``REQUEST!!city``,
    ``INFORM!!has_wifi!!True``, ``OFFER_INTENT!!BookHotel``, ``INFORM_COUNT!!FindHotel!!count!!@``, ``GOODBYE``. Of
    lines with the same key the last counts.

    Raises:
      InputError: no such folder, no file in it, or a line is not like this; names file and line.
    """
    place = as_path(folder)
    paths = sorted(place.glob("*.tsv")) if place.is_dir() else []
    if not paths:
        raise InputError("has no templates: expected a folder with SERVICE.tsv for each service", folder, "--templates")
    return {path.stem: _read(path) for path in paths}, paths


def _read(path: Path) -> dict[str, str]:
    lines = read_text(path).split("\n")
    found = {}
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
            reason = f"the key has {values} {VALUE} and the sentence {places}: both need one for each value"
            raise InputError(reason, path, f"line {number}")
        found[key] = sentence
    return found


def key_of(act: Act) -> str:
    """The key of an act's template: act, slot or intent, and how many values or which boolean."""
    values = VALUE * len(act.values)
    if act.act in _BY_INTENT:
        intent = act.values[0] if act.act == "OFFER_INTENT" and act.values else act.intent
        parts = [act.act, intent, *(("count", values) if act.act == "INFORM_COUNT" else ())]
    else:
        parts = [act.act, act.slot, act.values[0] if act.values in _IN_KEYS else values]
    return SEPARATOR.join(part for part in parts if part)


def template_of(act: Act, templates: Templates) -> str | None:
    """The template of an act; None where there is none."""
    return templates.get(act.service, {}).get(key_of(act))


def text_of(acts: Iterable[Act], words: Mapping[str, ServiceWords], templates: Templates = NONE) -> str:
    """The sentences of a turn's acts, frame by frame in T2G2's order.

    Args:
      acts: of the turn.
      words: of each service, for acts without a template.
      templates: the user's.
    """
    found: list[str] = []
    for service, of in groupby(acts, lambda act: act.service):
        frame = sorted(of, key=lambda act: ORDER.index(act.act) if act.act in ORDER else len(ORDER))
        found += [CONFIRM] * any(act.act == "CONFIRM" for act in frame)
        found += (sentence(act, words[service], template_of(act, templates)) for act in frame)
    return " ".join(found)


def sentence(act: Act, words: ServiceWords, template: str | None = None) -> str:
    """That of one act: its template with its values, else ``How about this: Name of the restaurant is Opa.``"""
    if template is not None:
        pieces, places = template.split(VALUE), template.count(VALUE)
        filled = zip_longest(pieces, act.values[:places], fillvalue="")
        return _line("".join(piece + value for piece, value in filled))
    text = _line(references(act, words)[0])
    if act.act == "REQUEST" and act.values:
        text = f"{text}: {' or '.join(act.values)}"
    lead = LEADS.get(act.act, f"{act_name(act)}:") if act.states and not is_marker(act.act, act.slot) else ""
    return f"{lead} {text}{'' if text[-1:] in '.?!' else '.'}".lstrip()


def _line(text: str) -> str:
    return " ".join(text.split())
