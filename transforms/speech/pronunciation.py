"""How words are said, as the recogniser's dictionary writes it: the CMU dictionary, and eSpeak for what that lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from parapet.transforms.speech.espeak import library

# eSpeak's en-us in the International Phonetic Alphabet to the 39 phones of the CMU dictionary (ARPAbet); the longest
# that fits is taken first.
PHONES = {
    "tʃ": "CH", "dʒ": "JH", "aɪɚ": "AY ER", "aɪə": "AY AH", "aɪ": "AY", "aʊ": "AW", "eɪ": "EY", "oʊ": "OW", "əʊ": "OW",
    "ɔɪ": "OY", "iə": "IY AH", "ɪɹ": "IH R", "ɛɹ": "EH R", "ɑːɹ": "AA R", "ɔːɹ": "AO R", "oːɹ": "AO R", "ʊɹ": "UH R",
    "ɜː": "ER", "ɚ": "ER", "əl": "AH L", "iː": "IY", "uː": "UW", "ɑː": "AA", "ɔː": "AO", "oː": "AO", "ɐ": "AH",
    "ə": "AH", "ʌ": "AH", "æ": "AE", "ɛ": "EH", "ɪ": "IH", "i": "IY", "ʊ": "UH", "u": "UW", "ɑ": "AA", "ɒ": "AA",
    "ɔ": "AO", "a": "AA", "e": "EH", "o": "OW", "ᵻ": "IH", "b": "B", "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "g": "G",
    "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R", "r": "R", "s": "S",
    "ʃ": "SH", "t": "T", "ɾ": "T", "θ": "TH", "v": "V", "w": "W", "z": "Z", "ʒ": "ZH", "x": "K", "ɬ": "L", "ʔ": "T",
}  # fmt: skip

_PHONE = re.compile("|".join(sorted(PHONES, key=lambda ipa: (-len(ipa), ipa))))
_ENTRY = re.compile(r"^(\S+?)(?:\(\d+\))?\s+(.+)$", re.MULTILINE)


def arpabet(ipa: str) -> str:
    """Phones parted by blanks: ``sˈuːʃi`` is ``S UW SH IY``; what is no phone (stress, length) is left out."""
    return " ".join(PHONES[found[0]] for found in _PHONE.finditer(ipa))


@cache
def read_dictionary(path: Path) -> Mapping[str, list[str]]:
    """A dictionary of the recogniser's: word to its pronunciations."""
    found: dict[str, list[str]] = {}
    for word, phones in _ENTRY.findall(path.read_text(encoding="utf-8")):
        found.setdefault(word, []).append(phones)
    return found


def dictionary(words: Iterable[str], known: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """A dictionary of these words alone.

    Returns:
      Its text; the words that ``known`` lacks, as eSpeak says them.
    """
    lines: list[str] = []
    made: list[str] = []
    for word in sorted(set(words)):
        spoken = known.get(word)
        if spoken is None:
            phones = arpabet(library().phonemes(word))
            if not phones:
                continue
            spoken = [phones]
            made.append(word)
        lines += [f"{word}{f'({i})' if i > 1 else ''} {phones}" for i, phones in enumerate(spoken, 1)]
    return "\n".join([*lines, ""]), made
