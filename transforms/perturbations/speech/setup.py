"""Set up a run of ``speech_errors``: parse options, create engines and noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

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

FORMS: tuple[Form, ...] = ("heard", "restored")

MadeWith = dict[str, str | int | list[str]]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``speech_errors``, checked before any dialogue is read.

    Attributes:
      targets: word error rates, 0 to 1, ascending, with one set each.
      ratios: signal-to-noise ratios in dB, starting with the quietest noise.
      sample: number of texts that are recognised first, to estimate the error rate of each ratio.
      seed: the seed of noise, voices and draws.
      noise: the kind of noise, or a folder of recordings.
      reverberation: the reverberation time of the speaker's room in seconds; 0 for none.
      engines: the text-to-speech engine (speaker) and the ASR engine (listener).
      engine_options: the options of both engines.
      voices: the voices of dialogues; if empty, the default voice of the speaker.
      longest: maximum length of an utterance that is spoken, in characters.
      form: the form of the transcript.
    """

    targets: list[float]
    ratios: list[float]
    sample: int
    seed: str
    noise: str
    reverberation: float
    engines: dict[engine.Part, plugins.Chosen]
    engine_options: dict[str, str | int]
    voices: tuple[str, ...]
    longest: int
    form: Form

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of the sets, such as ``SR-20``."""
        return tuple(map(set_name, self.targets))


class Setup(msgspec.Struct, frozen=True):
    """The components for recognising the turns of a corpus.

    Attributes:
      config: the options.
      speakers: the voices and the spoken form.
      channel: text-to-speech engine, noise, ASR engine.
      made_with: everything that determines the word error rate.
    """

    config: Config
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


def check_config(config: Config) -> None:
    """Check options that were not checked by parsing.

    Raises:
      InputError: an option is invalid, or a package is missing.
    """
    if not config.seed.isprintable():
        raise InputError("must be a text of printable characters", "--seed")
    for number, flag in ((config.sample, "--sample"), (config.longest, "--longest")):
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{number}: must be 1 or more", flag)
    if config.form not in FORMS:
        raise InputError(f"{config.form!r} must be one of {', '.join(FORMS)}", "--form")
    _check_extras(config.engines.values(), config.noise)


def _check_extras(engines: Iterable[plugins.Chosen], noise: str) -> None:
    extras = {extra for chosen in engines if chosen.plugin.built_in for extra in chosen.plugin.extras}
    extras |= {"speech"} if noise == "babble" or not extras else set()
    for package in ("jiwer", "num2words", "scipy", "soundfile"):  # packages of each of these extras
        if find_spec(package) is None:
            raise MissingExtra(package, ",".join(sorted(extras)))


def prepare(config: Config, files: Sequence[DialogueFile], cache: str, try_engines: bool = True) -> Setup:
    """Create the engines and the noise.

    Args:
      config: the options.
      files: the dialogue files whose user turns are recognised.
      cache: the folder for caching transcripts.
      try_engines: whether to open the engines once, so that a missing key is reported before anything is spoken.

    Raises:
      InputError: a voice, a file or an engine cannot be used.
    """
    synthesiser = engine.make("speaker", config.engines["speaker"], config.engine_options)
    voices = config.voices or tuple(listed(synthesiser.default_voice))
    speakers = Speakers(voices, config.seed, config.longest)
    babbled: list[str] = []
    if config.noise == "babble":
        babbled = sorted({utterance.text for file in files for utterance, _ in occurrences_of(file, speakers)})
        if not babbled:
            raise InputError("babble is made from the user turns, but none of them has words", "--noise")
    noise = make_noise(config.noise, babbled, config.reverberation)
    recogniser = engine.make("listener", config.engines["listener"], config.engine_options)
    channel = Channel(synthesiser, recogniser, noise, config.seed, cache)
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
    return Setup(config, speakers, channel, made_with)
