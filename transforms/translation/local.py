"""Models in folders of one's own: Marian (OPUS-MT), M2M100, NLLB, or what CTranslate2 made of one. No network, ever."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from parapet.schemas.errors import InputError, MissingExtra, is_unicode
from parapet.transforms import plugins
from parapet.transforms.refusals import Refused
from parapet.transforms.translation import local_folders
from parapet.transforms.translation.engine import Limits

if TYPE_CHECKING:
    from parapet.transforms.translation.local_models import Model

ANY = "*"

_CODEPOINTS = 20_000


class Local:
    """Translates by models on this machine, on its GPU where it has one that torch or CTranslate2 can use.

    The memory keeps its translations under ``KIND:PAIR@DIGEST,…,OPTIONS``: the digest of the files that a translation
    depends on, wherever they are, and the options that shape one. Another model, or one more, has another name.

    The same text is given the same translation, whatever it is translated with: padding is masked, and samples are
    drawn text by text. But sums are rounded as a processor's kernels add them up, by the shape of a batch and the
    number of threads, and differently on a GPU: where two translations are equally good but for the sixth digit,
    either may come out. What is in the memory stays.

    Args:
      models: folder by pair, ``{"en-zh": "opus-mt-en-zh", "zh-en": "opus-mt-zh-en"}``, or one for all that have none
        of their own, ``{"*": "nllb-200-distilled-600M"}``. Their files are read and hashed here.
      batch: texts at a time.
      beams: of the search; 1 is greedy.
      max_tokens: of a translation; one that is not done by then, going round in circles perhaps, is refused.
      sample: draws each next token by lot in place of a search: for diversity, at the cost of accuracy. Not with
        CTranslate2, whose draws cannot be repeated.
      temperature: of the draws; above 1 they are bolder.
      top_k: draws from so many tokens, 0: from all.
      seed: of the draws, with the text and its languages: any text. A CPU and a GPU draw differently.
      threads: of the CPU; 0 leaves it to torch or CTranslate2.

    Raises:
      InputError: an argument that cannot be, or a folder without a model that can be used.
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
        for name, (given, lowest) in {**least, "threads": (threads, 0)}.items():
            if given < lowest:
                raise InputError(f"is {lowest} or more", name, str(given))
        if not 0 < temperature < float("inf"):
            raise InputError("is more than 0", "temperature", str(temperature))
        self.folders = {pair: local_folders.inspect(str(folder)) for pair, folder in sorted(models.items())}
        _check(self.folders, sample)
        self.batch, self.beams, self.max_tokens = batch, beams, max_tokens
        self.sample, self.temperature, self.top_k, self.seed = sample, temperature, top_k, seed
        self.threads = threads
        self.limits = Limits(batch, _CODEPOINTS)
        self.model = ",".join([*(_name(*one) for one in self.folders.items()), self._options()])
        self._models: dict[str, Model] = {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Local:
        """Of the flags ``model`` (``[PAIR=]DIR`` of each), ``beams``, ``sample``, ``temperature`` and ``seed``.

        Raises:
          InputError: there is no model for one of the directions of ``pivots``.
        """
        plugins.parallel_calls(options)
        if "model" not in options:
            raise InputError("name the folder of a model, or of one for each direction", "--model")
        pairs = {pair or ANY: folder for pair, _, folder in (one.rpartition("=") for one in options["model"])}
        legs = [f"{one}-{other}" for pivot in options["pivots"] for one, other in (("en", pivot), (pivot, "en"))]
        if ANY not in pairs and (lacking := [leg for leg in legs if leg not in pairs]):
            raise InputError(f"there is none for {', '.join(lacking)}: name its folder, as {lacking[0]}=DIR", "--model")
        given = ("beams", "sample", "temperature", "seed")
        return cls(pairs, **{name: options[name] for name in given if name in options})

    def _options(self) -> str:
        # max_tokens shapes no translation: one that is cut off is none.
        if not self.sample:
            return f"beams={self.beams}"
        return f"temperature={self.temperature:g},top_k={self.top_k},seed={self.seed}"

    def open(self) -> None:
        """Looks for the packages. A model is loaded when its first text comes.

        Raises:
          InputError: one is not installed.
        """
        # Read when huggingface_hub is imported first. The calls here ask for no network either.
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
        """Lets go of the models. Once more does nothing."""
        self._models.clear()

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order; ``""`` where a model says nothing.

        Raises:
          Refused: ``pair``: no model has these languages. ``invalid``: is not Unicode text. ``too_long``: for the
            model. ``cut_off``: its translation does not end. ``memory``: there is not enough.
          InputError: the model cannot be loaded, or is not the one that was there when this was made.
        """
        from parapet.transforms.translation.local_models import LOCK

        folder = self.folders.get(f"{source}-{target}") or self.folders.get(ANY)
        if folder is None:
            raise Refused(f"pair: {source} to {target}: no model was given for it, only for {', '.join(self.folders)}")
        for text in texts:
            _check_unicode(text)
        with LOCK:
            return self._loaded(folder).translate(texts, source, target, self)

    def _loaded(self, folder: local_folders.Folder) -> Model:
        from parapet.transforms.translation.local_models import load

        if folder.path not in self._models:
            self._models[folder.path] = load(folder, self.threads)
        return self._models[folder.path]


def _check(folders: Mapping[str, local_folders.Folder], sample: bool) -> None:
    """Raises InputError where a folder is given for what its model cannot do."""
    if not folders:
        raise InputError("give a folder for each pair, or one for *", "models")
    for pair, folder in folders.items():
        if pair != ANY and not all(pair.partition("-")):
            raise InputError("is no pair such as en-zh, nor *", "models", pair)
        if pair == ANY and folder.kind == "marian":
            raise InputError("a Marian model is of one direction: give it for its pair, such as en-zh", folder.path)
        if sample and folder.converted:
            reason = "CTranslate2 cannot draw the same twice: sample with the model that it was made of"
            raise InputError(reason, folder.path)


def _name(pair: str, folder: local_folders.Folder) -> str:
    kind = f"{folder.kind}/ctranslate2" if folder.converted else folder.kind
    return f"{kind}:{pair}@{folder.digest}"


def _check_unicode(text: str) -> None:
    if not is_unicode(text):
        raise Refused("invalid: is not Unicode text", splits=True)
