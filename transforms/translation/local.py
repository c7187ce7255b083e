"""Local models, which translate (Marian, M2M100, NLLB, also converted for CTranslate2) or paraphrase, offline."""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args
from weakref import WeakValueDictionary

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.reports.text import words
from parapet.transforms.running import plugins
from parapet.transforms.running.fence import Refused
from parapet.transforms.storage import checkpoints
from parapet.transforms.storage.checkpoints import Checkpoint
from parapet.transforms.translation.memory import Limits

ANY = "*"

_CODEPOINTS = 20_000
_TOP_K = 50  # samples are drawn from this many of the most probable tokens

Kind = Literal["marian", "m2m_100", "nllb"]

_TAKEN = "only Marian (OPUS-MT), M2M100 and NLLB models are supported"

_OF_TOKENIZER: dict[str, Kind] = {"MarianTokenizer": "marian", "M2M100Tokenizer": "m2m_100", "NllbTokenizer": "nllb"}
# NLLB has the architecture of M2M100.
_OF_MODEL: dict[str, tuple[Kind, ...]] = {"marian": ("marian",), "m2m_100": ("m2m_100", "nllb")}
# A folder needs all files of one of the tuples.
_FILES: dict[Kind, list[tuple[str, ...]]] = {
    "marian": [("source.spm", "target.spm", "vocab.json")],
    "m2m_100": [("vocab.json", "sentencepiece.bpe.model")],
    "nllb": [("tokenizer.json",), ("sentencepiece.bpe.model",)],
}
CONVERTED = "model.bin"  # written by CTranslate2's converter


class Folder(msgspec.Struct, frozen=True):
    """The folder of a supported model.

    Attributes:
      path: the folder.
      kind: the kind of its tokenizer.
      converted: whether it was converted for CTranslate2.
      digest: a hash of all files that translations depend on, independent of the folder's location.
    """

    path: str
    kind: Kind
    converted: bool
    digest: str


def inspect(path: str) -> Folder:
    """Inspect a folder without loading the model.

    Raises:
      InputError: there is no such folder, or it holds no supported model.
    """
    checkpoint = checkpoints.opened(path)
    converted = (Path(path) / CONVERTED).is_file()
    if not converted:
        if checkpoint.kind not in _OF_MODEL:
            raise checkpoint.refused(f"contains a model of type {checkpoint.config.get('model_type')!r}: {_TAKEN}")
        checkpoints.check_weights(checkpoint)
    kind = _kind(checkpoint)
    if not converted and kind not in _OF_MODEL[checkpoint.kind]:
        raise checkpoint.refused(f"contains a {checkpoint.kind} model with the tokenizer of {kind}")
    return Folder(path, kind, converted, checkpoints.digest(path))


def _kind(checkpoint: Checkpoint) -> Kind:
    """Return the kind of a folder's tokenizer: as its configuration says, else according to its files."""
    settings = checkpoints.read_json(Path(checkpoint.path), "tokenizer_config.json")
    named = settings.get("tokenizer_class") or checkpoint.config.get("tokenizer_class")
    if named:
        kind = _OF_TOKENIZER.get(str(named).removesuffix("Fast"))
        if kind is None:
            raise checkpoint.refused(f"its tokenizer is a {named}: {_TAKEN}")
        checkpoints.check_tokenizer(checkpoint, _FILES[kind])
        return kind
    # NLLB's file names are common, so its tokenizer must be named in the configuration.
    for kind in get_args(Kind)[:2]:
        if checkpoints.has_files(checkpoint.path, _FILES[kind]):
            return kind  # type: ignore[no-any-return]
    advice = "copy them from the source of the model (ct2-transformers-converter --copy_files)"
    raise checkpoint.refused(f"lacks the files of a tokenizer: {advice}")


