"""The engine ``embedded``: eSpeak NG speaks, PocketSphinx recognises, with its packaged acoustic model; no network.

One decoder per process: it does not support threads, and holds the interpreter lock while it works.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.files import join, read_bytes
from parapet.transforms.speech.espeak import Espeak, version_of

if TYPE_CHECKING:
    from parapet.transforms.speech.engine import Samples

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
        """See :class:`~parapet.transforms.speech.engine.Recogniser`."""
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
