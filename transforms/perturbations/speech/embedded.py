"""The engine ``embedded``: eSpeak NG speaks, PocketSphinx recognises, both from wheels; no network.

eSpeak's output depends on what the process has spoken before. Flutter, roughness, breath and echo continue, so
each voice is one of its variants without these; for them the library is pointed at a folder of links to its own data,
with our files in place of its variants. And the filters of some voices keep a trace of the last utterance, which makes
one text in twenty a few samples longer or shorter; so the same syllable is spoken, and discarded, before each. Then
the same text has the same samples in any order and process.

PocketSphinx has one decoder per process: it does not support threads, and holds the interpreter lock while it works.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.perturbations.speech.engine import RATE, resampled, version_of
from parapet.transforms.running.fence import Refused
from parapet.transforms.storage.files import join, read_bytes

if TYPE_CHECKING:
    from parapet.transforms.perturbations.speech.engine import Samples

PACKAGE = "espeakng-loader"
LANGUAGE = "en-us"
PLAIN = "plain"  # the language's own voice
SPEED = 175  # words a minute

_VOICE = re.compile(r"([\w-]+)(?::(\d{1,4}))?", re.ASCII)
_SPEEDS = range(80, 401)
_PRIMER = "a"
# One changes how all others speak after it, the other depends on them.
_UNFIT = ("robosoft2", "antonio")
_UNSTEADY = ("flutter", "roughness", "breath", "echo", "name")  # of a variant's file, with the name, which is ours

_SYNCHRONOUS, _UTF8, _SPEED, _DONT_EXIT, _IPA = 2, 1, 1, 0x8000, 2
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
_lock = threading.Lock()  # the library is one per process, and so are its voice and speed


class Espeak:
    """Speaks American English.

    A voice is the name of one of eSpeak's variants (``klatt4``, ``adam``, ``f1``), or ``plain``, and after a colon the
    speed in words a minute (80 to 400; default 175).
    """

    parallel = 1
    dollars_per_million = 0.0
    default_voice = "klatt4"

    def __init__(self) -> None:
        self.name = f"espeak-ng ({PACKAGE} {version_of(PACKAGE)})"
        self._library: _Library | None = None

    def open(self) -> None:
        """Loads the library. Raises InputError where the package is missing."""
        self._library = library()

    def close(self) -> None:
        """Does nothing: the library stays loaded, since it cannot be loaded twice."""
        self._library = None

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that is none of eSpeak's."""
        for voice in voices:
            variant, _ = parse_voice(voice)
            if variant not in (known := library().variants):
                some = ", ".join(sorted(known))
                raise InputError(f"{variant!r} is no voice of eSpeak; there are {some}", "--voices")

    def speak(self, text: str, voice: str) -> Samples:
        """See :class:`~parapet.transforms.perturbations.speech.engine.Synthesiser`."""
        assert self._library is not None
        variant, speed = parse_voice(voice)
        sound = self._library.speak(text, variant, speed)
        if not sound.any():
            raise Refused("empty_answer: the sound is silent")
        return sound


def parse_voice(voice: str) -> tuple[str, int]:
    """``adam:150`` as (variant, words a minute). Raises InputError where it cannot be."""
    match = _VOICE.fullmatch(voice)
    speed = int(match[2] or SPEED) if match else 0
    if not match or speed not in _SPEEDS:
        raise InputError(
            f"{voice!r} is no voice: give a name such as klatt4, or klatt4:150 for 150 words a minute", "--voices"
        )
    return match[1], speed


@cache
def library() -> _Library:
    """The library, loaded once per process. Raises InputError where the package is missing."""
    try:
        import espeakng_loader
    except ImportError:
        raise MissingExtra("espeakng-loader", "speech") from None
    return _Library(espeakng_loader.get_library_path(), Path(espeakng_loader.get_data_path()))


