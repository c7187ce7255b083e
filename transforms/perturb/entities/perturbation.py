"""Unseen entities as a perturbation: slot values that do not occur in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from parapet.schemas.dialogue import DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.schemas.rows import REPLACEMENTS
from parapet.transforms.core.counts import Balance, Counted, Invariant, Least, Zero
from parapet.transforms.perturb.base import REFUSED, Analysis, Perturbation, Perturbed, Place, Shared, share_of
from parapet.transforms.perturb.corpora import Corpus, read_corpus
from parapet.transforms.perturb.entities.choosing import GENERATED, Replacer
from parapet.transforms.perturb.entities.replacing import replaced
from parapet.transforms.perturb.entities.study import Inputs, inputs_of, study_corpus
from parapet.transforms.perturb.languages import ENGLISH
from parapet.transforms.report.numbers import Metric, Numbers

_REPLACER = "replacer"


class UnseenEntities(Perturbation):
    """Dialogues whose slot values occur nowhere in training; states, spans and calls say the same as the turns.

    Args:
      seed: of everything that is drawn.
      values: where new values come from: ``generated``, or a CSV file with the columns ``slot_or_kind`` and ``value``.
      training: the corpus whose split train is what has been seen, or its place; by default the corpus itself, all of
        it if it has no such split.
      least_changed: the share of the dialogues with open slots that must change, or the command fails.
    """

    name = "unseen_entities"
    known_odd = (
        "Values are replaced one by one: an airport need not be that of the city. "
        '"Tomorrow" and "next Tuesday" stay as they are.'
    )
    languages = (ENGLISH,)
    needs_annotation = True
    row_schema = REPLACEMENTS
    rows_folder = "replacements"
    tables = (
        Numbers("Dialogues and values", "sets/*", ("set",), (
            Metric("open", "dialogues with open slots", shown_first=True),
            Metric("open_changed", "of these changed", of="open", shown_first=True),
            Metric("turns", "turns"),
            Metric("turns_changed", "turns changed"),
            Metric("values", "values of open slots"),
            Metric("replaced", "values replaced", of="values", shown_first=True),
            Metric("leaks", "leaks", shown_first=True, meaning="New values of one word that occurs in training, or two "
                   "adjacent words of which are adjacent there (case and punctuation ignored)."))),
        *(
            Numbers(f"Values {label}", f"sets/*/{name}/*", ("set", label.rpartition(" ")[2]), (Metric("", "values"),))
            for name, label in (("replaced_by_kind", "replaced by kind"), ("kept_by_kind", "kept by kind"),
                                ("kept_by_reason", "kept by reason"))
        ),
    )  # fmt: skip
    in_folders = False
    analyzes_dialogues = False

    inputs: Inputs  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        values: str | Path = GENERATED,
        training: Corpus | str | Path | None = None,
        least_changed: float = 0.5,
    ) -> None:
        super().__init__(seed=seed)
        if training is not None and not isinstance(training, Corpus | str | Path):
            raise InputError(f"expected a corpus or a path, found {type(training).__name__}", "--training")
        self.values = str(values)
        self.training = training
        self.least_changed = float(share_of(least_changed, "--least_changed"))

    def recorded_options(self) -> dict[str, object]:
        """Return the options, without the paths of a gazetteer and of another training corpus."""
        return {
            "values": GENERATED if self.values == GENERATED else "file",
            "least_changed": self.least_changed,
            "seed": self.seed,
            "training": "elsewhere" if self.training else "",
        }

    def prepare(self, corpus: Corpus) -> None:
        """List what must be read: training, and the dialogues to perturb."""
        training = corpus if self.training is None else self.training
        if not isinstance(training, Corpus):
            training = read_corpus(training, None)
        self.inputs = inputs_of(corpus, self.splits, training, self.training or "", self.seed, self.values)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Learn the n-grams of training and the kinds of slots, which all dialogues share."""
        replacer, refused = study_corpus(files.pipeline, self.inputs)
        shared = replacer | "Shared" >> beam.Map(lambda found: ("", found))
        return Analysis(shared={_REPLACER: shared, REFUSED: refused})

    def state_of(self, place: Place, state: Any, shared: Shared) -> Replacer:
        """Return the replacer, which all dialogues share."""
        replacer: Replacer = shared[_REPLACER][""]
        return replacer

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Replacer) -> Perturbed:
        """Return the dialogue with other values, and a row for every value of an open slot."""
        result = replaced(dialogue, typed(dialogue), state)
        is_open, turns_changed = bool(result.rows), result.turns_changed
        counts: Counter[Counted] = Counter()
        counts["open"] = is_open
        counts["open_changed"] = is_open and turns_changed > 0
        counts["turns"] = len(dialogue["turns"])
        counts["turns_changed"] = turns_changed
        counts["values"] = len(result.rows)
        counts["leaks"] = result.leaks
        for row in result.rows:
            counts[row["status"]] += 1
            counts[f"{row['status']}_by_kind", row["kind"]] += 1
            if row["reason"]:
                counts["kept_by_reason", row["reason"]] += 1
        return Perturbed(result.dialogue, result.rows, counts=counts)

    def invariants(self) -> Sequence[Invariant]:
        """Check that every value is replaced or kept, new values are unseen, and enough dialogues have changed."""
        return (
            *super().invariants(),
            Balance("values", ("replaced", "kept")),
            Zero("leaks", "new values that occur in training"),
            Least(
                *("open_changed", "open", self.least_changed, self.name, "dialogues with open slots changed"),
                needed=True,
            ),
        )
