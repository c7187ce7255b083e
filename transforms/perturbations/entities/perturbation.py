"""Unseen entities as a perturbation: slot values that do not occur in training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.schemas.rows import REPLACEMENTS
from parapet.transforms.perturbation.base import Analysis, Perturbation, Perturbed, Place, Shared, share_of
from parapet.transforms.perturbation.corpora import Corpus, read_corpus
from parapet.transforms.perturbation.languages import ENGLISH
from parapet.transforms.perturbation.report import place_of
from parapet.transforms.perturbations.entities.choosing import GENERATED
from parapet.transforms.perturbations.entities.replacing import PLACES, Replaced, Replacer, replaced
from parapet.transforms.perturbations.entities.study import Inputs, inputs_of, study_corpus
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.report import Example, Line, edited
from parapet.transforms.running.counts import Balance, Counted, Counts, Invariant, Zero

_REPLACER, _STUDY = "replacer", "study"

_REPLACED_AND_KEPT = (Metric("replaced", "replaced"), Metric("kept", "kept"))


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
    metrics = ()
    tables = (
        Numbers(
            "Dialogues and values",
            "",
            (),
            (
                Metric("changed", "dialogues changed", shown_first=True),
                Metric("changed_rate", "share of the dialogues with open slots", percent=True, shown_first=True),
                Metric("turns", "turns"),
                Metric("turns_changed", "turns changed"),
                Metric("values.replaced", "values replaced", shown_first=True),
                Metric("values.kept", "values kept", shown_first=True),
                Metric("leaks", "leaks", meaning="New values of one word that occurs in training, or two adjacent "
                       "words of which are adjacent there (case and punctuation ignored).", shown_first=True),
            ),
        ),
        Numbers("Values by kind", "kinds/*", ("kind",), _REPLACED_AND_KEPT),
        Numbers("Places where values were replaced", "places/*", ("place",), (Metric("", "values"),), chart="bars",
                note="Spans are among the utterances."),
        Numbers("Unchanged values by reason", "kept/*", ("reason",), (Metric("", "values"),)),
        Numbers("Values by slot", "slots/*", ("slot",), (Metric("kinds", "kinds"), *_REPLACED_AND_KEPT), in_card=False),
    )  # fmt: skip
    in_folders = False

    analyzes_dialogues = False

    inputs: Inputs  # set by prepare()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        values: str | Path = "generated",
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
        numbers = replacer | "Numbers" >> beam.Map(Replacer.numbers)
        shared = replacer | "Shared" >> beam.Map(lambda replacer: ("", replacer))
        return Analysis(shared={_REPLACER: shared}, reported={_STUDY: numbers}, refused=refused)

    def state_of(self, place: Place, state: Any, shared: Shared) -> Replacer:
        """Return the replacer, which all dialogues share."""
        replacer: Replacer = shared[_REPLACER][""]
        return replacer

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Replacer) -> Perturbed:
        """Return the dialogue with other values, and a row for every value."""
        known = typed(dialogue)
        result = replaced(dialogue, known, state)
        counts, shown = _counts_of(result, known), _shown(result, dialogue, known)
        return Perturbed(result.dialogue, result.rows, counts=counts, shown=shown)

    def invariants(self) -> Sequence[Invariant]:
        """Check that every value is replaced or kept, new values are unseen, and enough dialogues have changed."""
        return (
            *super().invariants(),
            Balance("values", ("replaced", "kept")),
            Zero("leaks", "new values that occur in training"),
            LeastChanged(self.least_changed),
        )

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Count replaced and kept values by kind, slot, reason and place."""
        changed, with_open_slots = counts.sum("open_changed"), counts.sum("open")
        (numbers,) = reported[_STUDY]
        return {
            "dialogues": counts.sum("dialogues", set=""),
            "left_out": counts.sum("left_out"),
            **{name: counts.sum(name) for name in ("open", "changed", "open_changed", "turns", "turns_changed")},
            "changed_rate": changed / with_open_slots if with_open_slots else None,
            "values": {name: counts.sum(name) for name in ("replaced", "kept")},
            "leaks": counts.sum("leaks"),
            **_by_kind_and_slot(counts),
            **numbers,
        }

    def example(self, shown: Mapping[str, Any]) -> Example:
        """Show a turn with its replaced values marked."""
        return Example(place_of(shown), [Line(shown["speaker"], edited(shown["utterance"], shown["edits"]))])


class LeastChanged(msgspec.Struct, frozen=True):
    """Checks the share of dialogues with open slots that have changed; without such dialogues, nothing has changed."""

    share: float

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Raise InputError if fewer dialogues have changed."""
        changed, with_open_slots = counts.sum("open_changed"), counts.sum("open")
        if changed < self.share * with_open_slots or (self.share and not with_open_slots):
            raise InputError(
                f"only {changed} of {with_open_slots} dialogues with open slots were changed, so nothing was "
                "published (--least_changed 0 publishes the output nevertheless, with the reasons in "
                "statistics.json)"
            )
        return iter(())


def _counts_of(result: Replaced, dialogue: Dialogue) -> Counter[Counted]:
    """Count a dialogue's values, by (slot, kind, reason or status), and its turns."""
    changed = bool(result.changed)
    counts: Counter[Counted] = Counter()
    counts.update(
        open=result.open,
        changed=changed,
        open_changed=result.open and changed,
        turns=len(dialogue.turns),
        turns_changed=len(result.changed),
        values=len(result.rows),
        leaks=result.leaks,
    )
    for row in result.rows:
        counts[row["status"]] += 1
        slot = f"{row['service']}.{row['slot']}"
        counts["values_of_slots", (slot, row["kind"], row["reason"] or row["status"])] += 1
        for place in PLACES:
            counts["places", place] += row[place]
    return counts


def _by_kind_and_slot(counts: Counts) -> dict[str, Any]:
    """Group the counts of values by kind, by slot, by reason for keeping, and by place of replaced ones."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    kinds_of_slots: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for key, n in counts.items():
        if key.name == "values_of_slots":
            slot, kind, outcome = tuple(key.value)
            replaced_or_kept = outcome if outcome == "replaced" else "kept"
            kinds[kind][replaced_or_kept] += n
            kinds_of_slots[slot][kind] += n
            outcomes[slot][outcome] += n
            reasons[outcome] += n
    places = counts.by("value", "places")
    return {
        "kinds": {kind: {status: of[status] for status in ("replaced", "kept")} for kind, of in sorted(kinds.items())},
        "kept": _without_replaced(reasons),
        "places": {place: places.get(place, 0) for place in PLACES},
        "slots": {
            slot: {
                "kinds": dict(sorted(kinds_of_slots[slot].items(), key=lambda of: (-of[1], of[0]))),
                "replaced": of["replaced"],
                "kept": _without_replaced(of),
            }
            for slot, of in sorted(outcomes.items())
        },
    }


def _without_replaced(outcomes: Mapping[str, int]) -> dict[str, int]:
    return {reason: n for reason, n in sorted(outcomes.items()) if reason != "replaced"}


def _shown(result: Replaced, raw: dict[str, Any], dialogue: Dialogue) -> list[dict[str, Any]]:
    """Return the changed turns with their edits."""
    return [
        {
            "dialogue_id": dialogue.dialogue_id,
            "turn": position,
            "speaker": dialogue.turns[position].speaker,
            "utterance": raw["turns"][position]["utterance"],
            "edits": [[edit.start, edit.end, edit.text, ""] for edit in edits],
        }
        for position, edits in result.changed
    ]
