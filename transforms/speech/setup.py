"""What turns are heard with: options read, engines made, noise, and the language model of the listener."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms import plugins
from parapet.transforms.corpora import listed
from parapet.transforms.files import join, whole
from parapet.transforms.speech import RATIOS, SAMPLE, engine, plan
from parapet.transforms.speech.calibrate import Calibration, set_name
from parapet.transforms.speech.hearing import Sound
from parapet.transforms.speech.language_model import Choice, choose_model
from parapet.transforms.speech.replacing import Form
from parapet.transforms.speech.spoken import load_normalisation
from parapet.transforms.speech.turns import Speakers, sentences_of

FORMS: tuple[Form, ...] = ("heard", "restored")


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were checked, before any dialogue is read.

    Attributes:
      targets: word error rates, 0 to 1, ascending: a set each.
      ratios: signal-to-noise ratios, dB, the quietest noise first.
      sample: how many texts are heard first.
      seed: of noise, voices and draws.
      noise: its kind, or a folder of recordings.
      engines: who speaks and who listens.
      engine_options: of the two.
      voices: of which each dialogue has one; the engine's own where there are none.
      language_model: its kind, or a file, for a listener that uses one.
      normalisation: a file of rules of the spoken form; None: ours.
      longest: characters that a turn may have to be said.
      form: how words are written down.
      calibration: of another run, a file; None: this run calibrates.
    """

    targets: list[float]
    ratios: list[float]
    sample: int
    seed: str
    noise: str
    engines: dict[engine.Part, plugins.Chosen]
    engine_options: dict[str, Any]
    voices: tuple[str, ...]
    language_model: str
    normalisation: str | None
    longest: int
    form: Form
    calibration: str | None

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets: ``SR-20``."""
        return tuple(map(set_name, self.targets))


class Setup(msgspec.Struct, frozen=True):
    """What turns are heard with.

    Attributes:
      config: the options.
      speakers: who says what.
      sound: who speaks, who listens, and the noise between them.
      model: the language model, where the listener uses one.
      made_with: what shapes the word error rate, for the records.
      calibrated: the calibration of another run, where it is kept.
      warnings: what differs from the run that was calibrated, a line each.
    """

    config: Config
    speakers: Speakers
    sound: Sound
    model: Choice | None
    made_with: dict[str, Any]
    calibrated: Calibration | None
    warnings: list[str]


def read_options(
    *,
    wer: str,
    snr: str | None,
    sample: int | None,
    seed: str,
    noise: str,
    speaker: str,
    listener: str,
    engine_options: Mapping[str, Any],
    voices: str | None,
    language_model: str,
    normalisation: str | None,
    longest: int,
    form: Form,
    calibration: str | None,
) -> Config:
    """Options as the flags of ``speech_errors`` have them, checked.

    Raises:
      InputError: one cannot be used, or a package is missing.
    """
    if calibration and (snr or sample):
        raise InputError("carries noises over: leave --snr and --sample out", "--calibration")
    sample = SAMPLE if sample is None else sample
    targets, ratios = plan.parse_targets(wer), plan.parse_ratios(snr or RATIOS)
    if not seed.isprintable():
        raise InputError("give a text of printable characters", "--seed")
    for number, flag in ((sample, "--sample"), (longest, "--longest")):
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{number} is too few: give 1 or more", flag)
    if form not in FORMS:
        raise InputError(f"{form!r} is none of {', '.join(FORMS)}", "--form")
    named: dict[engine.Part, str] = {"speaker": speaker, "listener": listener}
    engines = {part: engine.choose(part, name) for part, name in named.items()}
    _check_extras(engines.values(), noise)
    if voices is not None and not listed(voices):
        raise InputError("give one or more voices, such as klatt4,adam", "--voices")
    return Config(
        targets=targets,
        ratios=ratios,
        sample=sample,
        seed=seed,
        noise=noise,
        engines=engines,
        engine_options=dict(engine_options),
        voices=tuple(listed(voices or "")),
        language_model=language_model,
        normalisation=normalisation,
        longest=longest,
        form=form,
        calibration=calibration,
    )


def _check_extras(engines: Iterable[plugins.Chosen], noise: str) -> None:
    wanted = {extra for chosen in engines if chosen.plugin.built_in for extra in chosen.plugin.extras}
    wanted |= {"speech"} if noise == "babble" or not wanted else set()
    for package in ("jiwer", "num2words", "scipy", "soundfile"):  # that all of these extras have
        if find_spec(package) is None:
            raise MissingExtra(package, ",".join(sorted(wanted)))


def prepare(
    config: Config, files: Sequence[DialogueFile], train: Sequence[DialogueFile], cache: str, try_engines: bool = True
) -> Setup:
    """Makes the engines, and the language model of the turns that are heard.

    Args:
      config: how.
      files: whose turns are heard.
      train: of the split train.
      cache: the folder in which everything that was heard is kept.
      try_engines: opens them once: a key that is missing is reported before anything is spoken.

    Raises:
      InputError: a voice, a file or an engine that cannot be used.
    """
    synthesiser = engine.make("speaker", config.engines["speaker"], config.engine_options)
    voices = config.voices or tuple(listed(synthesiser.default_voice))
    speakers = Speakers(voices, config.seed, load_normalisation(config.normalisation), config.longest)
    model, own = None, {}
    if getattr(engine.class_of("listener", config.engines["listener"]), "uses_language_model", False):
        model = choose_model(config.language_model, train, files, speakers, min(config.targets))
        own = {"models": f"{cache}/models", "language_model": model.model.id}
    texts: list[str] = []
    if config.noise == "babble":
        sentences = (model.sentences if model else None) or sentences_of(files, speakers)
        texts = sorted({" ".join(words) for words in sentences})
        if not texts:
            raise InputError("nobody says a word there that others could babble", "--noise")
    noise = plan.make_noise(config.noise, texts)
    recogniser = engine.make("listener", config.engines["listener"], config.engine_options | own)
    sound = Sound(synthesiser, recogniser, noise, config.seed, speakers.rules, cache)
    synthesiser.check(list(voices))
    if try_engines:
        for one in (synthesiser, *(() if model else (recogniser,))):  # a language model is not written yet
            one.open()
            one.close()
    made_with = plan.made_with(names_of(sound, model), speakers)
    calibrated, warnings = None, list[str]()
    if config.calibration:
        calibrated, warnings = plan.read_calibration(config.calibration, config.targets, made_with)
    return Setup(config, speakers, sound, model, made_with, calibrated, warnings)


def names_of(sound: Sound, model: Choice | None) -> dict[str, str]:
    """Who speaks and who listens, for the records."""
    return {
        "synthesiser": sound.synthesiser.name,
        "recogniser": sound.recogniser.name,
        "language_model": model.kind if model else "",
        "noise": sound.noise.name,
    }


def write_model(setup: Setup) -> None:
    """Writes the files of the language model, where there is one, to where the workers look for them."""
    for name, data in setup.model.model.files().items() if setup.model else ():
        with whole(join(setup.sound.kept, f"models/{name}")) as handle:
            handle.write(data)
