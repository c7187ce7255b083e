"""Speech errors: user turns as a recogniser transcribes them, with noise, at a given word error rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from parapet.schemas.errors import InputError
from parapet.transforms.core import plugins
from parapet.transforms.core.options import OUTPUT, option
from parapet.transforms.perturb.options import PerturbationOptions

if TYPE_CHECKING:
    from parapet.transforms.perturb.speech.perturbation import SpeechErrors

# Defaults: possible signal-to-noise ratios in dB; maximum number of characters spoken (about 25 seconds).
RATIOS, LONGEST = "10,6,4,2,0,-2,-4", 400
AUDIO = ("wav", "flac")
CACHE = ".heard"  # below a command's output: transcripts by content, kept for the next run
# Options of only one engine.
AZURE = ("azure_region", "azure_endpoint", "parallel_calls")
_ENGINES = plugins.Names(plugins.SPEECH_ENGINES)
_ENGINE = "engine"


class SpeechErrorOptions(PerturbationOptions):
    """The options of speech errors."""

    target = "parapet.transforms.perturb.speech.perturbation:SpeechErrors"
    description = (
        "Replaces user turns by ASR transcripts: they are spoken, mixed with noise and recognised. "
        "One set of dialogues for each word error rate: OUT/SR-20/test/dialogues_001.json."
    )
    example = """\
  parapet speech_errors --wer 0.2 --output heard
  parapet speech_errors --sgd sgd --split dev --noise recordings --audio flac --output heard
  parapet speech_errors --sgd sgd --engine azure --azure_region westeurope --output heard --dry_run"""
    group = "errors"
    large = 64 << 10  # a few dialogues repay the start of several workers
    records = "dialogues or transcripts"
    done = "transcribed"
    unusable = "left out, or turns that keep their utterance"
    without = ()

    audio: str = option("", "also write the sound, in OUT/SR-20/audio", group=OUTPUT, choices=AUDIO)
    cache: str = option(
        "", "folder of transcripts that are reused (default: OUT/.heard)", group=OUTPUT, metavar="DIR", rare=True
    )
    transcripts: str = option(
        "", "transcripts to use where it has them", group=OUTPUT, metavar="FILE", path=True, rare=True
    )
    wer: str = option("0.1,0.2,0.3", "word error rates, a set for each", metavar="LIST")
    noise: str = option("pink", "pink, white, or a folder of recordings", metavar="KIND", path=True)
    snr: str = option(
        "", f"signal-to-noise ratios to choose from, in dB (default: {RATIOS})", metavar="LIST", rare=True
    )
    longest: int = option(LONGEST, "maximum length of a turn that is spoken, in characters", rare=True)
    engine: str = option(
        "embedded", "engine of text to speech and ASR; embedded is offline", group=_ENGINE, choices=_ENGINES
    )
    voices: str | None = option(
        None,
        "voices of the engine, one for each dialogue; name, speed and pitch: heart,heart:1.1:0.9",
        group=_ENGINE,
        metavar="LIST",
        rare=True,
    )
    speaker: str = option(
        "", "text-to-speech engine (default: --engine)", group=_ENGINE, metavar="ENGINE", choices=_ENGINES, rare=True
    )
    listener: str = option(
        "", "ASR engine (default: --engine)", group=_ENGINE, metavar="ENGINE", choices=_ENGINES, rare=True
    )
    parallel_calls: int | None = option(None, "requests at a time, up to 32 (default: 4)", group=_ENGINE, rare=True)
    azure_region: str = option(
        "",
        "region, with the key in AZURE_SPEECH_KEY (default: AZURE_SPEECH_REGION)",
        group="--engine azure",
        metavar="NAME",
        rare=True,
    )
    azure_endpoint: str = option(
        "", "another address: wss://HOST, or ws://127.0.0.1:PORT", group="--engine azure", metavar="URL", rare=True
    )

    def make(self, **more: object) -> SpeechErrors:
        """Makes the perturbation. Raises InputError if an option belongs to an engine that is not used."""
        of_azure = {name: value for name in AZURE if (value := getattr(self, name)) not in (None, "")}
        if of_azure and "azure" not in (self.speaker or self.engine, self.listener or self.engine):
            raise InputError(f"is for --engine azure, but this is --engine {self.engine}", f"--{next(iter(of_azure))}")
        cache = (self.cache or f"{self.output}/{CACHE}").rstrip("/")
        perturbation = cast("SpeechErrors", super().make(engine_options=of_azure, cache=cache, **more))
        perturbation.try_engines = not self.dry_run
        return perturbation
