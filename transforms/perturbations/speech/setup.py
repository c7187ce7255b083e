"""Options of ``speech_errors``: word error rates, signal-to-noise ratios, and the packages that they need."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.perturbation.corpora import listed
from parapet.transforms.perturbations.speech.alignment import Form, set_name
from parapet.transforms.running import plugins

FORMS: tuple[Form, ...] = ("heard", "restored")


def parse_targets(text: str) -> list[float]:
    """Parses word error rates such as ``0.1,0.2``. Raises InputError unless they are distinct rates."""
    targets = [
        _number(part, "--wer", "is not a number between 0 and 1 (example: 0.1,0.2,0.3)") for part in listed(text)
    ]
    for target in targets:
        if not 0 < target < 1:
            raise InputError(f"{target:g} is not a word error rate: must be between 0 and 1 (example: 0.2)", "--wer")
    if not targets or len({set_name(target) for target in targets}) < len(targets):
        raise InputError("each word error rate must appear once (example: 0.1,0.2,0.3)", "--wer")
    return sorted(targets)


def parse_ratios(text: str) -> list[float]:
    """Parse signal-to-noise ratios such as ``20,12,5``; return them from the quietest noise.

    Raises:
      InputError: there are fewer than two distinct ratios.
    """
    ratios = [_number(part, "--snr", "is not a ratio in dB (example: 20,12,5)") for part in listed(text)]
    if len(set(ratios)) < 2 or len(set(ratios)) < len(ratios) or not all(-20 <= ratio <= 60 for ratio in ratios):
        raise InputError("must be two or more different ratios from -20 to 60 dB (example: 20,12,5)", "--snr")
    return sorted(ratios, reverse=True)


def _number(part: str, flag: str, what: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise InputError(f"{part!r} {what}", flag) from None


def check_extras(engines: Iterable[plugins.Chosen], noise: str) -> None:
    """Raise InputError if a package of the engines' extras is missing."""
    extras = {extra for chosen in engines if chosen.plugin.built_in for extra in chosen.plugin.extras}
    extras |= {"speech"} if noise == "babble" or not extras else set()
    for package in ("jiwer", "num2words", "scipy", "soundfile"):  # packages of each of these extras
        if find_spec(package) is None:
            raise MissingExtra(package, ",".join(sorted(extras)))
