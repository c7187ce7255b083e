"""The tokenizers of translation models, and the codes by which they know languages.

M2M100 has ISO 639-1 codes, NLLB FLORES-200 codes, Marian whatever its authors chose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from parapet.transforms.refusals import Refused
from parapet.transforms.translation.local import Folder

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
