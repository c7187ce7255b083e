"""The engine ``embedded``: Hibari for synthesis and Moonshine for recognition, both neural and offline."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from parapet.schemas.errors import InputError
from parapet.transforms.core import fence, seeding
from parapet.transforms.perturb.speech.engine import RATE, resampled, version_of

if TYPE_CHECKING:
    from parapet.transforms.perturb.speech.engine import Samples

# Voices of either sex with different tempers. Pitches outside of 0.88 to 1.2 are hardly recognised by any engine.
SPEAKERS = "heart,heart:1.1:0.93,heart:0.95:1.08,heart:1.15:1.15,heart:1.05:0.88,heart:0.9:0.97"

_VOICE = re.compile(r"([a-z]+)(?::(\d+(?:\.\d{1,2})?))?(?::(\d+(?:\.\d{1,2})?))?", re.ASCII)
_SPEEDS, _PITCHES = (0.7, 1.4), (0.8, 1.3)
# "a" between words is the article; in "a m" it is a letter, and so is a letter after another one.
_LETTERS = re.compile(r"\b(?:a m|[b-hj-z](?: [a-z])+)\b")
_BREATH = 40  # words synthesised at a time: the model was trained on sentences


class Hibari:
    """Synthesises English.

    A voice is the name of one of Hibari's (``heart`` is included in the package), optionally followed by factors for
    its speed and pitch: ``heart:1.1:0.9``. The pitch is changed by resampling, which also changes the vocal tract.
    Other voices (``fenrir``, ``kore``, ``emma``, ``fable``) can be used if their files are in Hibari's own cache; this
    module never downloads them.
    """

    parallel = 1
    dollars_per_million = 0.0
    default_voice = SPEAKERS

    def __init__(self) -> None:
        self.name = f"hibari {version_of('hibari-tts')}"
        self._models: dict[str, Any] = {}

    def open(self) -> None:
        """Does nothing: voices are loaded on first use."""

    def close(self) -> None:
        """Unloads the voices."""
        self._models = {}

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that Hibari does not have, or whose file is missing."""
        from hibari.voices import VOICES, voice_path

        for voice in voices:
            name, _, _ = parse_voice(voice)
            if name not in VOICES:
                raise InputError(f"{name!r} is not a voice of Hibari: must be one of {', '.join(VOICES)}", "--voices")
            try:
                voice_path(name, download_missing=False)
            except FileNotFoundError as error:
                hint = f"python -c \"import hibari; hibari.Hibari(voice='{name}')\" downloads it"
                raise InputError(f"the voice {name!r} is not installed (no file {error}): {hint}", "--voices") from None

    def speak(self, text: str, voice: str) -> Samples:
        """Sees :class:`~parapet.transforms.perturb.speech.engine.Synthesiser`."""
        name, speed, pitch = parse_voice(voice)
        if name not in self._models:
            from hibari import Hibari as Model
            from hibari.voices import voice_path

            self._models[name] = Model(voice=name, model=voice_path(name, download_missing=False))
        model, words = self._models[name], text.split()
        # The voice has a noise component, so runs would differ without a seed.
        seed = seeding.stable_hash("hibari", voice, text)
        parts = [" ".join(words[i : i + _BREATH]) for i in range(0, len(words), _BREATH)]
        parts = [_LETTERS.sub(lambda initials: initials[0].replace(" ", "").upper(), part) for part in parts]
        spoken = [model(part, speed=speed / pitch, seed=seed) for part in parts]
        sound = np.concatenate(spoken or [np.zeros(0, np.float32)])
        if not sound.any():
            raise fence.Refused("empty_answer: the sound is silent")
        return resampled(sound * 32767, round(model.sample_rate * pitch), RATE)


def parse_voice(voice: str) -> tuple[str, float, float]:
    """Parses ``heart:1.1:0.9`` to (name, speed, pitch). Raises InputError if it is invalid."""
    match = _VOICE.fullmatch(voice)
    speed, pitch = (float(match[i] or 1) if match else 0.0 for i in (2, 3))
    if not (match and _SPEEDS[0] <= speed <= _SPEEDS[1] and _PITCHES[0] <= pitch <= _PITCHES[1]):
        raise InputError(
            f"{voice!r} is not a voice: give a name, a speed from {_SPEEDS[0]} to {_SPEEDS[1]} and a pitch "
            f"from {_PITCHES[0]} to {_PITCHES[1]}, such as heart:1.1:0.9",
            "--voices",
        )
    return match[1], speed, pitch


PACKAGE, MODEL = "moonshine-voice", "tiny-en"
# Without voice activity detection, since a turn is continuous speech: otherwise, the silence before it is a line, too.
OPTIONS = {"vad_threshold": "0"}


class Moonshine:
    """Recognises English. Raises MissingExtra without the package."""

    parallel = 1
    dollars_per_hour = 0.0

    def __init__(self) -> None:
        self.name = f"moonshine {MODEL} ({PACKAGE} {version_of(PACKAGE)})"
        self._model: Any = None

    def open(self) -> None:
        """Loads the model, which takes some tenths of a second."""
        # A single thread takes less than half the processor time of several that wait for each other.
        os.environ.setdefault("MOONSHINE_ORT_SINGLE_THREAD", "1")
        from moonshine_voice import ModelArch, Transcriber, get_model_path

        self._model = Transcriber(get_model_path(MODEL), ModelArch.TINY, options=OPTIONS)

    def close(self) -> None:
        """Unloads the model."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def hear(self, sound: Samples) -> str:
        """Sees :class:`~parapet.transforms.perturb.speech.engine.Recogniser`."""
        if not sound.any():
            return ""
        from moonshine_voice import MoonshineError

        try:
            transcript = self._model.transcribe_without_streaming((sound.astype(np.float32) / 32768).tolist(), RATE)
        except MoonshineError as error:
            raise fence.Refused(f"failed: Moonshine could not transcribe the recording: {error}") from None
        return " ".join(line.text for line in transcript.lines).strip()


# The names that the module of an engine must define.
Synthesiser, Recogniser = Hibari, Moonshine
