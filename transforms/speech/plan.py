"""What a run of ``speech_errors`` needs to know: files, schemas, who says what, through which noise, who listens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.transforms.corpora import listed
from parapet.transforms.dead_letters import Tally, of_dialogues
from parapet.transforms.speech.calibrate import LEVELS, Calibration, set_name
from parapet.transforms.speech.engine import RATE
from parapet.transforms.speech.noise import KINDS, Noise, babble, plain, recordings
from parapet.transforms.speech.turns import Speakers, Utterance, uses_of

_SECONDS_A_WORD, _SECONDS_AROUND = 0.3, 0.8  # of eSpeak at its usual speed, silence included


def parse_targets(given: str) -> list[float]:
    """``0.1,0.2`` as rates. Raises InputError where they are none, or one stands twice."""
    targets = [_number(part, "--wer", "is no rate: give shares such as 0.1,0.2,0.3") for part in listed(given)]
    for target in targets:
        if not 0 < target < 1:
            raise InputError(f"{target:g} is no word error rate: give shares between 0 and 1, such as 0.2", "--wer")
    if not targets or len({set_name(target) for target in targets}) < len(targets):
        raise InputError("give each word error rate once, such as 0.1,0.2,0.3", "--wer")
    return sorted(targets)


def parse_ratios(given: str) -> list[float]:
    """``20,12,5`` as signal-to-noise ratios, the quietest noise first. Raises InputError where they are none."""
    ratios = [_number(part, "--snr", "is no ratio in dB: give some such as 20,12,5") for part in listed(given)]
    if len(set(ratios)) < 2 or len(set(ratios)) < len(ratios) or not all(map(_is_ratio, ratios)):
        raise InputError("give two or more different ratios from -20 to 60 dB, such as 20,12,5", "--snr")
    return sorted(ratios, reverse=True)


def _number(part: str, flag: str, what: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise InputError(f"{part!r} {what}", flag) from None


def make_noise(given: str, texts: Sequence[str]) -> Noise:
    """The noise that ``--noise`` names.

    Args:
      given: ``white``, ``pink``, ``babble``, or a folder of recordings.
      texts: that babble may say.
    """
    if given not in KINDS:
        return recordings(given)
    return babble(texts) if given == "babble" else plain(given)


def read_calibration(path: str, targets: Sequence[float], made_with: dict[str, Any]) -> tuple[Calibration, list[str]]:
    """The calibration of another run.

    Args:
      path: its ``calibration.json``.
      targets: the sets that are wanted.
      made_with: what this run is made with.

    Returns:
      The calibration of these sets; what was otherwise there, one line each.

    Raises:
      InputError: no such file, or one without one of the targets.
    """
    try:
        read = json.loads(as_path(path).read_bytes())
        found = msgspec.convert(read, Calibration)
        before = dict(read["made_with"])
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--calibration") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"is no calibration.json of speech_errors: {error}", path, "--calibration") from None
    if not found.ratios or found.start not in found.ratios or not all(map(_is_ratio, found.ratios)):  # NaN is read too
        raise InputError("is no calibration.json of speech_errors: ratios that cannot be used", path, "--calibration")
    by_name = {one.name: one for one in found.settings}
    chosen = []
    for target in targets:
        one = by_name.get(set_name(target))
        if one is None or one.level is None or not 0 <= one.level <= LEVELS:
            there = ", ".join(sorted(by_name))
            raise InputError(f"has no {set_name(target)}; it has {there}", path, "--calibration")
        chosen.append(one)
    changed = [
        f"calibrated with {name} {before.get(name)!r}, this run has {value!r}"
        for name, value in made_with.items()
        if before.get(name) != value
    ]
    ratios = tuple(sorted(found.ratios, reverse=True))
    return Calibration(ratios, found.start, tuple(chosen)), changed


def _is_ratio(snr: float) -> bool:
    return -20 <= snr <= 60


class Size(msgspec.Struct):
    """How much there is to say.

    Attributes:
      turns: user turns with something to say.
      texts: different ones, by voice.
      characters: of these.
      seconds: about how long they last.
    """

    turns: int = 0
    texts: int = 0
    characters: int = 0
    seconds: float = 0.0


def size_of(files: Sequence[DialogueFile], speakers: Speakers) -> Size:
    """Reads all files and counts."""
    size = Size()
    seen: set[Utterance] = set()
    for file in files:
        for utterance, _ in uses_of(file, speakers):
            size.turns += 1
            if utterance not in seen:
                seen.add(utterance)
                size.characters += len(utterance.text)
                size.seconds += _SECONDS_A_WORD * len(utterance.text.split()) + _SECONDS_AROUND
    size.texts = len(seen)
    return size


def made_with(sound_names: dict[str, str], speakers: Speakers) -> dict[str, Any]:
    """What shapes the word error rate, as ``calibration.json`` records it."""
    return {
        **sound_names,
        "voices": list(speakers.voices),
        "normalisation": speakers.rules.version,
        "samples_a_second": RATE,
    }


def tallies(counts: Mapping[str, int], sets: Sequence[str]) -> list[Tally]:
    """What is held against ``--max_bad``: files, dialogues, the turns of each set, and their recordings."""
    turns, lost = counts.get("turns", 0), counts.get("no_audio", 0)
    return [
        *of_dialogues(counts),
        *(Tally("user turn", turns, counts.get(f"failed/{name}", 0), name) for name in sets),
        Tally("recording", counts.get("audio_files", 0) + lost, lost),
    ]
