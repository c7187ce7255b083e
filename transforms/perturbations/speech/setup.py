"""Set up a run of ``speech_errors``: parse options, create engines and noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.perturbation.corpora import listed
from parapet.transforms.perturbations.speech import engine
from parapet.transforms.perturbations.speech.alignment import set_name
from parapet.transforms.perturbations.speech.engine import RATE
from parapet.transforms.perturbations.speech.replacing import Form
from parapet.transforms.perturbations.speech.sound import make_noise
from parapet.transforms.perturbations.speech.spoken import VERSION, Speakers, occurrences_of
from parapet.transforms.perturbations.speech.transcribing import Channel
from parapet.transforms.running import plugins

if TYPE_CHECKING:
    from parapet.transforms.perturbations.speech.perturbation import SpeechErrors

FORMS: tuple[Form, ...] = ("heard", "restored")

MadeWith = dict[str, str | int | list[str]]


class Setup(msgspec.Struct, frozen=True):
    """The components for recognising the turns of a corpus.

    Attributes:
      targets: word error rates, 0 to 1, ascending, with one set each.
      ratios: signal-to-noise ratios in dB, starting with the quietest noise.
      sample: number of texts that are recognised first, to estimate the error rate of each ratio.
      speakers: the voices and the spoken form.
      channel: text-to-speech engine, noise, ASR engine.
      made_with: everything that determines the word error rate.
    """

    targets: list[float]
    ratios: list[float]
    sample: int
    speakers: Speakers
    channel: Channel
    made_with: MadeWith


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


def prepare(options: SpeechErrors, files: Sequence[DialogueFile], cache: str, try_engines: bool = True) -> Setup:
    """Create the engines and the noise.

    Args:
      options: the perturbation with its options.
      files: the dialogue files whose user turns are recognised.
      cache: the folder for caching transcripts.
      try_engines: whether to open the engines once, so that a missing key is reported before anything is spoken.

    Raises:
      InputError: a voice, a file or an engine cannot be used.
    """
    synthesiser = engine.make("speaker", options.engines["speaker"], options.engine_options)
    voices = options.voices or tuple(listed(synthesiser.default_voice))
    speakers = Speakers(voices, options.seed, options.longest)
    babbled: list[str] = []
    if options.noise == "babble":
        babbled = sorted({utterance.text for file in files for utterance, _ in occurrences_of(file, speakers)})
        if not babbled:
            raise InputError("babble is made from the user turns, but none of them has words", "--noise")
    noise = make_noise(options.noise, babbled, options.reverberation)
    recogniser = engine.make("listener", options.engines["listener"], options.engine_options)
    channel = Channel(synthesiser, recogniser, noise, options.seed, cache)
    synthesiser.check(list(voices))
    if try_engines:
        for tried in (synthesiser, recogniser):
            tried.open()
            tried.close()
    made_with: MadeWith = {
        "synthesiser": synthesiser.name,
        "recogniser": recogniser.name,
        "noise": noise.name,
        "voices": list(voices),
        "normalisation": VERSION,
        "samples_a_second": RATE,
    }
    return Setup(options.targets, options.ratios, options.sample, speakers, channel, made_with)
