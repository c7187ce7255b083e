"""Moonshine's tiny English model as a recogniser: a neural one, whose wheel has the model in it; no network.

Of the package ``moonshine-voice`` its library is used, by ctypes: importing the package needs a sound card's library.
Its detection of voice activity is off: a turn is one stretch of speech, and of the silence before it makes a line.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError, MissingExtra, install_line
from parapet.transforms.perturbations.speech.engine import RATE, version_of
from parapet.transforms.running.fence import Refused

if TYPE_CHECKING:
    from parapet.transforms.perturbations.speech.engine import Samples

PACKAGE, MODEL = "moonshine-voice", "tiny-en"
OPTIONS = {"vad_threshold": "0"}  # nothing is cut

_TINY, _HEADER = 0, 20_000  # the kind of model; the interface that this is written for


class _Line(ctypes.Structure):
    _fields_ = (
        ("text", ctypes.c_char_p),
        ("audio", ctypes.c_void_p),
        ("audio_count", ctypes.c_size_t),
        ("start", ctypes.c_float),
        ("duration", ctypes.c_float),
        ("id", ctypes.c_uint64),
        ("flags", ctypes.c_int8 * 5),
        ("speaker", ctypes.c_uint64),
        ("speaker_index", ctypes.c_uint32),
        ("latency", ctypes.c_uint32),
        ("words", ctypes.c_void_p),
        ("word_count", ctypes.c_uint64),
    )


class _Transcript(ctypes.Structure):
    _fields_ = (("lines", ctypes.POINTER(_Line)), ("count", ctypes.c_uint64))


class _Option(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p))


class Recogniser:
    """Recognises English. Raises InputError where the package is missing, or has no model in it."""

    parallel = 1
    dollars_per_hour = 0.0

    def __init__(self) -> None:
        _folder()
        self.name = f"moonshine {MODEL} ({PACKAGE} {_version()})"
        self._handle: int | None = None

    def open(self) -> None:
        """Loads the model, in some tenths of a second."""
        library = _library()
        options = (_Option * len(OPTIONS))(*(_Option(name.encode(), value.encode()) for name, value in OPTIONS.items()))
        model = str(_folder() / "assets" / MODEL).encode()
        handle = library.moonshine_load_transcriber_from_files(model, _TINY, options, len(OPTIONS), _HEADER)
        if handle < 0:
            raise InputError(f"Moonshine cannot load its model (error {handle}): install {PACKAGE} again")
        self._handle = handle

    def close(self) -> None:
        """Unloads the model."""
        if self._handle is not None:
            _library().moonshine_free_transcriber(self._handle)
            self._handle = None

    def hear(self, sound: Samples) -> str:
        """See :class:`~parapet.transforms.perturbations.speech.engine.Recogniser`."""
        import numpy as np

        if not sound.any():
            return ""
        assert self._handle is not None
        samples = np.ascontiguousarray(sound.astype(np.float32) / 32768)
        found = ctypes.POINTER(_Transcript)()
        error = _library().moonshine_transcribe_without_streaming(
            self._handle, samples.ctypes.data, len(samples), RATE, 0, ctypes.byref(found)
        )
        if error:
            raise Refused(f"error_{abs(error)}: Moonshine could not transcribe it")
        lines = [found.contents.lines[i].text or b"" for i in range(found.contents.count)]
        return b" ".join(lines).decode("utf-8", errors="replace").strip()


def _folder() -> Path:
    spec = find_spec("moonshine_voice")  # it is not imported
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(PACKAGE, "moonshine", "--listener")
    folder = Path(spec.submodule_search_locations[0])
    if not (folder / "assets" / MODEL).is_dir():
        raise InputError(f"{PACKAGE} {_version()} comes without its model: {install_line('moonshine')}", "--listener")
    return folder


def _version() -> str:
    return version_of(PACKAGE)


@cache
def _library() -> Any:
    library = ctypes.CDLL(str(_folder() / "libmoonshine.so"))
    library.moonshine_load_transcriber_from_files.argtypes = [
        *(ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(_Option), ctypes.c_uint64, ctypes.c_int32)
    ]
    library.moonshine_transcribe_without_streaming.argtypes = [
        *(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32),
        ctypes.POINTER(ctypes.POINTER(_Transcript)),
    ]
    return library