class Local:
    """Translates with models on this machine, on its GPU if torch or CTranslate2 can use it.

    The memory keeps the translations under ``KIND:PAIR@DIGEST,…,OPTIONS``: the digest of the files that translations
    depend on, and the options that change translations. A different or an additional model has a different name.

    A text has the same translation in any batch: padding is masked, and samples are drawn text by text. But rounding
    depends on the shape of a batch, the number of threads and the processor: if the scores of two translations differ
    only in the sixth digit, either may result. Translations in the memory are kept.

    Args:
      models: folder by pair, ``{"en-zh": "opus-mt-en-zh", "zh-en": "opus-mt-zh-en"}``, or one folder for all pairs
        without their own, ``{"*": "nllb-200-distilled-600M"}``. Creating the engine reads and hashes their files.
      batch: the number of texts translated at a time.
      beams: the number of beams of the search; 1 is greedy.
      max_tokens: the maximum length of a translation; longer ones, which may be endless repetitions, are refused.
      sample: whether to sample each token instead of searching, for more diversity and less accuracy. Not with
        CTranslate2, whose samples cannot be repeated.
      temperature: the temperature of sampling; above 1, less probable tokens are sampled more often.
      seed: the seed of sampling, any text; combined with each text and its languages. A CPU and a GPU sample
        differently.
      threads: the number of CPU threads; 0 leaves the number to torch or CTranslate2.

    Raises:
      InputError: an argument is invalid, or a folder holds no supported model.
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
        seed: str = "0",
        threads: int = 0,
    ) -> None:
        least = {"batch": (batch, 1), "beams": (beams, 1), "max_tokens": (max_tokens, 1), "threads": (threads, 0)}
        for name, (value, lowest) in least.items():
            if value < lowest:
                raise InputError(f"must be {lowest} or more", name, str(value))
        if not 0 < temperature < float("inf"):
            raise InputError("must be more than 0", "temperature", str(temperature))
        self.folders = {pair: inspect(str(folder)) for pair, folder in sorted(models.items())}
        _check(self.folders, sample)
        self.batch, self.beams, self.max_tokens = batch, beams, max_tokens
        self.sample, self.temperature, self.seed = sample, temperature, seed
        self.threads = threads
        self.limits = Limits(batch, _CODEPOINTS)
        # max_tokens does not change translations: longer ones are refused.
        how = f"temperature={temperature:g},top_k={_TOP_K},seed={seed}" if sample else f"beams={beams}"
        self.model = ",".join([*(_name(*item) for item in self.folders.items()), how])
        self._models: dict[str, Model] = {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Local:
        """Create an engine from the flags.

        These are ``model`` (``[PAIR=]DIR``), ``beams``, ``sample``, ``temperature`` and ``seed``.

        Raises:
          InputError: a direction of ``pivots`` has no model.
        """
        plugins.parallel_calls(options)
        if "model" not in options:
            raise InputError("is required: name the folder of a model, or of one model for each direction", "--model")
        pairs = {pair or ANY: folder for pair, _, folder in (option.rpartition("=") for option in options["model"])}
        legs = [leg for pivot in options["pivots"] for leg in (f"en-{pivot}", f"{pivot}-en")]
        if ANY not in pairs and (lacking := [leg for leg in legs if leg not in pairs]):
            reason = f"there is no model for {', '.join(lacking)}: name its folder, as {lacking[0]}=DIR"
            raise InputError(reason, "--model")
        names = ("beams", "sample", "temperature", "seed")
        return cls(pairs, **{name: options[name] for name in names if name in options})

    def open(self) -> None:
        """Check that the packages are installed; a model is loaded when its first text comes. Raises MissingExtra."""
        converted = {folder.converted for folder in self.folders.values()}
        frameworks = {"ctranslate2" if is_converted else "torch" for is_converted in converted}
        checkpoints.check_packages(sorted({"transformers", "sentencepiece", *frameworks}), "local")

    def close(self) -> None:
        """Unload the models. A second call does nothing."""
        self._models.clear()

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Return the translations in order; ``""`` if the model's translation is empty.

        Raises:
          Refused: ``pair`` if no model has these languages, ``too_long`` if a text is too long for the model,
            ``cut_off`` if its translation does not end, ``memory`` if memory runs out.
          InputError: the model cannot be loaded, or its files have changed.
        """
        folder = self.folders.get(f"{source}-{target}") or self.folders.get(ANY)
        if folder is None:
            raise Refused(
                f"pair: {source} to {target}: there is no model for this pair, only for {', '.join(self.folders)}"
            )
        with LOCK:
            if folder.path not in self._models:
                self._models[folder.path] = load(folder, self.threads)
            return self._models[folder.path].translate(texts, source, target, self)


