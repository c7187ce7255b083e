"""Translation models, loaded, by torch or CTranslate2; their tokenizers, and the codes by which they know languages.

M2M100 has ISO 639-1 codes, NLLB FLORES-200 codes, Marian whatever its authors chose.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.refusals import Refused
from parapet.transforms.translation.local import Folder, inspect

if TYPE_CHECKING:
    from parapet.transforms.translation.local import Local

# Tokenizers remember the language of a call, and torch has one seed for a process.
LOCK = threading.Lock()

_LOADED: WeakValueDictionary[tuple[str, str], Model] = WeakValueDictionary()


class Model:
    """A model and its tokenizer. One for all threads of a process."""

    def __init__(self, tokens: Tokens, generator: Torch | Converted) -> None:
        self.tokens, self.generator = tokens, generator

    def translate(self, texts: Sequence[str], source: str, target: str, how: Local) -> list[str]:
        """The translations, in order.

        Raises:
          Refused: ``pair``, ``too_long``, ``cut_off`` or ``memory``.
        """
        rows = self.tokens.encode(texts, source, target)
        first = self.tokens.first(target)
        longest = max(map(len, rows), default=0)
        if longest > self.generator.positions:
            raise Refused(f"too_long: {longest} tokens, the model takes {self.generator.positions}", splits=True)
        found = [""] * len(texts)
        # The short with the short: little padding.
        order = sorted(range(len(texts)), key=lambda n: len(rows[n]))
        size = 1 if how.sample else how.batch
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            seed = seed_of(how.seed, source, target, texts[chunk[0]])
            for n, tokens in zip(chunk, self._generate([rows[n] for n in chunk], first, how, seed), strict=True):
                found[n] = self.tokens.decode(tokens)
        return found

    def _generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        try:
            return self.generator.generate(rows, first, how, seed)
        except RuntimeError as error:  # both torch and CTranslate2 raise what has no other name
            if "out of memory" in str(error):
                raise Refused("memory: there is not enough for a batch: try a smaller one", splits=True) from None
            if "No position encodings" in str(error):
                raise Refused("too_long: for the model, it or its translation", splits=True) from None
            raise


def seed_of(seed: str, source: str, target: str, text: str) -> int:
    """That of one text's draws, whatever is drawn before."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode([seed, source, target, text])).digest()[:8])


def load(folder: Folder, threads: int) -> Model:
    """A model; the one that is loaded already, where this process has it.

    Raises:
      InputError: it cannot be loaded, or is not the one that was there before.
    """
    if inspect(folder.path) != folder:
        raise InputError("is not the model that it was when this began: begin again", folder.path)
    key = folder.path, folder.digest
    if (model := _LOADED.get(key)) is None:
        with _loading(folder.path):
            tokens = Tokens(folder) if folder.kind == "marian" else ManyTokens(folder)
            generator = Converted(folder, tokens, threads) if folder.converted else Torch(folder, tokens, threads)
        model = _LOADED[key] = Model(tokens, generator)
    return model


