"""What models call languages: M2M100 by ISO 639-1, NLLB by FLORES-200, Marian by whatever its authors chose."""

from __future__ import annotations

import re

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