def _check(folders: Mapping[str, Folder], sample: bool) -> None:
    """Raise InputError if a model does not support how it is used."""
    if not folders:
        raise InputError("must have a folder for each pair, or one for *", "models")
    for pair, folder in folders.items():
        if pair != ANY and not all(pair.partition("-")):
            raise InputError("must be a pair such as en-zh, or *", "models", pair)
        if pair == ANY and folder.kind == "marian":
            reason = "a Marian model translates in one direction only: name the pair, such as en-zh=DIR"
            raise InputError(reason, folder.path)
        if sample and folder.converted:
            reason = "CTranslate2 samples are not reproducible: use the model that it was converted from"
            raise InputError(reason, folder.path)


def _name(pair: str, folder: Folder) -> str:
    kind = f"{folder.kind}/ctranslate2" if folder.converted else folder.kind
    return f"{kind}:{pair}@{folder.digest}"


# Tokenizers keep the language of a call as state, and torch has one seed per process.
LOCK = threading.Lock()

_LOADED: WeakValueDictionary[tuple[str, str], Model] = WeakValueDictionary()


class Model:
    """A model and its tokenizer, shared by all threads of a process. ``positions`` is the maximum length in tokens."""

    positions = float("inf")

    def __init__(self, folder: Folder, threads: int) -> None:
        self.tokens = Tokens(folder) if folder.kind == "marian" else ManyTokens(folder)
        self.load(folder, threads)

    def load(self, folder: Folder, threads: int) -> None:
        """Load the weights."""
        raise NotImplementedError

    def generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        """Return the tokens of the translations in order. Raises Refused if a translation does not end."""
        raise NotImplementedError

    def translate(self, texts: Sequence[str], source: str, target: str, how: Local) -> list[str]:
        """Return the translations in order.

        Raises:
          Refused: ``pair``, ``too_long``, ``cut_off`` or ``memory``.
        """
        rows, first = self.tokens.encode(texts, source, target)
        longest = max(map(len, rows), default=0)
        if longest > self.positions:
            raise Refused(
                f"too_long: the text has {longest} tokens, but the model takes at most {self.positions}", splits=True
            )
        translations = [""] * len(texts)
        # Texts of similar length share a batch, so that there is little padding.
        order = sorted(range(len(texts)), key=lambda n: len(rows[n]))
        size = 1 if how.sample else how.batch
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            seed = seed_of(how.seed, source, target, texts[chunk[0]])
            try:
                generated = self.generate([rows[n] for n in chunk], first, how, seed)
            # both torch and CTranslate2 raise RuntimeError for errors without a class of their own
            except RuntimeError as error:
                if "out of memory" in str(error):
                    raise Refused(
                        "memory: there is not enough memory for a batch: use smaller batches", splits=True
                    ) from None
                if "No position encodings" in str(error):
                    raise Refused(
                        "too_long: the text or its translation is too long for the model", splits=True
                    ) from None
                raise
            for n, tokens in zip(chunk, generated, strict=True):
                translations[n] = self.tokens.decode(tokens)
        return translations


def seed_of(seed: str, source: str, target: str, text: str) -> int:
    """Return the seed for one text, independent of what was drawn before."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode([seed, source, target, text])).digest()[:8])


def load(folder: Folder, threads: int) -> Model:
    """Load a model, or return it if this process has loaded it already.

    Raises:
      InputError: the model cannot be loaded, or has changed since the folder was inspected.
    """
    if inspect(folder.path) != folder:
        raise InputError("has changed since this run started: run the command again", folder.path)
    key = folder.path, folder.digest
    if (model := _LOADED.get(key)) is None:
        with _loading(folder.path):
            model = Converted(folder, threads) if folder.converted else Torch(folder, threads)
        _LOADED[key] = model
    return model


@contextmanager
def _loading(path: str, flag: str = "") -> Iterator[None]:
    """Convert any error about a model's files to a one-line InputError, and hide progress bars."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            yield
    except InputError:
        raise
    except Exception as error:  # transformers raises errors of a dozen classes
        message = " ".join(str(error).split())[:300]
        raise InputError(f"the model cannot be loaded ({type(error).__name__}): {message}", path, flag) from None