@contextmanager
def _loading(path: str) -> Iterator[None]:
    """Makes one line of whatever is wrong with a model's files; no progress bars."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
            yield
    except InputError:
        raise
    except Exception as error:  # theirs are of a dozen kinds
        said = " ".join(str(error).split())[:300]
        raise InputError(f"the model cannot be loaded ({type(error).__name__}): {said}", path) from None


class Torch:
    """A model as its authors saved it."""

    def __init__(self, folder: Folder, tokens: Tokens, threads: int) -> None:
        import torch
        import transformers

        if threads:
            torch.set_num_threads(threads)
        name = "MarianMTModel" if folder.kind == "marian" else "M2M100ForConditionalGeneration"
        model, told = getattr(transformers, name).from_pretrained(
            folder.path, local_files_only=True, output_loading_info=True
        )
        if told["missing_keys"]:  # which would be filled with noise
            raise InputError(f"its file lacks weights, {sorted(told['missing_keys'])[0]} for one", folder.path)
        self.tokenizer = tokens.tokenizer
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        # Some are saved in half precision, in which rounding would decide more often.
        self.model = model.float().eval().to(self.device)
        self.model.generation_config.max_length = None  # in favour of ours
        self.positions: float = model.config.max_position_embeddings

    def generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        """The tokens of the translations, in order. Raises Refused where one of them does not end."""
        import torch

        pad = self.model.config.pad_token_id
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=self.device)
        most = min(how.max_tokens, int(self.positions) - 1)
        options: dict[str, Any] = {"do_sample": how.sample, "num_beams": 1 if how.sample else how.beams}
        if how.sample:
            options |= {"temperature": float(how.temperature), "top_k": how.top_k, "top_p": 1.0}
        if first:
            options["forced_bos_token_id"] = self.tokenizer.convert_tokens_to_ids(first)
        # generate takes no generator of random numbers of its own.
        devices = [torch.cuda.current_device()] if self.device == "cuda" else []
        with torch.inference_mode(), torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            found = self.model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=most, **options)
        return [self._tokens(row[1:], most) for row in found.tolist()]

    def _tokens(self, ids: list[int], most: int) -> list[str]:
        """Up to the end. Marian is made to end where there is no more room: that end is none."""
        end = self.model.config.eos_token_id
        length = ids.index(end) if end in ids else most
        if length + 1 >= most:
            raise _cut_off(most)
        tokens: list[str] = self.tokenizer.convert_ids_to_tokens(ids[:length])
        return tokens


class Converted:
    """A model that CTranslate2 converted."""

    def __init__(self, folder: Folder, tokens: Tokens, threads: int) -> None:
        import ctranslate2

        self.tokenizer = tokens.tokenizer
        self.translator = ctranslate2.Translator(folder.path, device="auto", intra_threads=threads)
        self.positions = float("inf")  # its files do not say; it does when there are too many

    def generate(self, rows: list[list[int]], first: str, how: Local, seed: int) -> list[list[str]]:
        """The tokens of the translations, in order. Raises Refused where one of them does not end."""
        results = self.translator.translate_batch(
            [self.tokenizer.convert_ids_to_tokens(row) for row in rows],
            target_prefix=[[first]] * len(rows) if first else None,
            beam_size=how.beams,
            max_input_length=0,  # or it would cut off in silence
            max_decoding_length=how.max_tokens,
            return_end_token=True,
        )
        hypotheses: list[list[str]] = [result.hypotheses[0] for result in results]
        for tokens in hypotheses:
            if tokens[-1:] != [self.tokenizer.eos_token]:
                raise _cut_off(how.max_tokens)
        return hypotheses


def _cut_off(most: int) -> Refused:
    return Refused(f"cut_off: the translation does not end within {most} tokens", splits=True)


# facebookresearch/flores, flores200/README.md; the languages that M2M100 has too.
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

# To M2M100 all Chinese is one, but traditional script cannot be asked for.
M2M100 = {"zh-CN": "zh", "zh-Hans": "zh", "nb": "no"}

FLORES_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


def flores(language: str) -> str:
    """The FLORES-200 code of a language, one given as it is; ``""`` where it is not known."""
    return language if FLORES_CODE.fullmatch(language) else FLORES.get(language, "")


def marian_names(language: str) -> list[str]:
    """By which names a Marian model may know a language, the likeliest to be right first.

    OPUS-MT models say ``jpn`` and ``kor``, but ``cmn_Hans`` for Chinese; the oldest ``ja`` and ``zh_CN``.
    """
    code = flores(language)
    spoken = [code.replace("zho", "cmn"), code]
    names = [language, language.replace("-", "_"), *spoken, *(name[:3] for name in spoken)]
    return [name for name in dict.fromkeys(names) if name]


class Tokens:
    """The tokenizer of a Marian model. Not for two threads: it remembers the language of a call."""

    def __init__(self, folder: Folder) -> None:
        import transformers

        classes = {"marian": "MarianTokenizer", "m2m_100": "M2M100Tokenizer", "nllb": "NllbTokenizer"}
        self.tokenizer = getattr(transformers, classes[folder.kind]).from_pretrained(folder.path, local_files_only=True)
        self.silent = {*self.tokenizer.all_special_tokens, *self.languages()}

    def languages(self) -> set[str]:
        """The tokens that stand for languages."""
        return set(self.tokenizer.supported_language_codes)

    def encode(self, texts: Sequence[str], source: str, target: str) -> list[list[int]]:
        """Ids by text. One of several targets is named before each text."""
        prefix = self._prefix(target)
        ids: list[list[int]] = self.tokenizer([prefix + text for text in texts])["input_ids"]
        return ids

    def _prefix(self, target: str) -> str:
        known = self.languages()
        if not known:
            return ""
        for name in marian_names(target):
            if f">>{name}<<" in known:
                return f">>{name}<< "
        raise _unknown(target, sorted(token[2:-2] for token in known))

    def first(self, target: str) -> str:
        """The token that a translation has to begin with; ``""`` where any may."""
        return ""

    def decode(self, tokens: Sequence[str]) -> str:
        """The text; ``""`` of nothing but special tokens."""
        # Not by the tokenizer's own decode: of transformers 5 it is by Marian's source pieces.
        text: str = self.tokenizer.convert_tokens_to_string([token for token in tokens if token not in self.silent])
        return text.strip()


class ManyTokens(Tokens):
    """The tokenizer of an M2M100 or NLLB model."""

    def languages(self) -> set[str]:
        """The tokens that stand for languages."""
        return set(self._codes.values())

    @cached_property
    def _codes(self) -> dict[str, str]:
        """Token by code: M2M100 has a table, NLLB's codes are tokens."""
        if hasattr(self.tokenizer, "lang_code_to_token"):
            return dict(self.tokenizer.lang_code_to_token)
        return {token: token for token in self.tokenizer.get_vocab() if FLORES_CODE.fullmatch(token)}

    def _code(self, language: str) -> str:
        codes = self._codes
        for code in (language, M2M100.get(language, ""), flores(language)):
            if code in codes:
                return code
        raise _unknown(language, sorted(codes))

    def encode(self, texts: Sequence[str], source: str, target: str) -> list[list[int]]:
        """Ids by text, with that of its language."""
        self.tokenizer.src_lang = self._code(source)
        ids: list[list[int]] = self.tokenizer(list(texts))["input_ids"]
        return ids

    def first(self, target: str) -> str:
        """The token of the target language."""
        return self._codes[self._code(target)]


def _unknown(language: str, known: Sequence[str]) -> Refused:
    return Refused(f"pair: the model has no {language}, but {', '.join(known)}"[:300])
