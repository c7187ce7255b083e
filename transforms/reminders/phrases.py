"""``templates.toml``: texts by what they say, and what reminders are about."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

import msgspec

from parapet.transforms.reminders.service import DATE, REPEATS
from parapet.transforms.simulation.turns import Line, filled, slots_of

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_OFTEN, _ON, _COUNT = "<often>", "<on>", "<count>"


class Value(msgspec.Struct, frozen=True):
    """A value of a slot.

    Attributes:
      said: as it stands in an utterance, and in the state.
      canonical: as the service has it.
      before: of a date, the preposition that it takes: ``"on "`` or nothing.
      phrase: of a slot without spans, the words for it: ``every day`` for ``daily``.
    """

    said: str
    canonical: str
    before: str = ""
    phrase: str = ""


class Pattern(msgspec.Struct, frozen=True):
    """A text with gaps.

    Attributes:
      text: as the file has it.
      always: the slots that it always says.
      slots: those that it can say.
    """

    text: str
    always: frozenset[str]
    slots: frozenset[str]

    def says(self, slots: Iterable[str]) -> bool:
        """Whether it can say just these slots."""
        return self.always <= set(slots) <= self.slots

    def line(self, values: Mapping[str, Value], count: str = "") -> Line:
        """The text with these values, and their spans.

        Args:
          values: of the slots that are said.
          count: how many there are, in words.
        """
        text = _OPTIONAL.sub(lambda part: part[1] if _slots(part[1]) <= values.keys() else "", self.text)
        text = text.replace(_ON, values[DATE].before if DATE in values else "").replace(_COUNT, count)
        text = text.replace(_OFTEN, values[REPEATS].phrase if REPEATS in values else "")
        return filled(text, {slot: value.said for slot, value in values.items()})


def pattern_of(text: str) -> Pattern:
    """The pattern that a text of the file is."""
    return Pattern(text, _slots(_OPTIONAL.sub("", text)), _slots(text))


def _slots(text: str) -> frozenset[str]:
    return frozenset([*slots_of(text), *([REPEATS] if _OFTEN in text else [])])


class Templates(msgspec.Struct, frozen=True):
    """The file.

    Attributes:
      texts: ``USER`` or ``SYSTEM`` to what is said (``INFORM @SetReminder``) to its patterns.
      often: value of ``repeats`` to words for it.
      names: what reminders are about.
    """

    texts: dict[str, dict[str, tuple[Pattern, ...]]]
    often: dict[str, tuple[str, ...]]
    names: tuple[str, ...]


@cache
def templates() -> Templates:
    """What ``templates.toml`` has."""
    found = tomllib.loads((resources.files(__package__) / "templates.toml").read_text(encoding="utf-8"))
    names = [
        f"{verb} {what}"
        for verbs, every in found["names"].items()
        for verb in verbs.split("|")
        for what in every.split("|")
    ]
    return Templates(
        {
            speaker.upper(): {key: tuple(map(pattern_of, texts)) for key, texts in found[speaker].items()}
            for speaker in ("user", "system")
        },
        {value: tuple(phrases) for value, phrases in found["often"].items()},
        tuple(names),
    )