def _weights(name: str, path: str, flag: str = "") -> Any:
    """Load a model of transformers for inference in single precision.

    In half precision, rounding would decide more often.
    """
    import transformers

    model, info = getattr(transformers, name).from_pretrained(path, local_files_only=True, output_loading_info=True)
    if info["missing_keys"]:  # which would be filled with noise
        raise InputError(f"its file lacks weights, such as {sorted(info['missing_keys'])[0]}", path, flag)
    model.generation_config.max_length = None  # in favour of ours
    return model.float().eval()


class Torch(Model):
    """A model in the format of transformers."""

    def load(self, folder: Folder, threads: int) -> None:
        """Load the weights."""
        import torch

        if threads:
            torch.set_num_threads(threads)
        name = "MarianMTModel" if folder.kind == "marian" else "M2M100ForConditionalGeneration"
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = _weights(name, folder.path).to(self.device)
        self.positions = self.model.config.max_position_embeddings

    def generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        """Return the tokens of the translations in order. Raises Refused if a translation does not end."""
        import torch

        pad = self.model.config.pad_token_id
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=self.device)
        most = min(how.max_tokens, int(self.positions) - 1)
        options: dict[str, Any] = {"do_sample": how.sample, "num_beams": 1 if how.sample else how.beams}
        if how.sample:
            options |= {"temperature": float(how.temperature), "top_k": _TOP_K, "top_p": 1.0}
        if first:
            options["forced_bos_token_id"] = self.tokens.tokenizer.convert_tokens_to_ids(first)
        # generate does not accept a random generator.
        devices = [torch.cuda.current_device()] if self.device == "cuda" else []
        with torch.inference_mode(), torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            generated = self.model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=most, **options)
        return [self._tokens(row[1:], most) for row in generated.tolist()]

    def _tokens(self, ids: list[int], most: int) -> list[str]:
        """Return the tokens before the end token.

        Marian forces an end token at the maximum length, which does not count.
        """
        end = self.model.config.eos_token_id
        length = ids.index(end) if end in ids else most
        if length + 1 >= most:
            raise _cut_off(most)
        tokens: list[str] = self.tokens.tokenizer.convert_ids_to_tokens(ids[:length])
        return tokens


class Converted(Model):
    """A model converted by CTranslate2.

    Its files do not give the maximum length; CTranslate2 fails on a text that is too long.
    """

    def load(self, folder: Folder, threads: int) -> None:
        """Load the weights."""
        import ctranslate2

        self.translator = ctranslate2.Translator(folder.path, device="auto", intra_threads=threads)

    def generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        """Return the tokens of the translations in order. Raises Refused if a translation does not end."""
        results = self.translator.translate_batch(
            [self.tokens.tokenizer.convert_ids_to_tokens(row) for row in rows],
            target_prefix=[[first]] * len(rows) if first else None,
            beam_size=how.beams,
            max_input_length=0,  # otherwise it would cut off silently
            max_decoding_length=how.max_tokens,
            return_end_token=True,
        )
        hypotheses: list[list[str]] = [result.hypotheses[0] for result in results]
        for tokens in hypotheses:
            if tokens[-1:] != [self.tokens.tokenizer.eos_token]:
                raise _cut_off(how.max_tokens)
        return hypotheses


def _cut_off(most: int) -> Refused:
    return Refused(f"cut_off: the translation does not end within {most} tokens", splits=True)


