"""Checkpoints on this machine that translate (Marian, M2M100, NLLB), offline."""

from __future__ import annotations

import functools
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.core import checkpoints, fence, plugins
from parapet.transforms.core.checkpoints import Checkpoint
from parapet.transforms.translate.memory import Engine, Limits

ANY = "*"

_LIMITS = Limits(32, 20_000)
_MAX_TOKENS = 256  # longer results, which may be endless repetitions, are refused

# Architectures that translate, each with the sets of tokenizer files of which it needs one. NLLB is an M2M100.
_TOKENIZERS: dict[str, list[tuple[str, ...]]] = {
    "marian": [("source.spm", "target.spm", "vocab.json")],
    "m2m_100": [("vocab.json", "sentencepiece.bpe.model"), ("tokenizer.json",), ("sentencepiece.bpe.model",)],
}


class Local(Engine):
    """Translates with models on this machine, on its GPU if torch can use it, by beam search.

    The memory keeps the translations under ``KIND:PAIR@DIGEST,…,beams=N``: the digest of the files that translations
    depend on. A different or an additional model has a different name.

    A text has the same translation in any batch, because padding is masked. But rounding depends on the shape of a
    batch, the number of threads and the processor: if the scores of two translations differ only in the sixth digit,
    either may result. Translations in the memory are kept.

    Args:
      models: folder by pair, ``{"en-zh": "opus-mt-en-zh", "zh-en": "opus-mt-zh-en"}``, or one folder for all pairs
        without their own, ``{"*": "nllb-200-distilled-600M"}``. Creating the engine reads and hashes their files.
      beams: the number of beams of the search; 1 is greedy.

    Raises:
      InputError: an argument is invalid, or a folder holds no supported model.
    """

    provider = "local"
    limits = _LIMITS

    def __init__(self, models: Mapping[str, str], beams: int = 4) -> None:
        self.models: dict[str, tuple[Checkpoint, str]] = {}
        for pair, folder in sorted(models.items()):
            checkpoint = checkpoints.opened(folder, "--model")
            if checkpoint.kind not in _TOKENIZERS:
                reason = "only Marian (OPUS-MT), M2M100 and NLLB models are supported"
                raise checkpoint.refused(f"contains a model of type {checkpoint.kind!r}: {reason}")
            if pair == ANY and checkpoint.kind == "marian":
                reason = "a Marian model translates in one direction only: name the pair, such as en-zh=DIR"
                raise checkpoint.refused(reason)
            checkpoints.check_weights(checkpoint)
            checkpoints.check_tokenizer(checkpoint, _TOKENIZERS[checkpoint.kind])
            self.models[pair] = checkpoint, checkpoints.digest(folder)
        self.beams = beams
        names = [f"{checkpoint.kind}:{pair}@{digest}" for pair, (checkpoint, digest) in self.models.items()]
        self.model = ",".join([*names, f"beams={beams}"])

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Local:
        """Creates an engine from the flags ``model`` (``[PAIR=]DIR``) and ``beams``.

        Raises:
          InputError: a direction of ``pivots`` has no model.
        """
        plugins.parallel_calls(options)
        if "model" not in options:
            raise InputError("is required: name the folder of a model, or of one model for each direction", "--model")
        models = {pair or ANY: folder for pair, _, folder in (option.rpartition("=") for option in options["model"])}
        legs = [leg for pivot in options["pivots"] for leg in (f"en-{pivot}", f"{pivot}-en")]
        if ANY not in models and (lacking := [leg for leg in legs if leg not in models]):
            reason = f"there is no model for {', '.join(lacking)}: name its folder, as {lacking[0]}=DIR"
            raise InputError(reason, "--model")
        return cls(models, options.get("beams", 4))

    def open(self) -> None:
        """Checks that the packages are installed; a model is loaded when its first text comes. Raises MissingExtra."""
        checkpoints.check_packages(["sentencepiece", "torch", "transformers"], "local")

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Returns the translations in order; ``""`` if the model's translation is empty.

        Raises:
          Refused: ``pair`` if no model has these languages, ``too_long`` if a text is too long for the model,
            ``cut_off`` if its translation does not end, ``memory`` if memory runs out.
          InputError: the model cannot be loaded.
        """
        pair = f"{source}-{target}" if f"{source}-{target}" in self.models else ANY
        if pair not in self.models:
            pairs = ", ".join(self.models)
            raise fence.Refused(f"pair: {source} to {target}: there is no model for this pair, only for {pairs}")
        checkpoint, digest = self.models[pair]
        with _LOCK:
            model = _load(checkpoint.path, digest)
            codes = _language_codes(model.tokenizer)
            options: dict[str, Any] = {"num_beams": self.beams}
            if checkpoint.kind == "m2m_100":
                model.tokenizer.src_lang = _code(source, codes)
                options["forced_bos_token_id"] = model.tokenizer.convert_tokens_to_ids(codes[_code(target, codes)])
            elif codes:  # a Marian model with several targets: each text names its own
                texts = [f"{codes[_code(target, codes)]} {text}" for text in texts]
            translations, are_whole = model.generate(texts, **options)
        if not are_whole:
            raise fence.Refused("cut_off: the translation does not end within the maximum length", splits=True)
        return translations


_LOCK = threading.Lock()  # tokenizers keep the source language as state


class _Model:
    """A tokenizer and its encoder-decoder, shared by all threads of a process."""

    def __init__(self, path: str) -> None:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        model, info = AutoModelForSeq2SeqLM.from_pretrained(path, local_files_only=True, output_loading_info=True)
        if info["missing_keys"]:  # which would be filled with noise
            raise InputError(f"its file lacks weights, such as {sorted(info['missing_keys'])[0]}", path)
        model.generation_config.max_length = None  # in favour of ours
        # In half precision, rounding would decide more often.
        self.model = model.float().eval().to("cuda" if torch.cuda.is_available() else "cpu")
        # transformers 5 decodes with Marian's source pieces unless told otherwise
        self.decoding = {"use_source_tokenizer": False} if self.model.config.model_type == "marian" else {}
        self.positions = getattr(self.model.config, "max_position_embeddings", None)

    def generate(self, texts: Sequence[str], **options: Any) -> tuple[list[str], bool]:
        """Returns what the model makes of the texts, in order, and whether all results end within the maximum length.

        Raises:
          Refused: ``too_long`` or ``memory``.
        """
        import torch

        inputs = self.tokenizer(list(texts), return_tensors="pt", padding=True).to(self.model.device)
        longest, most = inputs["input_ids"].shape[1], _MAX_TOKENS
        if self.positions:
            most = min(most, self.positions - 1)
            if longest > self.positions:
                reason = f"too_long: the text has {longest} tokens, but the model takes at most {self.positions}"
                raise fence.Refused(reason, splits=True)
        names = ("input_ids", "attention_mask")
        try:
            with torch.inference_mode():
                rows = self.model.generate(
                    **{name: inputs[name] for name in names}, max_new_tokens=most, do_sample=False, **options
                )
        except torch.OutOfMemoryError:
            raise fence.Refused("memory: there is not enough memory for a batch", splits=True) from None
        end = self.model.config.eos_token_id
        # Marian forces an end token at the maximum length, which does not count.
        are_whole = bool((rows[:, 1:most] == end).any(dim=1).all())
        # The start token and that of the language, which M2M100 does not count among its special tokens.
        start = 2 if "forced_bos_token_id" in options else 1
        results = self.tokenizer.batch_decode(rows[:, start:], skip_special_tokens=True, **self.decoding)
        return [result.strip() for result in results], are_whole


@functools.lru_cache(maxsize=4)
def _load(path: str, digest: str) -> _Model:
    """Loads a model once for each state of its folder. Raises InputError if it cannot be loaded."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            return _Model(path)
    except InputError:
        raise
    except Exception as error:  # transformers raises errors of a dozen classes
        message = " ".join(str(error).split())[:300]
        raise InputError(f"the model cannot be loaded ({type(error).__name__}): {message}", path) from None


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

