"""One plug-in of each kind for Parapet: small, offline, of no other use. docs/plugins.md explains them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import parapet
from parapet.transforms.translate.memory import Limits

# ----------------------------------------------------------------------------------------------------------------------
# parapet.translation_engines: parapet back_translate --engine pig_latin, or --engine pig_latin=ay


class PigLatin:
    """A translation engine, see ``parapet.transforms.translate.memory.Engine``.

    "pig latin" becomes "latinway pigway" in whatever language, and that comes back as "latin pig".

    Args:
      ending: what each word ends with in the other language.
    """

    provider = "pig_latin"  # with the model, the key of what it translates in the memory
    limits = Limits(texts=64, codepoints=10_000)
    dollars_per_million = 0.0
    parallel = 1

    def __init__(self, ending: str = "way") -> None:
        self.model = f"ending-{ending}"
        self.ending = ending

    def open(self) -> None:
        """Nothing to connect to."""

    def close(self) -> None:
        """Nothing to let go of."""

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """The translations, in order."""
        return [self._back(text) if target == "en" else self._there(text) for text in texts]

    def _there(self, text: str) -> str:
        first, *others = text.split()
        return " ".join(word + self.ending for word in (*others, first))

    def _back(self, text: str) -> str:
        return " ".join(word.removesuffix(self.ending) for word in text.split())


# ----------------------------------------------------------------------------------------------------------------------
# parapet.speech_engines: parapet speech_errors --engine modem

_LETTERS = "abcdefghijklmnopqrstuvwxyz' -0123456789"
_BITS, _LENGTH, _LOUD = 6, 2, 8000  # bits a letter, samples a bit, their level
_MARK = 256  # samples that say where a text begins, and as many where it ends


class Synthesiser:
    """Speaks as a modem does: see ``parapet.transforms.perturb.speech.engine.Synthesiser``."""

    name = "modem 1"
    parallel = 1
    dollars_per_million = 0.0
    default_voice = "plain"  # where no --voices are given

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that it does not have."""
        from parapet.schemas.errors import InputError

        for voice in voices:
            if voice != self.default_voice:
                raise InputError(f"{voice!r} is no voice of the modem, which has one: plain", "--voices")

    def open(self) -> None:
        """Nothing to load."""

    def close(self) -> None:
        """Nothing to let go of."""

    def speak(self, text: str, voice: str) -> Any:
        """The sound: of each bit a few samples above or below zero."""
        import numpy as np  # where it is used: the names of plug-ins are listed without it

        codes = [_LETTERS.index(letter) if letter in _LETTERS else 0 for letter in text.lower()]
        bits = np.array([code >> place & 1 for code in codes for place in range(_BITS)])
        begin, end = _marks()
        return (_LOUD * np.concatenate([begin, np.repeat(2 * bits - 1, _LENGTH), end])).astype(np.int16)


class Recogniser:
    """Hears what the modem has said: see ``parapet.transforms.perturb.speech.engine.Recogniser``."""

    name = "modem 1"
    parallel = 1
    dollars_per_hour = 0.0

    def open(self) -> None:
        """Nothing to load."""

    def close(self) -> None:
        """Nothing to let go of."""

    def hear(self, sound: Any) -> str:
        """The text; noise turns letters into others."""
        import numpy as np

        begin, end = (int(np.correlate(sound.astype(float), mark).argmax()) for mark in _marks())
        letters = max(0, end - begin - _MARK) // (_BITS * _LENGTH)
        said = sound[begin + _MARK :][: letters * _BITS * _LENGTH].astype(float)
        bits = said.reshape(letters, _BITS, _LENGTH).sum(axis=2) > 0
        codes = (bits << np.arange(_BITS)).sum(axis=1)
        return "".join(_LETTERS[code % len(_LETTERS)] for code in codes)


def _marks() -> Any:
    import numpy as np

    return 2 * np.random.default_rng(1).integers(0, 2, (2, _MARK)) - 1


