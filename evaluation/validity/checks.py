"""What a machine can check of varied user turns: values said, states the same, a classifier's answer the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec
from rapidfuzz import fuzz

from parapet.evaluation.validity.turns import Pair, Wanted
from parapet.schemas.errors import InputError
from parapet.transforms.hits.kept_values import find_word, speakable

if TYPE_CHECKING:
    from parapet.evaluation.models.classifier import Classifier

FUZZY = 85  # of 100: how similar a piece of the turn has to be to a value

METRICS = ("changed", "states_equal", "values_kept", "values_kept_fuzzy", "same_label", "accuracy_original", "accuracy")

Form = Callable[[str], str]


class Check(msgspec.Struct, frozen=True):
    """What was found of a pair.

    Attributes:
      lost: the values that are not in the text letter for letter; ``lost_fuzzy`` those that nothing in it resembles.
      label: the right one; empty where it is not known.
      predicted: of the original and of the varied text; empty without a classifier, and of a turn that is unchanged.
    """

    pair: Pair
    lost: tuple[Wanted, ...]
    lost_fuzzy: tuple[Wanted, ...]
    label: str = ""
    predicted: tuple[str, str] | tuple[()] = ()

    def values(self) -> dict[str, float | None]:
        """Each of ``METRICS`` for this turn; None where it says nothing of it."""
        found: dict[str, float | None] = dict.fromkeys(METRICS)
        found["changed"] = float(self.pair.changed)
        found["states_equal"] = float(not self.pair.other_states)
        if self.pair.wanted:
            found["values_kept"] = float(not self.lost)
            found["values_kept_fuzzy"] = float(not self.lost_fuzzy)
        if self.predicted:
            before, after = self.predicted
            found["same_label"] = float(before == after)
            if self.label:
                found["accuracy_original"], found["accuracy"] = float(before == self.label), float(after == self.label)
        return found


class Labels(msgspec.Struct, frozen=True):
    """What a classifier says: the kind of its labels, ``intent`` or ``acts``, and the label of each text."""

    task: str
    of_text: Mapping[str, str]


class LabelModel(msgspec.Struct, frozen=True):
    """A classifier of ``parapet train classifier``, and the kind of its labels, ``intent`` or ``acts``."""

    task: str
    classifier: Classifier


def load_classifier(folder: str) -> LabelModel:
    """Loads a classifier. Raises InputError: there is none in the folder, or it knows out-of-domain turns only."""
    from parapet.evaluation.models.classifier import load

    card, classifier = load(folder, "cpu", 256)
    if card.task not in ("intent", "acts"):
        raise InputError(f"is a classifier of --task {card.task}: train one of intents or acts", folder, "--classifier")
    return LabelModel(card.task, classifier)


def predict_labels(model: LabelModel, pairs: Iterable[Pair]) -> Labels:
    """What a classifier says of every text that has changed, before and after."""
    changed = [pair for pair in pairs if pair.changed]
    texts = sorted({text for pair in changed for text in (pair.original.utterance, pair.utterance)})
    answers, _ = model.classifier.answers(texts)
    return Labels(model.task, {text: answer.label for text, answer in zip(texts, answers, strict=True)})


def check(pair: Pair, labels: Labels | None, form: Form) -> Check:
    """Checks a pair.

    Args:
      pair: of the original and the varied turn.
      labels: of the texts, where there is a classifier.
      form: how texts are compared that need not be the same letter for letter, see :func:`compared_form`.
    """
    text = speakable(pair.utterance)
    lost = tuple(one for one in pair.wanted if not any(find_word(text, value) is not None for value in one.texts))
    resembling = form(text) if lost else ""
    lost_fuzzy = tuple(one for one in lost if not any(resembles(form(value), resembling) for value in one.texts))
    if labels is None or not pair.changed:
        return Check(pair, lost, lost_fuzzy)
    label = pair.original.intent if labels.task == "intent" else pair.original.acts
    predicted = labels.of_text[pair.original.utterance], labels.of_text[pair.utterance]
    return Check(pair, lost, lost_fuzzy, label, predicted)


def resembles(value: str, text: str) -> bool:
    """Whether some piece of a text is nearly a value: ``san fracisco`` for ``san francisco``."""
    if len(text) < len(value):
        return fuzz.ratio(value, text) >= FUZZY
    return bool(value) and fuzz.partial_ratio(value, text) >= FUZZY


def compared_form() -> tuple[Form, bool]:
    """How a text is compared, and whether that is its spoken form, in which ``5:30 pm`` is ``five thirty p m``.

    That needs what the extra ``speech`` brings; without it, letters are lower-cased.
    """
    if find_spec("num2words") is None:
        return str.casefold, False
    from parapet.transforms.speech.spoken import load_normalisation, spoken_words

    rules = load_normalisation()

    @lru_cache(1 << 14)
    def spoken(text: str) -> str:
        return " ".join(word.text for word in spoken_words(text, rules)) or text.casefold()

    return spoken, True


def lost_by_slot(checks: Sequence[Check]) -> dict[str, int]:
    """How many values of each slot are not in the text letter for letter, the most first."""
    counts: dict[str, int] = {}
    for one in checks:
        for wanted in one.lost:
            counts[wanted.slot] = counts.get(wanted.slot, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
