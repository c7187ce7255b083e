"""Split texts of tools into their meaning and the parts to keep: formats, defaults, examples, units.

A worker who paraphrases ``distance`` cannot know that it is in miles, or that its default is 0. Without these parts, a
variant would be a different tool, whose expected calls nobody could guess. So annotators and translators only get the
meaning, and the other parts are added to it unchanged in every variant.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_UNIT = (
    r"(?:(?:square|cubic) )?(?:"
    r"m(?:et(?:er|re)s?)?|km|kilomet(?:er|re)s?|cm|centimet(?:er|re)s?|mm|millimet(?:er|re)s?|miles?|feet|foot|ft|inch(?:es)?|"
    r"yards?|kgs?|kilo(?:gram)?s?|g|grams?|mg|milligrams?|lbs?|pounds?|ounces?|tons?|tonnes?|lit(?:er|re)s?|gallons?|ml|"
    r"milliseconds?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|degrees?|radians?|celsius|fahrenheit|kelvins?|"
    r"percent(?:age)?s?|%|dollars?|euros?|cents|usd|eur|gbp|volts?|watts?|amperes?|amps?|ohms?|joules?|newtons?|pascals?|"
    r"atmospheres?|atm|hertz|hz|mph|coulombs?|teslas?|farads?|moles?|calories|kcal|bytes?|pixels|kb|mb|gb|lux|decibels|"
    r"m/s(?:\^2|²)?|km/h|kg/m\^?3?|iso[ -]?\d+|utc|lowercase|uppercase|json|html|yyyy[-/]mm[-/]dd"
    r")"
)
_PER = rf"{_UNIT}(?:(?: per |/){_UNIT})*(?: (?:celsius|fahrenheit|squared|cubed))?"
_IN_UNIT = re.compile(rf",?\s+(?:in|as) (?:a |an |the |decimal )?{_PER}(?![\w-])(?:\s+format)?", re.IGNORECASE)
_AFTER_COMMA = re.compile(rf"^[^,]+,\s*{_PER}\s*$", re.IGNORECASE)
# Extends to the end of the sentence.
_REST = re.compile(
    r"[,;:]?\s+(?:in the (?:format|form of)|in (?:the )?['\"`]|formatted|expressed|e\.?g\.|i\.e\.|"
    r"for (?:example|instance)|such as|like (?=['\"`])|(?:which|that) (?:must|should|are|is)\b[^.]*\d|between \d|"
    r"defaults? (?:to|is)|including ['\"`])|[,;:]\s+(?:(?:must|should|can) be|(?:use )?default|(?:either )?['\"`])",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\s*\(([^()]*)\)")
# Occurs in sentences, or brackets, that must stay.
_TELLING = re.compile(
    r"['\"`\d]|\b(?:defaults?|formats?|must|should|use|only|optional|required|allowed|valid|units?|examples?|e\.?g|i\.e|null|none|"
    rf"true|false|unspecified|omitted|{_UNIT})\b",
    re.IGNORECASE,
)
# Sections of a docstring, and identifiers such as list_issues, listIssues and `limit`.
_SECTION = re.compile(
    r"\s*\n[ \t]*(?:(?:args|arguments|parameters|params|keyword args|returns?|raises|yields|examples?|usage|notes?)"
    r"[ \t]*(?::[ \t]*\n|\n[ \t]*-{3,})|[:@](?:param|returns?|raises)\b)",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"`[^`\n]+`|\b[A-Za-z]\w*_\w+|\b[a-z]+[A-Z]\w*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z'\"`(\d])")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|vs|approx|abbr|max|min|no)\.$", re.IGNORECASE)


class Description(NamedTuple):
    """A description in parts.

    Attributes:
      meaning: the part that can be paraphrased.
      clauses: the clauses of its sentence that must stay.
      sentences: the sentences that must stay.
      ends: whether it ends with a full stop.
      sections: the sections of a docstring, which must stay.
    """

    meaning: str
    clauses: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    ends: bool = False
    sections: str = ""

    def reworded(self, meaning: str) -> str:
        """Return the description with a new wording of its meaning."""
        text = meaning.strip().rstrip(".")
        text += f" ({'; '.join(self.clauses)})" if self.clauses else ""
        text += "." if self.sentences or self.ends else ""
        return " ".join([text, *self.sentences]) + self.sections


@lru_cache(maxsize=1 << 14)
def parts_of(description: str) -> Description:
    """Split a description; all of it is its meaning if nothing must stay, or nothing else would be left."""
    section = _SECTION.search(description)
    text = description[: section.start()] if section else description
    sections = description[len(text) :]
    first, *more = _sentences(text.strip())
    kept = tuple(sentence for sentence in more if _TELLING.search(sentence) or _IDENTIFIER.search(sentence))
    first, *clauses = _without_clauses(first)
    meaning = " ".join([first, *(sentence for sentence in more if sentence not in kept)])
    if not re.search(r"[^\W\d_]{3}", first):
        return Description(description)
    return Description(meaning, tuple(clauses), kept, text.rstrip().endswith("."), sections)


def documented_in(docstring: str, name: str) -> str:
    """Return what the docstring of a tool says about a parameter, or an empty string."""
    entry = (
        rf"^[ \t]*(?:[-*][ \t]*|:param[ \t]+(?:\w+[ \t]+)?)?{re.escape(name)}[ \t]*(?:\([^()\n]*\))?[ \t]*:[ \t]*(\S.*)"
    )
    match = re.search(entry, docstring, re.MULTILINE)
    return match[1].strip() if match else ""


def identifiers(text: str) -> list[str]:
    """Return the identifiers in a text, such as ``list_issues``, which no rewording may lose."""
    return _IDENTIFIER.findall(text)


def _sentences(text: str) -> list[str]:
    """Split a text into sentences; a full stop in an abbreviation does not end one."""
    sentences: list[str] = []
    for part in _SENTENCE.split(text):
        if sentences and (_SHORT.search(sentences[-1]) or sentences[-1].count("(") > sentences[-1].count(")")):
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return sentences


def _without_clauses(sentence: str) -> list[str]:
    """Return the sentence without clauses that must stay, followed by these clauses."""
    stop = "." if sentence.endswith(".") else ""
    text, clauses = sentence.removesuffix("."), []
    for match in [match for match in _BRACKETS.finditer(text) if _TELLING.search(match[1])]:
        clauses.append(match[1].strip())
        text = text.replace(match[0], "", 1)
    if (rest := _REST.search(text)) and rest.start() > 0:
        clauses.append(text[rest.start() :].strip(" ,;:"))
        text = text[: rest.start()]
    if (unit := _IN_UNIT.search(text)) and unit.start() > 0:
        clauses.append(unit[0].strip(" ,"))
        text = f"{text[: unit.start()]}{text[unit.end() :]}"
    elif _AFTER_COMMA.search(text):
        text, _, unit_only = text.rpartition(",")
        clauses.append(unit_only.strip())
    return [f"{text.rstrip(' ,;:')}{stop}", *clauses]
