"""Flite as a synthesiser: voices cut from recordings of people, from the Debian package ``libflite1``; no network."""

from __future__ import annotations

import ctypes
import re
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech.engine import RATE, resampled
from parapet.transforms.running.fence import Refused

if TYPE_CHECKING:
    from parapet.transforms.perturbations.speech.engine import Samples

VOICES = ("rms", "awb", "slt", "kal16")

_lock = threading.Lock()  # the library is one per process


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("rate", ctypes.c_int),
        ("count", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


class Synthesiser:
    """Speaks American English, ``awb`` with a Scottish accent. Raises InputError where the library is missing."""

    parallel = 1
    dollars_per_million = 0.0
    default_voice = "rms"

    def __init__(self) -> None:
        _library("flite")
        self.name = f"flite {_version()}"

    def open(self) -> None:
        """Loads the library."""
        _library("flite").flite_init()

    def close(self) -> None:
        """Does nothing: the library stays loaded."""

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that Flite does not have."""
        for voice in voices:
            if voice not in VOICES:
                raise InputError(f"{voice!r} is no voice of Flite; there are {', '.join(VOICES)}", "--voices")
            _library(f"flite_cmu_us_{voice}")

    def speak(self, text: str, voice: str) -> Samples:
        """See :class:`~parapet.transforms.perturbations.speech.engine.Synthesiser`."""
        import numpy as np

        with _lock:
            _library("c").srand(1)  # the breath in its voices is drawn by rand(): else it is another each time
            wave = _library("flite").flite_text_to_wave(text.encode(), _voice(voice))
            if not wave:
                raise Refused("empty_answer: the sound is silent")
            found = wave.contents
            sound, rate = np.ctypeslib.as_array(found.samples, (found.count,)).copy(), found.rate
            _library("flite").delete_wave(wave)
        if not sound.any():
            raise Refused("empty_answer: the sound is silent")
        return resampled(sound, rate, RATE)


def _version() -> str:
    """The library's own file name has it, such as ``2.2``; nothing in it says so."""
    found = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return match[1] if (match := re.search(r"/libflite\.so\.([0-9.]+)", found)) else "1"


@cache
def _library(name: str) -> Any:
    try:
        library = ctypes.CDLL(None if name == "c" else f"lib{name}.so.1")
    except OSError:
        hint = "Debian and Ubuntu: apt-get install libflite1"
        raise InputError(f"the library lib{name}.so.1 is not installed ({hint})", "--speaker") from None
    if name == "flite":
        library.flite_text_to_wave.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        library.flite_text_to_wave.restype = ctypes.POINTER(_Wave)
        library.delete_wave.argtypes = [ctypes.POINTER(_Wave)]
    return library


@cache
def _voice(name: str) -> int | None:
    register = getattr(_library(f"flite_cmu_us_{name}"), f"register_cmu_us_{name}")
    register.argtypes, register.restype = [ctypes.c_char_p], ctypes.c_void_p
    return register(None)  # type: ignore[no-any-return]
