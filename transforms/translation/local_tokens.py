"""The tokenizers of translation models: texts to the ids of tokens, tokens of a translation to text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from parapet.transforms.refusals import Refused
from parapet.transforms.translation import local_languages
from parapet.transforms.translation.local_folders import Folder


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
        for name in local_languages.marian_names(target):
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
        return {token: token for token in self.tokenizer.get_vocab() if local_languages.FLORES_CODE.fullmatch(token)}

    def _code(self, language: str) -> str:
        codes = self._codes
        for code in (language, local_languages.M2M100.get(language, ""), local_languages.flores(language)):
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