# ----------------------------------------------------------------------------------------------------------------------
# parapet.metrics: parapet evaluate --task generation --metrics word_overlap


class WordOverlap:
    """A metric of generated utterances: the Jaccard index of their words and the reference's."""

    def score(self, said: Sequence[str], references: Sequence[str]) -> list[float | None]:
        """A share, 0 to 1, for each; None where there is no word on either side."""
        return [
            self._of(set(one.lower().split()), set(two.lower().split()))
            for one, two in zip(said, references, strict=True)
        ]

    def _of(self, one: set[str], two: set[str]) -> float | None:
        return len(one & two) / len(one | two) if one | two else None


# ----------------------------------------------------------------------------------------------------------------------
# parapet.models: parapet evaluate --task dst --model mention


class Mention:
    """A dialogue state tracker, see ``parapet.evaluation.dst.model.Model``: every value it hears of is wanted."""

    def predict(self, batch: Sequence[Any]) -> list[dict[str, Any]]:
        """A state for each example."""
        return [self._state(example) for example in batch]

    def _state(self, example: Any) -> dict[str, Any]:
        values: dict[str, list[str]] = {}
        for _, utterance in example.history:
            for slot in example.service.slots:
                for value in slot.possible_values if slot.is_categorical else ():
                    if value.lower() in utterance.lower():
                        values[slot.name] = [value]
        return {"active_intent": "NONE", "requested_slots": [], "slot_values": values}


# ----------------------------------------------------------------------------------------------------------------------
# parapet.perturbations: parapet.perturb(corpus, "dropped_articles", rate=0.5)


class DroppedArticles(parapet.Perturbation):
    """Users who leave out articles, as people do who type in a hurry or whose first language has none.

    Args:
      rate: the probability that an article is left out. Those inside slot values stay.
      seed: of what is drawn.
    """

    name = "dropped_articles"
    article = re.compile(r"\b(?:an?|the) +(?=\w)", re.IGNORECASE)

    def __init__(self, *, rate: float = 0.5, seed: int | str = 0) -> None:
        super().__init__(seed=seed)
        self.rate = rate

    def perturb(self, dialogue: dict[str, Any], random: Random) -> parapet.Perturbed:
        """The dialogue without some of its users' articles."""

        def edits(turn: Any) -> Iterator[tuple[int, int, str]]:
            for article in self.article.finditer(turn.utterance):
                if random.random() < self.rate:
                    yield (*article.span(), "")

        return parapet.edit_user_turns(dialogue, edits)


# ----------------------------------------------------------------------------------------------------------------------
# parapet.distances: parapet compose --name_distance ngrams, or --name_distance ngrams=3; parapet.rank(..., by="ngrams")


class Ngrams:
    """A distance of paraphrases: the share of the n-grams of characters in either text that are not in both.

    Args:
      n: how many characters.
    """

    def __init__(self, n: str = "2") -> None:
        self.n = int(n)

    def __call__(self, original: str, paraphrase: str) -> float:
        """From 0, for texts with the same n-grams, to 1."""
        first, second = self._of(original.lower()), self._of(paraphrase.lower())
        return 1 - len(first & second) / len(first | second)

    def _of(self, text: str) -> set[str]:
        return {text[i : i + self.n] for i in range(max(1, len(text) - self.n + 1))}


# ----------------------------------------------------------------------------------------------------------------------
# parapet.vetting_rules: parapet compose --vetting_rules first_person


class FirstPerson:
    """A vetting rule: descriptions are not about "me"."""

    action = "review"  # or "reject"
    explanation = "Speaks of the worker: I, me, my, we, our."

    def __call__(self, answer: Any) -> str | None:
        """Return the reason to hold an answer (a ``parapet.transforms.crowd.rules.AnswerText``), or None."""
        words = {"i", "me", "my", "we", "our"}.intersection(answer.words)
        return "first_person" if answer.task == "descriptions" and words else None