class _Library:
    def __init__(self, path: str, data: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parapet-espeak-")
        self.variants = _link_data(data, Path(self._folder.name))
        self._voice = ("", 0)
        self._sound: list[bytes] = []
        self._callback = _CALLBACK(self._take)
        self._dll: Any = ctypes.CDLL(path)
        self._dll.espeak_TextToPhonemes.restype = ctypes.c_char_p
        rate = self._dll.espeak_Initialize(_SYNCHRONOUS, 0, self._folder.name.encode(), _DONT_EXIT)
        if rate <= 0:
            raise InputError("eSpeak NG cannot load its data: install espeakng-loader again")
        self.rate: int = rate
        self._dll.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: Any, n: int, _: Any) -> int:
        if samples and n > 0:
            self._sound.append(ctypes.string_at(samples, 2 * n))
        return 0

    def speak(self, text: str, variant: str, speed: int) -> Samples:
        import numpy as np

        with _lock:
            self._set_voice(variant, speed)
            self._say(_PRIMER)
            sound = np.frombuffer(self._say(text), np.int16)
        return resampled(sound, self.rate, RATE)

    def _say(self, text: str) -> bytes:
        data = text.encode() + b"\0"
        self._sound.clear()
        self._dll.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 0, 0, _UTF8, None, None)
        return b"".join(self._sound)

    def phonemes(self, word: str) -> str:
        """The pronunciation of a word in the International Phonetic Alphabet."""
        with _lock:
            self._set_voice(PLAIN, SPEED)
            place = ctypes.c_char_p(word.encode())
            phonemes = self._dll.espeak_TextToPhonemes(ctypes.byref(place), _UTF8, _IPA)
        return (phonemes or b"").decode().strip()

    def _set_voice(self, variant: str, speed: int) -> None:
        if (variant, speed) == self._voice:
            return
        # Of a variant that it does not know eSpeak takes the language's own voice, and reports no error.
        if variant not in self.variants or self._dll.espeak_SetVoiceByName(f"{LANGUAGE}+{_ours(variant)}".encode()):
            raise InputError(f"{variant!r} is no voice of eSpeak", "--voices")
        self._dll.espeak_SetParameter(_SPEED, speed, 0)
        self._voice = variant, speed


def _ours(variant: str) -> str:
    return f"parapet-{variant}"


def _link_data(data: Path, folder: Path) -> list[str]:
    """A folder like the library's data, with a steady version of each variant. Gives the variants' names."""
    _link_all(data, folder, {"voices"})
    voices = folder / "voices"
    voices.mkdir()
    _link_all(data / "voices", voices, {"!v"})
    (voices / "!v").mkdir()
    variants = {PLAIN: "language variant\nname plain\n"}
    for file in sorted((data / "voices" / "!v").iterdir()):
        if _VOICE.fullmatch(file.name) and file.name not in _UNFIT:
            variants[file.name] = file.read_text(encoding="utf-8", errors="replace")
    for name, text in variants.items():
        kept = [line for line in text.splitlines() if not line.startswith(_UNSTEADY)]
        lines = [*kept, f"name {_ours(name)}", "flutter 0", "roughness 0", ""]
        (voices / "!v" / _ours(name)).write_text("\n".join(lines), encoding="utf-8")
    return list(variants)


def _link_all(source: Path, target: Path, but: set[str]) -> None:
    for file in source.iterdir():
        if file.name not in but:
            (target / file.name).symlink_to(file)


# Without the second of its passes: a third less time for at most one word in a hundred (docs/speech_errors.md).
SETTINGS: dict[str, Any] = {"fwdflat": False}


def acoustic_model() -> Path:
    """The folder of the acoustic model. Raises InputError where the package is missing."""
    try:
        from pocketsphinx import get_model_path
    except ImportError:
        raise MissingExtra("pocketsphinx", "speech") from None
    return Path(get_model_path()) / "en-us" / "en-us"


class Sphinx:
    """Recognises American English.

    Args:
      folder: where the files of the language model are, local or in a bucket.
      model: its id.
    """

    parallel = 1
    dollars_per_hour = 0.0
    uses_language_model = True

    def __init__(self, folder: str, model: str) -> None:
        self.folder, self.model = folder, model
        self.name = f"pocketsphinx {version_of('pocketsphinx')}:{model}"
        self._decoder: Any = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Sphinx:
        """Creates one of ``models``, the folder of language models, and ``language_model``, an id."""
        return cls(options["models"], options["language_model"])

    def open(self) -> None:
        """Loads the models, in some tenths of a second."""
        acoustic = acoustic_model()
        from pocketsphinx import Decoder

        with tempfile.TemporaryDirectory(prefix="parapet-sphinx-") as here:
            local = {kind: Path(here) / f"model.{kind}" for kind in ("arpa", "dict")}
            for kind, path in local.items():
                path.write_bytes(read_bytes(join(self.folder, f"{self.model}.{kind}")))
            try:
                self._decoder = Decoder(
                    hmm=str(acoustic), lm=str(local["arpa"]), dict=str(local["dict"]), loglevel="FATAL", **SETTINGS
                )
            except (RuntimeError, ValueError):
                raise InputError("PocketSphinx cannot read this language model", self.folder) from None

    def close(self) -> None:
        """Unloads them."""
        self._decoder = None

    def hear(self, sound: Samples) -> str:
        """See :class:`~parapet.transforms.perturbations.speech.engine.Recogniser`."""
        if not sound.any():
            return ""  # it recognises words in digital silence
        # It adapts to earlier sounds: without a reset the same sound would have another transcript.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(sound.astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return found.hypstr if found else ""


# By the names that an engine's module has for them.
Synthesiser, Recogniser = Espeak, Sphinx