FLORES_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")

# M2M100 has a single code for Chinese; the traditional script cannot be requested.
_M2M100 = {"zh-CN": "zh", "zh-Hans": "zh", "nb": "no"}


def _language_codes(tokenizer: Any) -> dict[str, str]:
    """Returns token by code of a tokenizer's languages; empty if it has a single direction."""
    if hasattr(tokenizer, "supported_language_codes"):  # Marian
        return {token[2:-2]: token for token in tokenizer.supported_language_codes}
    if hasattr(tokenizer, "lang_code_to_token"):  # M2M100
        return dict(tokenizer.lang_code_to_token)
    return {token: token for token in tokenizer.get_vocab() if FLORES_CODE.fullmatch(token)}


def _code(language: str, codes: Mapping[str, str]) -> str:
    """Returns a model's own code of a language, such as ``zh``.

    OPUS-MT models use ``jpn`` and ``kor``, but ``cmn_Hans`` for Chinese; the oldest ones use ``ja`` and ``zh_CN``.
    """
    flores = language if FLORES_CODE.fullmatch(language) else FLORES.get(language, "")
    written = [flores, flores.replace("zho", "cmn")]
    names = [language, language.replace("-", "_"), _M2M100.get(language, ""), *written, *(name[:3] for name in written)]
    for name in names:
        if name in codes:
            return name
    raise fence.Refused(f"pair: the model has no {language}, but {', '.join(sorted(codes))}"[:300])
