"""Entities that the user lists, and those that a trained model of spaCy finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.transforms.anonymise.mentions import KINDS, Mention

_TOKEN = re.compile(r"\w+")
_KIND = re.compile(r"[A-Z]{2,20}")
# Labels of spaCy's English models (OntoNotes 5) and of those of other languages (WikiNER) to kinds.
_LABELS = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "GPE": "LOCATION",
    "LOC": "LOCATION",
    "FAC": "LOCATION",
    "ORG": "ORGANIZATION",
    "DATE": "DATE",
    "TIME": "TIME",
}

Entry = tuple[str, str]  # kind, text


def read_entities(path: str) -> list[Entry]:
    """A file of entities, one a line, ``Blue Door`` or ``ORGANIZATION<TAB>Blue Door``. Raises InputError."""
    place = as_path(path)
    try:
        lines = place.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}: save the file as UTF-8", path, "--entities") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--entities") from None
    entries = []
    for number, line in enumerate(lines, 1):
        kind, _, text = line.partition("\t") if "\t" in line else ("ENTITY", "", line)
        if not text.strip():
            continue
        if not _KIND.fullmatch(kind.strip()):
            reason = f"a kind is in capitals, such as {', '.join(list(KINDS)[-3:])}"
            raise InputError(reason, path, f"line {number}")
        if not _TOKEN.search(text):
            raise InputError("has no letter or digit", path, f"line {number}")
        entries.append((kind.strip(), text.strip()))
    if not entries:
        raise InputError("no entities here", path, "--entities")
    return sorted(set(entries))


class Gazetteer:
    """Finds listed texts, as whole words in any case. What it costs does not grow with the list.

    Args:
      entries: (kind, text).
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of_first: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for kind, text in entries:
            tokens = tuple(token.casefold() for token in _TOKEN.findall(text))
            if tokens:
                self._of_first.setdefault(tokens[0], []).append((tokens, kind))
        for found in self._of_first.values():
            found.sort(key=lambda one: (-len(one[0]), one))

    def find(self, text: str) -> Iterator[Mention]:
        """Mentions, the longest at each place; they do not overlap."""
        places = [(found.group().casefold(), *found.span()) for found in _TOKEN.finditer(text)]
        words = tuple(word for word, _, _ in places)
        at = 0
        while at < len(words):
            for tokens, kind in self._of_first.get(words[at], ()):
                if words[at : at + len(tokens)] == tokens:
                    yield Mention(places[at][1], places[at + len(tokens) - 1][2], kind)
                    at += len(tokens) - 1
                    break
            at += 1


def check_model(name: str) -> None:
    """Raises InputError where there is no such model of spaCy, or it finds no entities."""
    try:
        pipes = _model(name).pipe_names
    except OSError:
        reason = f"there is no trained model {name!r}: python -m spacy download {name}, or give the folder of one"
        raise InputError(reason, "--spacy_model") from None
    except Exception as error:  # a model's own
        raise InputError(f"the model {name!r} cannot be loaded: {error}", "--spacy_model") from None
    if not {"ner", "entity_ruler"} & set(pipes):
        raise InputError(f"the model {name!r} finds no entities: it has no ner", "--spacy_model")


@cache
def _model(name: str) -> Any:
    """One for a process: a model takes a second to load."""
    import spacy

    return spacy.load(name)


def recognised(texts: Sequence[str], model: str) -> list[list[Mention]]:
    """Of each text the mentions that a model finds."""
    return [
        [Mention(one.start_char, one.end_char, _LABELS[one.label_]) for one in doc.ents if one.label_ in _LABELS]
        for doc in _model(model).pipe(texts)
    ]
