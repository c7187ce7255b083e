"""Unseen entities as a perturbation: slot values that occur nowhere in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parapet.schemas.dialogue import typed
from parapet.schemas.errors import InputError
from parapet.schemas.replacements import REPLACEMENTS
from parapet.transforms.corpora import Corpus, read_corpus
from parapet.transforms.entities.replacing import Replacer, replaced
from parapet.transforms.entities.study import Config, split_train, study
from parapet.transforms.perturbation import Perturbation, Perturbed, share_of

CATEGORICAL = ("keep", "replace")


class UnseenEntities(Perturbation):
    """Dialogues whose slot values occur nowhere in training; states, spans and calls say the same as the turns.

    Args:
      seed: of everything that is drawn.
      values: where new values come from: ``generated``; ``corpus``, the half of the corpus's own names that is held
        out (Bordes et al. 2017, 3.1.2); or a CSV file with the columns ``slot_or_kind`` and ``value``.
      categorical: values of categorical slots: ``keep`` them, or ``replace`` them by others of their closed set.
      training: the corpus whose split train is what has been seen, or its place; by default the corpus itself.
      max_bad: up to which share of the values that a dialogue needs a source may lack; they are kept as they are.
    """

    name = "unseen_entities"
    row_schema = REPLACEMENTS
    rows_folder = "replacements"

    replacer: Replacer  # since fit()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        values: str | Path = "generated",
        categorical: str = "keep",
        training: Corpus | str | Path | None = None,
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        if categorical not in CATEGORICAL:
            raise InputError(f"{categorical!r} is none of {', '.join(CATEGORICAL)}", "--categorical")
        if training is not None and not isinstance(training, Corpus | str | Path):
            raise InputError(f"expected a corpus or a place, found {type(training).__name__}", "--training")
        self.config = Config(str(values), categorical == "replace", self.seed, share_of(max_bad, "--max_bad"))
        self.training = training

    def fit(self, corpus: Corpus) -> None:
        """Learns what training has, and the kinds of the corpus's slots."""
        training = corpus if self.training is None else self.training
        if not isinstance(training, Corpus):
            training = read_corpus(training, None)
        self.replacer = study(corpus, corpus, split_train(training), self.config).replacer

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """The dialogue with other values, and a row for every value."""
        result = replaced(dialogue, typed(dialogue), self.replacer)
        return Perturbed(result.dialogue, result.rows)
