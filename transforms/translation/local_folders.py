"""Folders of translation models: what is in them, and whether it can be used; nothing is loaded here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec

from parapet.transforms import checkpoints
from parapet.transforms.checkpoints import Checkpoint

Kind = Literal["marian", "m2m_100", "nllb"]

_TAKEN = "Marian (OPUS-MT), M2M100 and NLLB models are taken"

_OF_TOKENIZER: dict[str, Kind] = {"MarianTokenizer": "marian", "M2M100Tokenizer": "m2m_100", "NllbTokenizer": "nllb"}
# NLLB's is the architecture of M2M100.
_OF_MODEL: dict[str, tuple[Kind, ...]] = {"marian": ("marian",), "m2m_100": ("m2m_100", "nllb")}
# Any of the lines will do.
_FILES: dict[Kind, list[tuple[str, ...]]] = {
    "marian": [("source.spm", "target.spm", "vocab.json")],
    "m2m_100": [("vocab.json", "sentencepiece.bpe.model")],
    "nllb": [("tokenizer.json",), ("sentencepiece.bpe.model",)],
}
CONVERTED = "model.bin"  # by CTranslate2


class Folder(msgspec.Struct, frozen=True):
    """A model that can be used.

    Attributes:
      path: where it is.
      kind: its tokenizer's.
      converted: whether it is for CTranslate2.
      digest: of all files that count; another model's is another, the same model's is the same in any folder.
    """

    path: str
    kind: Kind
    converted: bool
    digest: str


def inspect(path: str) -> Folder:
    """What is in a folder.

    Raises:
      InputError: there is none, or no model in it that can be used.
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
    """Which tokenizer a folder has: the one it names, or else the one whose files it has."""
    settings = checkpoints.read_json(Path(checkpoint.path), "tokenizer_config.json")
    named = settings.get("tokenizer_class") or checkpoint.config.get("tokenizer_class")
    if named:
        kind = _OF_TOKENIZER.get(str(named).removesuffix("Fast"))
        if kind is None:
            raise checkpoint.refused(f"its tokenizer is a {named}: {_TAKEN}")
        checkpoints.check_tokenizer(checkpoint, _FILES[kind])
        return kind
    # NLLB's file names are anyone's: such a tokenizer has to be named.
    for kind in get_args(Kind)[:2]:
        if checkpoints.has_files(checkpoint.path, _FILES[kind]):
            return kind  # type: ignore[no-any-return]
    advice = "copy them from where the model is from (ct2-transformers-converter --copy_files)"
    raise checkpoint.refused(f"lacks the files of a tokenizer: {advice}")