# From facebookresearch/flores, flores200/README.md: the languages that M2M100 has too.
FLORES = {
    "af": "afr_Latn", "am": "amh_Ethi", "ar": "arb_Arab", "az": "azj_Latn", "be": "bel_Cyrl", "bg": "bul_Cyrl",
    "bn": "ben_Beng", "bs": "bos_Latn", "ca": "cat_Latn", "cs": "ces_Latn", "cy": "cym_Latn", "da": "dan_Latn",
    "de": "deu_Latn", "el": "ell_Grek", "en": "eng_Latn", "es": "spa_Latn", "et": "est_Latn", "fa": "pes_Arab",
    "fi": "fin_Latn", "fr": "fra_Latn", "ga": "gle_Latn", "gl": "glg_Latn", "gu": "guj_Gujr", "ha": "hau_Latn",
    "he": "heb_Hebr", "hi": "hin_Deva", "hr": "hrv_Latn", "hu": "hun_Latn", "hy": "hye_Armn", "id": "ind_Latn",
    "is": "isl_Latn", "it": "ita_Latn", "ja": "jpn_Jpan", "ka": "kat_Geor", "kk": "kaz_Cyrl", "km": "khm_Khmr",
    "kn": "kan_Knda", "ko": "kor_Hang", "lo": "lao_Laoo", "lt": "lit_Latn", "lv": "lvs_Latn", "mk": "mkd_Cyrl",
    "ml": "mal_Mlym", "mn": "khk_Cyrl", "mr": "mar_Deva", "ms": "zsm_Latn", "my": "mya_Mymr", "nb": "nob_Latn",
    "ne": "npi_Deva", "nl": "nld_Latn", "no": "nob_Latn", "pa": "pan_Guru", "pl": "pol_Latn", "pt": "por_Latn",
    "ro": "ron_Latn", "ru": "rus_Cyrl", "si": "sin_Sinh", "sk": "slk_Latn", "sl": "slv_Latn", "sq": "als_Latn",
    "sr": "srp_Cyrl", "sv": "swe_Latn", "sw": "swh_Latn", "ta": "tam_Taml", "te": "tel_Telu", "th": "tha_Thai",
    "tl": "tgl_Latn", "tr": "tur_Latn", "uk": "ukr_Cyrl", "ur": "urd_Arab", "uz": "uzn_Latn", "vi": "vie_Latn",
    "yo": "yor_Latn", "zh": "zho_Hans", "zh-CN": "zho_Hans", "zh-Hans": "zho_Hans", "zh-Hant": "zho_Hant",
    "zh-TW": "zho_Hant", "zu": "zul_Latn",
}  # fmt: skip

# M2M100 has a single code for Chinese; the traditional script cannot be requested.
M2M100 = {"zh-CN": "zh", "zh-Hans": "zh", "nb": "no"}

FLORES_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


def flores(language: str) -> str:
    """Return the FLORES-200 code of a language, which may be such a code itself; ``""`` if unknown."""
    return language if FLORES_CODE.fullmatch(language) else FLORES.get(language, "")


def marian_names(language: str) -> list[str]:
    """Return the names that a Marian model may have for a language, the most probable first.

    OPUS-MT models use ``jpn`` and ``kor``, but ``cmn_Hans`` for Chinese; the oldest ones use ``ja`` and ``zh_CN``.
    """
    code = flores(language)
    spoken = [code.replace("zho", "cmn"), code]
    names = [language, language.replace("-", "_"), *spoken, *(name[:3] for name in spoken)]
    return [name for name in dict.fromkeys(names) if name]


class Tokens:
    """The tokenizer of a Marian model. Not thread-safe, because it keeps the language of a call."""

    def __init__(self, folder: Folder) -> None:
        import transformers

        classes = {"marian": "MarianTokenizer", "m2m_100": "M2M100Tokenizer", "nllb": "NllbTokenizer"}
        self.tokenizer = getattr(transformers, classes[folder.kind]).from_pretrained(folder.path, local_files_only=True)
        self.silent = {*self.tokenizer.all_special_tokens, *self.languages()}

    def languages(self) -> set[str]:
        """Return the tokens that stand for languages."""
        return set(self.tokenizer.supported_language_codes)

    def encode(self, texts: Sequence[str], source: str, target: str) -> tuple[list[list[int]], str]:
        """Return the ids by text and the first token of translations, if any.

        With several targets, each text names its own.
        """
        known, prefix = self.languages(), ""
        if known:
            name = next((name for name in marian_names(target) if f">>{name}<<" in known), "")
            if not name:
                raise _unknown(target, sorted(token[2:-2] for token in known))
            prefix = f">>{name}<< "
        return self.tokenizer([prefix + text for text in texts])["input_ids"], ""

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the text; ``""`` if there are only special tokens."""
        # The tokenizer's own decode is wrong: in transformers 5 it uses the source pieces of Marian.
        text: str = self.tokenizer.convert_tokens_to_string([token for token in tokens if token not in self.silent])
        return text.strip()


class ManyTokens(Tokens):
    """The tokenizer of an M2M100 or NLLB model."""

    def languages(self) -> set[str]:
        """Return the tokens that stand for languages."""
        return set(self._codes.values())

    @cached_property
    def _codes(self) -> dict[str, str]:
        """Token by code: M2M100 has a table, and NLLB's codes are tokens."""
        if hasattr(self.tokenizer, "lang_code_to_token"):
            return dict(self.tokenizer.lang_code_to_token)
        return {token: token for token in self.tokenizer.get_vocab() if FLORES_CODE.fullmatch(token)}

    def _code(self, language: str) -> str:
        codes = self._codes
        for code in (language, M2M100.get(language, ""), flores(language)):
            if code in codes:
                return code
        raise _unknown(language, sorted(codes))

    def encode(self, texts: Sequence[str], source: str, target: str) -> tuple[list[list[int]], str]:
        """Return the ids by text, including that of the source language, and the token of the target language."""
        self.tokenizer.src_lang = self._code(source)
        return self.tokenizer(list(texts))["input_ids"], self._codes[self._code(target)]


