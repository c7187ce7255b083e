"""PocketSphinx as a recogniser, from its package with the acoustic model in it: no network.

One decoder per process: it is not made for threads, and holds the interpreter while it works.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.layout import as_path
from parapet.transforms.files import join, read_bytes
from parapet.transforms.speech import ngram
from parapet.transforms.speech.espeak import version_of
from parapet.transforms.speech.pronunciation import dictionary, read_dictionary

if TYPE_CHECKING:
    from parapet.transforms.speech.engine import Samples

# Without the second of its passes: a third less time for at most one word in a hundred (docs/speech_errors.md).
SETTINGS: dict[str, Any] = {"fwdflat": False}

_GENERAL_WORDS = 10_000


class Model(msgspec.Struct, frozen=True):
    """A language model with the pronunciations of its words.

    Attributes:
      arpa: the model, in the ARPA format.
      words: its dictionary, as PocketSphinx reads it.
      unknown: the words that the CMU dictionary lacks; their pronunciations are eSpeak's.
    """

    arpa: str
    words: str
    unknown: list[str]

    @property
    def id(self) -> str:
        """A hash of all that shapes what is heard."""
        return hashlib.sha256(msgspec.json.encode([self.arpa, self.words, SETTINGS])).hexdigest()[:12]

    def files(self) -> dict[str, bytes]:
        """The model's files, by name."""
        return {f"{self.id}.arpa": self.arpa.encode(), f"{self.id}.dict": self.words.encode()}


def trained_model(sentences: Iterable[Sequence[str]], general: bool) -> Model:
    """A trigram model of these sentences.

    Args:
      sentences: of spoken words.
      general: whether further words of everyday English may be heard: for sentences that leave many out.

    Raises:
      InputError: there are no sentences, or PocketSphinx is missing.
    """
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    every = [tuple(sentence) for sentence in sentences if sentence]
    if not every:
        raise InputError("nobody says a word there: the language model needs user turns", "--language_model")
    base = {word: n for word, n in _general_words().items() if word in known} if general else None
    words, unknown = dictionary({*(base or ()), *(word for sentence in every for word in sentence)}, known)
    sayable = {line.split()[0].partition("(")[0] for line in words.splitlines()}
    return Model(
        ngram.arpa(([word for word in one if word in sayable] for one in every), base),
        words,
        unknown,
    )


def given_model(path: str) -> Model:
    """A model of the user's, in the ARPA format, its words in lower case. Raises InputError where it is none."""
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    try:
        text = as_path(path).read_text(encoding="utf-8")
        words, unknown = dictionary(ngram.words_of(text), known)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--language_model") from None
    except ValueError as error:
        raise InputError(f"is no language model in the ARPA format: {error}", path, "--language_model") from None
    return Model(text, words, unknown)


def _general_words() -> Mapping[str, float]:
    from wordfreq import get_frequency_dict, top_n_list

    frequency = get_frequency_dict("en")
    return {word: frequency[word] for word in top_n_list("en", _GENERAL_WORDS)}


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
        """Of ``models``, the folder, and ``language_model``, the id of one in it."""
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
        """Lets go of them."""
        self._decoder = None

    def hear(self, sound: Samples) -> str:
        """See :class:`~parapet.transforms.speech.engine.Recogniser`."""
        if not sound.any():
            return ""  # it makes words of a digital silence
        # It adapts to what it heard before, and the same sound would be heard differently.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(sound.astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return found.hypstr if found else ""
