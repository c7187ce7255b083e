"""Translation by local models: Marian (OPUS-MT), M2M100, NLLB, also converted for CTranslate2. No network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from parapet.schemas.errors import InputError, MissingExtra, is_unicode
from parapet.transforms import checkpoints, plugins
from parapet.transforms.checkpoints import Checkpoint
from parapet.transforms.refusals import Refused
from parapet.transforms.translation.engine import Limits

if TYPE_CHECKING:
    from parapet.transforms.translation.local_models import Model

ANY = "*"

_CODEPOINTS = 20_000

Kind = Literal["marian", "m2m_100", "nllb"]

_TAKEN = "Marian (OPUS-MT), M2M100 and NLLB models are taken"

_OF_TOKENIZER: dict[str, Kind] = {"MarianTokenizer": "marian", "M2M100Tokenizer": "m2m_100", "NllbTokenizer": "nllb"}
# NLLB's is the architecture of M2M100.
_OF_MODEL: dict[str, tuple[Kind, ...]] = {"marian": ("marian",), "m2m_100": ("m2m_100", "nllb")}
# One of the lines is needed.
_FILES: dict[Kind, list[tuple[str, ...]]] = {
    "marian": [("source.spm", "target.spm", "vocab.json")],
    "m2m_100": [("vocab.json", "sentencepiece.bpe.model")],
    "nllb": [("tokenizer.json",), ("sentencepiece.bpe.model",)],
}
CONVERTED = "model.bin"  # by CTranslate2


class Folder(msgspec.Struct, frozen=True):
    """The folder of a model that can be used.

    Attributes:
      path: the folder.
      kind: of its tokenizer.
      converted: whether it is for CTranslate2.
      digest: of all files that a translation depends on, wherever the folder is.
    """

    path: str
    kind: Kind
    converted: bool
    digest: str


def inspect(path: str) -> Folder:
    """Inspects a folder; nothing is loaded.

    Raises:
      InputError: there is no such folder, or no model in it that can be used.
    """
    checkpoint = checkpoints.opened(path)
    converted = (Path(path) / CONVERTED).is_file()
    if not converted:
        if checkpoint.kind not in _OF_MODEL:
            raise checkpoint.refused(f"holds a model of type {checkpoint.config.get('model_type')!r}: {_TAKEN}")
        checkpoints.check_weights(checkpoint)
    kind = _kind(checkpoint)
    if not converted and kind not in _OF_MODEL[checkpoint.kind]:
        raise checkpoint.refused(f"holds a {checkpoint.kind} model with the tokenizer of {kind}")
    return Folder(path, kind, converted, checkpoints.digest(path))


def _kind(checkpoint: Checkpoint) -> Kind:
    """The tokenizer of a folder: the one that its configuration names, else the one whose files are there."""
    settings = checkpoints.read_json(Path(checkpoint.path), "tokenizer_config.json")
    named = settings.get("tokenizer_class") or checkpoint.config.get("tokenizer_class")
    if named:
        kind = _OF_TOKENIZER.get(str(named).removesuffix("Fast"))
        if kind is None:
            raise checkpoint.refused(f"its tokenizer is a {named}: {_TAKEN}")
        checkpoints.check_tokenizer(checkpoint, _FILES[kind])
        return kind
    # NLLB's file names are common ones: such a tokenizer must be named.
    for kind in get_args(Kind)[:2]:
        if checkpoints.has_files(checkpoint.path, _FILES[kind]):
            return kind  # type: ignore[no-any-return]
    advice = "copy them from where the model is from (ct2-transformers-converter --copy_files)"
    raise checkpoint.refused(f"lacks the files of a tokenizer: {advice}")


class Local:
    """Translates by models on this machine, on its GPU if torch or CTranslate2 can use one.

    The memory keeps its translations under ``KIND:PAIR@DIGEST,…,OPTIONS``: the digest of the files that a translation
    depends on, wherever they are, and the options that shape one. Another model, or one more, has another name.

    A text has the same translation in any batch: padding is masked, and samples are drawn text by text. But rounding
    depends on the shape of a batch, the number of threads and the processor: of two translations whose scores differ
    in the sixth digit, either may result. A translation in the memory is kept.

    Args:
      models: folder by pair, ``{"en-zh": "opus-mt-en-zh", "zh-en": "opus-mt-zh-en"}``, or one for all that have none
        of their own, ``{"*": "nllb-200-distilled-600M"}``. Their files are read and hashed here.
      batch: texts at a time.
      beams: of the search; 1 is greedy.
      max_tokens: of a translation; a longer one, perhaps repeating itself, is refused.
      sample: samples each next token instead of searching: for diversity, at the cost of accuracy. Not with
        CTranslate2, whose samples cannot be repeated.
      temperature: of sampling; above 1, less likely tokens are sampled more often.
      top_k: samples from the most likely tokens, so many of them; 0: from all.
      seed: of sampling, with the text and its languages: any text. A CPU and a GPU sample differently.
      threads: of the CPU; 0 leaves it to torch or CTranslate2.

    Raises:
      InputError: an invalid argument, or a folder without a model that can be used.
    """

    provider = "local"
    dollars_per_million = 0.0
    parallel = 1  # torch and CTranslate2 use all cores for one batch

    def __init__(
        self,
        models: Mapping[str, str],
        batch: int = 32,
        beams: int = 4,
        max_tokens: int = 256,
        sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 50,
        seed: str = "0",
        threads: int = 0,
    ) -> None:
        least = {"batch": (batch, 1), "beams": (beams, 1), "max_tokens": (max_tokens, 1), "top_k": (top_k, 0)}
        for name, (value, lowest) in {**least, "threads": (threads, 0)}.items():
            if value < lowest:
                raise InputError(f"must be {lowest} or more", name, str(value))
        if not 0 < temperature < float("inf"):
            raise InputError("must be more than 0", "temperature", str(temperature))
        self.folders = {pair: inspect(str(folder)) for pair, folder in sorted(models.items())}
        _check(self.folders, sample)
        self.batch, self.beams, self.max_tokens = batch, beams, max_tokens
        self.sample, self.temperature, self.top_k, self.seed = sample, temperature, top_k, seed
        self.threads = threads
        self.limits = Limits(batch, _CODEPOINTS)
        self.model = ",".join([*(_name(*one) for one in self.folders.items()), self._options()])
        self._models: dict[str, Model] = {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Local:
        """Creates one of the flags ``model`` (``[PAIR=]DIR``), ``beams``, ``sample``, ``temperature`` and ``seed``.

        Raises:
          InputError: there is no model for one of the directions of ``pivots``.
        """
        plugins.parallel_calls(options)
        if "model" not in options:
            raise InputError("name the folder of a model, or of one for each direction", "--model")
        pairs = {pair or ANY: folder for pair, _, folder in (one.rpartition("=") for one in options["model"])}
        legs = [f"{one}-{other}" for pivot in options["pivots"] for one, other in (("en", pivot), (pivot, "en"))]
        if ANY not in pairs and (lacking := [leg for leg in legs if leg not in pairs]):
            raise InputError(
                f"there is no model for {', '.join(lacking)}: name its folder, as {lacking[0]}=DIR", "--model"
            )
        names = ("beams", "sample", "temperature", "seed")
        return cls(pairs, **{name: options[name] for name in names if name in options})

    def _options(self) -> str:
        # max_tokens does not change a translation: one that is cut off is refused.
        if not self.sample:
            return f"beams={self.beams}"
        return f"temperature={self.temperature:g},top_k={self.top_k},seed={self.seed}"

    def open(self) -> None:
        """Checks that the packages are installed. A model is loaded with its first text.

        Raises:
          InputError: one is not installed.
        """
        # huggingface_hub reads it when it is imported. The calls here use no network either.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        converted = {folder.converted for folder in self.folders.values()}
        needed = {"transformers", "sentencepiece"}
        needed |= {"ctranslate2" if one else "torch" for one in converted}
        for name in sorted(needed):
            try:
                import_module(name)
            except ImportError as error:
                reason = "is not installed" if error.name == name else f"cannot be imported ({error})"
                raise MissingExtra(name, "local", reason=reason) from None

    def close(self) -> None:
        """Unloads the models. A second call does nothing."""
        self._models.clear()

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order; ``""`` where a model gives none.

        Raises:
          Refused: ``pair``: no model has these languages. ``invalid``: is not Unicode text. ``too_long``: for the
            model. ``cut_off``: its translation does not end. ``memory``: there is not enough.
          InputError: the model cannot be loaded, or its files have changed.
        """
        from parapet.transforms.translation.local_models import LOCK

        folder = self.folders.get(f"{source}-{target}") or self.folders.get(ANY)
        if folder is None:
            raise Refused(f"pair: {source} to {target}: there is no model for it, only for {', '.join(self.folders)}")
        for text in texts:
            _check_unicode(text)
        with LOCK:
            return self._loaded(folder).translate(texts, source, target, self)

    def _loaded(self, folder: Folder) -> Model:
        from parapet.transforms.translation.local_models import load

        if folder.path not in self._models:
            self._models[folder.path] = load(folder, self.threads)
        return self._models[folder.path]


def _check(folders: Mapping[str, Folder], sample: bool) -> None:
    """Raises InputError where a model cannot do what it is given for."""
    if not folders:
        raise InputError("give a folder for each pair, or one for *", "models")
    for pair, folder in folders.items():
        if pair != ANY and not all(pair.partition("-")):
            raise InputError("is neither a pair such as en-zh nor *", "models", pair)
        if pair == ANY and folder.kind == "marian":
            raise InputError(
                "a Marian model translates in one direction: give it for its pair, such as en-zh", folder.path
            )
        if sample and folder.converted:
            reason = "CTranslate2 cannot repeat its samples: use the model that it was converted from"
            raise InputError(reason, folder.path)


def _name(pair: str, folder: Folder) -> str:
    kind = f"{folder.kind}/ctranslate2" if folder.converted else folder.kind
    return f"{kind}:{pair}@{folder.digest}"


def _check_unicode(text: str) -> None:
    if not is_unicode(text):
        raise Refused("invalid: is not Unicode text", splits=True)