def _unknown(language: str, known: Sequence[str]) -> Refused:
    return Refused(f"pair: the model has no {language}, but {', '.join(known)}"[:300])


PARAPHRASED = "en-x-para"  # a language tag: English with a private subtag

# Encoder-decoder architectures, with the prefix that their paraphrasers expect.
PREFIXES = {"t5": "paraphrase: ", "mt5": "paraphrase: ", "bart": "", "mbart": "", "pegasus": ""}

_MAX_TOKENS = 256


class Paraphraser:
    """Paraphrases by beam search: takes the best result with words that differ from the text.

    As with :class:`parapet.transforms.translation.local.Local`, rounding may decide between results of nearly the same
    score; paraphrases in the memory are kept.

    Args:
      folder: the folder of the checkpoint, as written by ``save_pretrained`` of transformers.
      beams: the number of beams of the search, and of results to choose from.
      prefix: the prefix of each text; by default from :data:`PREFIXES` for the architecture.
      batch: the number of texts at a time.

    Raises:
      InputError: an argument is invalid, or the folder holds no supported checkpoint.
    """

    provider = "checkpoint"
    dollars_per_million = 0.0
    parallel = 1  # torch uses all cores for one batch

    def __init__(self, folder: str, beams: int = 4, prefix: str | None = None, batch: int = 32) -> None:
        if beams < 1:
            raise InputError("must be 1 or more", "--beams", str(beams))
        self.checkpoint = checkpoints.inspect(folder, tuple(PREFIXES), "--model")
        self.beams = beams
        self.prefix = PREFIXES[self.checkpoint.kind] if prefix is None else prefix
        self.limits = Limits(batch, 20_000)
        self.model = f"{self.checkpoint.kind}@{checkpoints.digest(folder)},beams={beams},prefix={self.prefix!r}"
        self._loaded: tuple[Any, Any] | None = None

    def open(self) -> None:
        """Check that the packages are installed; the model is loaded when the first text comes. Raises MissingExtra."""
        checkpoints.check_packages(("torch", "transformers"), "models", "--engine")

    def close(self) -> None:
        """Unload the model."""
        self._loaded = None

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Return paraphrases in order, ``""`` if the result is empty; in the opposite direction, the texts unchanged.

        Raises:
          Refused: the languages are not these two.
          InputError: the model cannot be loaded.
        """
        if (source, target) == (PARAPHRASED, "en"):
            return texts
        if (source, target) != ("en", PARAPHRASED):
            raise Refused(f"pair: {source} to {target}: a paraphraser cannot translate")
        import torch

        tokenizer, model = self._loaded = self._loaded or self._load()
        inputs = tokenizer([self.prefix + text for text in texts], return_tensors="pt", padding=True)
        with torch.inference_mode():
            rows = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                num_beams=self.beams,
                num_return_sequences=self.beams,
                max_new_tokens=_MAX_TOKENS,
                do_sample=False,
            )
        results = [result.strip() for result in tokenizer.batch_decode(rows, skip_special_tokens=True)]
        return [_first_other(text, results[i * self.beams : (i + 1) * self.beams]) for i, text in enumerate(texts)]

    def _load(self) -> tuple[Any, Any]:
        import transformers

        path, flag = self.checkpoint.path, self.checkpoint.flag
        with _loading(path, flag):
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
            return tokenizer, _weights("AutoModelForSeq2SeqLM", path, flag)


def _first_other(text: str, results: list[str]) -> str:
    """Return the first result with words that differ from the text, or the first result if all are copies."""
    return next((result for result in results if words(result) != words(text)), results[0])
