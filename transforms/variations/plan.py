"""The options of language variations: kinds, rates of mixes and of typos."""

from __future__ import annotations

import difflib
from decimal import Decimal, InvalidOperation

from parapet.schemas.errors import InputError
from parapet.transforms.corpora import listed
from parapet.transforms.perturb.typos import MIX, Rates
from parapet.transforms.variations.rewritten import Rewritten

KINDS = ("typos", "verbose", "simple", "paraphrase")


def parse_kinds(given: str) -> list[str]:
    """``typos,verbose`` as kinds, each once, in the order given. Raises InputError."""
    kinds = listed(given)
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is no kind of variation: there are {', '.join(KINDS)}", "--kinds")
    if not kinds or len(set(kinds)) < len(kinds):
        raise InputError("give each kind once, such as typos,verbose", "--kinds")
    return kinds


def kinds_of(given: str | None, rewritten: Rewritten | None) -> list[str]:
    """The kinds to be made: those named, else those of the rewritten turns, else all.

    Raises:
      InputError: no such kinds, or the rewritten turns have none of one.
    """
    if rewritten is None:
        return parse_kinds(given or ",".join(KINDS))
    present = [kind for kind in KINDS if kind in rewritten.kinds()]
    kinds = parse_kinds(given) if given else present
    if not kinds:
        raise InputError("has no line that can be used", rewritten.paths[0], "--rewritten")
    for kind in kinds:
        if kind not in present:
            raise InputError(f"{kind}: --rewritten has no line of it; it has {', '.join(present)}", "--kinds")
    return kinds


def parse_envs(given: str) -> list[str]:
    """``0.1,0.5,0.8`` as rates, rising, as they were written; ``none``: no Env sets. Raises InputError."""
    if given.strip() == "none":
        return []
    rates = listed(given)
    for rate in rates:
        if not 0 < _decimal(rate, "--env") <= 1:
            raise InputError(f"{rate} is no rate: give shares above 0, up to 1, such as 0.1,0.5,0.8", "--env")
    if not rates or sorted(set(map(Decimal, rates))) != [Decimal(rate) for rate in rates]:
        raise InputError("give rising rates such as 0.1,0.5,0.8, or none", "--env")
    return rates


def parse_rates(given: str, at_least: int) -> Rates:
    """``word=0.1,omission=50``: what is not named keeps its default. Raises InputError."""
    values: dict[str, float] = {"word": Rates().word, "abbreviation": Rates().abbreviation, **dict(MIX)}
    for part in listed(given):
        name, equals, text = part.partition("=")
        if name not in values:
            near = difflib.get_close_matches(name, values, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(values)}"
            raise InputError(f"{name!r} is no rate: {hint}", "--rates")
        if not equals:
            raise InputError(f"{name} needs a number, such as {name}={values[name]:g}", "--rates")
        values[name] = float(_decimal(text, "--rates"))
    word, abbreviation = values.pop("word"), values.pop("abbreviation")
    if not (0 <= word <= 1 and 0 <= abbreviation <= 1 and word + abbreviation <= 1):
        raise InputError("word and abbreviation are probabilities, together at most 1", "--rates")
    if not all(0 <= weight <= 1e6 for weight in values.values()) or not sum(values.values()):
        raise InputError("weights of kinds of typos are 0 or more, and one is more", "--rates")
    if at_least < 0:
        raise InputError(f"{at_least} is too few: give 0 or more", "--at_least")
    return Rates(word, abbreviation, tuple(values.items()), at_least)


def _decimal(text: str, flag: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InputError(f"{text!r} is no number", flag)
    return number
