"""PTransforms for Apache Beam pipelines of your own.

``ReadAnswers | Dedupe | Vet | Rank | Compose`` make schema variants from the answers of crowd workers, as ``parapet
compose`` does. What cannot be used is a warning, and with ``with_outputs()`` a second output.

``Perturb``, ``ApplyVariants`` and ``ScoreStates`` take dialogues, which are dicts in the SGD format. A dialogue that
cannot be used fails the pipeline with an ``InputError`` that names it. Use ``with_outputs()`` to send such dialogues to
a dead-letter output instead.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints import with_input_types, with_output_types
from apache_beam.typehints.decorators import IOTypeHints

from parapet.api import corpus_from
from parapet.evaluation.dst.frames import (
    PassedOver,
    ScoreConfig,
    Slots,
    as_dialogues,
    check_known,
    dialogues_in_memory,
    predictions_in_memory,
    score_dialogues,
    slots_of,
)
from parapet.evaluation.dst.totals import Totals, add_up, means, merged
from parapet.schemas.dialogue import DialogueFile, dialogue_text, file_bytes, typed
from parapet.schemas.errors import InputError, UserCodeError
from parapet.schemas.layout import services_by_name
from parapet.schemas.service import parse_service
from parapet.transforms.crowd.compose import Compose
from parapet.transforms.crowd.dedupe import Dedupe
from parapet.transforms.crowd.ingest import ReadAnswers
from parapet.transforms.crowd.rank import Rank
from parapet.transforms.crowd.vet import Vet
from parapet.transforms.perturbation.base import REFUSED, Perturbation, check_analysis, set_of
from parapet.transforms.perturbation.corpora import Corpus, items_of
from parapet.transforms.perturbation.corpus import Services, apply, options_named, perturbation_of
from parapet.transforms.perturbation.files import Element, with_states
from parapet.transforms.running.counts import DeadLetter, dead_dialogue, id_of
from parapet.transforms.running.fence import bad_record
from parapet.transforms.variants.matching import Known, Variant
from parapet.transforms.variants.perturbation import places_of, rename, renamed_corpora

if TYPE_CHECKING:
    from parapet.transforms.variants.perturbation import Variants

__all__ = [
    "DEAD_LETTERS",
    "ROWS",
    "ApplyVariants",
    "Compose",
    "Dedupe",
    "Perturb",
    "Rank",
    "ReadAnswers",
    "ScoreStates",
    "Vet",
]

Dialogue = dict[str, Any]

ROWS, DEAD_LETTERS = "rows", "dead_letters"
REFERENCES, PREDICTIONS = "references", "predictions"


@with_input_types(Dialogue)
@with_output_types(Dialogue)
class Perturb(beam.PTransform):
    """Perturbs a PCollection of dialogues.

    Args:
      perturbation: the name of an installed perturbation, or a class or instance of your own.
      set_name: which set to make, if the perturbation makes several.
      corpus: the corpus that the perturbation learns from, if it does: a corpus, or anything that
        ``parapet.load_corpus`` accepts.
      options: options of the perturbation, such as ``seed=1``.

    Raises:
      InputError: there is no such perturbation, set or option, or the perturbation needs a corpus but has none.

    Example:
      >>> import apache_beam as beam, parapet
      >>> dialogues = list(parapet.load_corpus().dialogues("test"))
      >>> with beam.Pipeline() as pipeline:
      ...     typos = pipeline | beam.Create(dialogues) | parapet.beam.Perturb("typos", seed=1)
      ...     _ = typos | beam.Map(lambda dialogue: dialogue["dialogue_id"]) | beam.combiners.Count.Globally()
    """

    def __init__(
        self,
        perturbation: str | type[Perturbation] | Perturbation,
        *,
        set_name: str | None = None,
        corpus: Corpus | str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.perturbation = perturbation_of(perturbation, options)
        self.set_name = set_of(self.perturbation, set_name)
        self.services: Services | None = None
        if corpus is not None:
            corpus = corpus_from(corpus)
            self.services = services_by_name([*corpus.folders.values()])
            with options_named():
                self.perturbation.prepare(corpus)
        elif self.perturbation.needs_corpus():
            raise InputError(f"{self.perturbation.name} learns from a corpus: give corpus=parapet.load_corpus(...)")

    def default_label(self) -> str:
        """``Perturb(typos)``."""
        return f"Perturb({self.set_name})"

    def expand(self, dialogues: beam.PCollection[Dialogue]) -> beam.PCollection[Dialogue]:
        """Perturbs a PCollection of dialogues."""
        return _strict(self._perturbed(dialogues))

    def with_outputs(self) -> beam.PTransform:
        """Returns a transform with three outputs: ``dialogues``, ``rows`` (dicts with the columns of the perturbation's
        ``row_schema``) and ``dead_letters`` (the dialogues that could not be perturbed, with the reason).

        Example:
          >>> import apache_beam as beam, parapet
          >>> with beam.Pipeline() as pipeline:
          ...     dialogues = pipeline | beam.Create([{"dialogue_id": "1"}])
          ...     outputs = dialogues | parapet.beam.Perturb("typos").with_outputs()
          ...     _ = outputs.dead_letters | beam.Map(lambda letter: print(letter.dialogue_id, letter.reason))
          1 not_sgd: Object missing required field `services`
        """
        return _Outputs(self.default_label(), self._perturbed)

    def _perturbed(self, dialogues: beam.PCollection[Dialogue]) -> Any:
        files = dialogues | "As files" >> beam.ParDo(_AsFile()).with_outputs(DEAD_LETTERS, main="files")
        elements, analysis = with_states(files.files, self.perturbation)
        check_analysis(self.perturbation, analysis)
        sides = analysis.side_inputs()
        perturb = beam.ParDo(
            _Perturb(self.perturbation, self.set_name, self.services, tuple(sides)),
            *map(beam.pvalue.AsDict, sides.values()),
        )
        perturbed = elements | "Perturb" >> perturb.with_outputs(ROWS, DEAD_LETTERS, main="dialogues")
        dead_letters = (files[DEAD_LETTERS], perturbed[DEAD_LETTERS]) | "All dead letters" >> beam.Flatten()
        return _Perturbed(perturbed.dialogues, perturbed[ROWS], dead_letters)


class _Perturbed(NamedTuple):
    dialogues: beam.PCollection
    rows: beam.PCollection
    dead_letters: beam.PCollection


def _strict(outputs: Any) -> beam.PCollection:
    """Returns the dialogues of a transform, whose first dead letter fails the pipeline."""
    _ = outputs.dead_letters | "Fail" >> beam.Map(_fail)
    return outputs.dialogues


def _fail(letter: DeadLetter) -> None:
    raise InputError(letter.reason, f"dialogue {letter.dialogue_id}", letter.where)


def _refused(dialogue: Any, error: Exception, code: object = None, variant: str = "") -> TaggedOutput:
    """Makes the dead letter of a dialogue. Raises the exception if the dialogue is not its cause."""
    file = DialogueFile("", "", "", 0)
    return TaggedOutput(DEAD_LETTERS, dead_dialogue(file, id_of(dialogue, 0), bad_record(error, code), variant))


def _copied(dialogue: Dialogue) -> Dialogue:
    """Copies a dialogue: a step that modifies it in place must not affect others."""
    copy: Dialogue = pickle.loads(pickle.dumps(dialogue, pickle.HIGHEST_PROTOCOL))  # noqa: S301 (faster than deepcopy)
    return copy


class _Outputs(beam.PTransform):
    """A transform with several outputs, defined by a function."""

    def __init__(self, label: str, function: Any) -> None:
        super().__init__(label)
        self.with_input_types(Dialogue)
        self.function = function

    def expand(self, dialogues: beam.PCollection) -> Any:
        return self.function(dialogues)


class _AsFile(beam.DoFn):
    """Turns a dialogue into a file that contains only it and has its name."""

    def process(self, dialogue: Dialogue) -> Iterator[DialogueFile | TaggedOutput]:
        try:
            typed(dialogue)
            content = file_bytes([dialogue_text(dialogue)])
        except InputError as error:
            yield _refused(dialogue, error)
        else:
            name = id_of(dialogue, 0)
            yield DialogueFile("", name, f"dialogue {name}", len(content), content)


class _Perturb(beam.DoFn):
    """Perturbs files of one dialogue each, with the states of the analysis and its side inputs, which have names."""

    def __init__(
        self, perturbation: Perturbation, set_name: str, services: Services | None, shared_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.perturbation, self.set_name, self.services = perturbation, set_name, services
        self.shared_names = shared_names

    def default_type_hints(self) -> IOTypeHints:
        """Return no hints, since Beam would apply those of ``*sides`` to each side input."""
        return IOTypeHints.empty().with_output_types(beam.typehints.Dict[str, Any])

    def process(self, element: Element, *sides: Mapping[Any, Any]) -> Iterator[Dialogue | TaggedOutput]:
        file, states = element
        shared = dict(zip(self.shared_names, sides, strict=True))
        refused = shared.pop(REFUSED, {})
        (item,) = items_of(file)
        place = (file.relative, item.position)
        try:
            state = self.perturbation.state_of(place, states.get(item.position), shared)
            error = item.error or refused.get(place)
            perturbed = apply(self.perturbation, item._replace(error=error), self.set_name, state, self.services)
            if perturbed.error is not None:
                raise perturbed.error
        except UserCodeError:
            raise
        except Exception as error:
            yield _refused(item.raw, error, self.perturbation)
            return
        yield perturbed.raw
        for row in perturbed.rows:
            yield TaggedOutput(ROWS, row)


@with_input_types(Dialogue)
@with_output_types(tuple[str, Dialogue])
class ApplyVariants(beam.PTransform):
    """Renames services, slots and intents of each dialogue as in every schema variant (SGD-X).

    The result is a PCollection of (variant, dialogue).

    Args:
      variants: a folder of variants, or variants in memory, as ``parapet.apply_variants`` accepts them.
      corpus: the corpus whose schemas the dialogues follow, or anything that ``parapet.load_corpus`` accepts. By
        default, the bundled sample.
      split: the split whose schemas the dialogues follow; all splits by default.
      names: which variants to apply; all by default.

    Raises:
      InputError: there are no such variants, or a variant has no service that matches one of the corpus.

    Example:
      >>> import apache_beam as beam, parapet
      >>> corpus = parapet.load_corpus()
      >>> variants = {"v1": {split: [dict(service, service_name=service["service_name"] + "1")
      ...     for service in corpus.services(split)] for split in corpus.splits}}
      >>> with beam.Pipeline() as pipeline:
      ...     renamed = (
      ...         pipeline
      ...         | beam.Create(list(corpus.dialogues("test"))[:1])
      ...         | parapet.beam.ApplyVariants(variants, corpus=corpus)
      ...     )
      ...     _ = renamed | beam.MapTuple(lambda variant, dialogue: print(variant, dialogue["services"]))
      v1 ['Repairs_11']
    """

    def __init__(
        self,
        variants: str | Path | Variants,
        *,
        corpus: Corpus | str | Path | None = None,
        split: str | None = None,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__()
        original = corpus_from(corpus)
        self.known: dict[str, Any] = {}
        self.variants: list[Variant] = []
        folders = [
            folder for folder, name in zip(original.folders, original.splits, strict=True) if split in (None, name)
        ]
        for name, renamed in renamed_corpora(original, variants, names).items():
            of_folders = [renamed.names[folder] for folder in folders]
            matched = {old: new for folder_names in of_folders for old, new in folder_names.names.items()}
            bad = {
                old: why for folder_names in of_folders for old, why in folder_names.bad.items() if old not in matched
            }
            self.variants.append(Variant(name, matched, bad))
            for folder in folders:
                self.known |= renamed.known[folder]

    def expand(self, dialogues: beam.PCollection[Dialogue]) -> beam.PCollection[tuple[str, Dialogue]]:
        """Maps a PCollection of dialogues to a PCollection of (variant, dialogue)."""
        return _strict(self._renamed(dialogues))

    def with_outputs(self) -> beam.PTransform:
        """Returns the same transform with two outputs: ``dialogues``, and ``dead_letters`` with the reason for each."""
        return _Outputs(self.default_label(), self._renamed)

    def _renamed(self, dialogues: beam.PCollection[Dialogue]) -> Any:
        rename_each = beam.ParDo(_Rename(self.variants, self.known))
        return dialogues | "Rename" >> rename_each.with_outputs(DEAD_LETTERS, main="dialogues")


class _Rename(beam.DoFn):
    def __init__(self, variants: Sequence[Variant], known: Known) -> None:
        super().__init__()
        self.variants, self.known = variants, known

    def process(self, dialogue: Dialogue) -> Iterator[tuple[str, Dialogue] | TaggedOutput]:
        try:
            typed(dialogue)
        except InputError as error:
            yield _refused(dialogue, error)
            return
        for variant in self.variants:
            try:
                renamed = rename(variant, places_of(_copied(dialogue), self.known))  # in place
            except InputError as error:
                yield _refused(dialogue, error, variant=variant.name)
            else:
                yield variant.name, renamed


@with_output_types(dict[str, dict[str, float]])
class ScoreStates(beam.PTransform):
    """Scores predicted dialogue states against references, two PCollections of dialogues joined by ``dialogue_id``.

    The input is ``{"references": ..., "predictions": ...}`` or a pair. Predictions are dialogues whose frames have the
    predicted states, or dicts ``{"dialogue_id", "turn", "service", "state"}``. The result is a PCollection of one dict,
    the ``metrics`` of ``parapet.score_states``: for each aggregate (``#ALL_SERVICES``, ``#SEEN_SERVICES``, each
    service, each domain) the mean of each metric.

    A dialogue without predictions, or predictions without a dialogue, fail the pipeline with an ``InputError``. With
    ``official=True`` they are skipped, as SGD's script does, and counted in the Beam counters ``missing_dialogues``,
    ``missing_turns`` and ``unknown_slots``.

    Args:
      corpus: the corpus whose schemas the dialogues follow, or anything that ``parapet.load_corpus`` accepts. By
        default, the bundled sample.
      split: the split whose schemas the dialogues follow; all splits by default.
      seen: the names of the services that count as seen in training; by default, those of the corpus's split ``train``.
      fuzzy: match the values of non-categorical slots fuzzily, as SGD's script does; otherwise exactly.
      across_turn: joint accuracies are products over the frames of a turn, as in the evaluation of MultiWOZ.
      official: skip what SGD's script skips.

    Raises:
      InputError: there is no such corpus or split.

    Example:
      >>> import apache_beam as beam, parapet
      >>> corpus = parapet.load_corpus()
      >>> with beam.Pipeline() as pipeline:
      ...     references = pipeline | "References" >> beam.Create(list(corpus.dialogues("test")))
      ...     predictions = pipeline | "Predictions" >> beam.Create(list(corpus.dialogues("test")))
      ...     metrics = (references, predictions) | parapet.beam.ScoreStates(corpus=corpus, split="test")
      ...     _ = metrics | beam.Map(lambda metrics: print(metrics["#ALL_SERVICES"]["joint_goal_accuracy"]))
      1.0
    """

    def __init__(
        self,
        *,
        corpus: Corpus | str | Path | None = None,
        split: str | None = None,
        seen: Iterable[str] | None = None,
        fuzzy: bool = True,
        across_turn: bool = False,
        official: bool = False,
    ) -> None:
        super().__init__()
        opened = corpus_from(corpus)
        services = [parse_service(service) for service in opened.services(split)]
        if seen is None:
            seen = [s["service_name"] for s in opened.services("train")] if "train" in opened.splits else []
        slots = {service.service_name: slots_of(service) for service in services}
        self.scoring = _Scoring(slots, frozenset(seen), ScoreConfig(fuzzy, official), across_turn)

    def expand(self, dialogues: Any) -> beam.PCollection[dict[str, dict[str, float]]]:
        """Maps a dict or pair of PCollections to a PCollection of one dict of metrics."""
        if not isinstance(dialogues, Mapping):
            dialogues = dict(zip((REFERENCES, PREDICTIONS), dialogues, strict=True))
        keyed = {
            name: dialogues[name] | f"Id of {name}" >> _keyed_dialogues(name) for name in (REFERENCES, PREDICTIONS)
        }
        return (
            keyed
            | "By dialogue" >> beam.CoGroupByKey()
            | "Score" >> beam.ParDo(_ScoreDialogue(self.scoring))
            | "Add up" >> beam.CombineGlobally(_Mean())
        )


class _Scoring(msgspec.Struct, frozen=True):
    slots: dict[str, Slots]
    seen: frozenset[str]
    settings: ScoreConfig
    across_turn: bool


def _keyed_dialogues(name: str) -> beam.PTransform:
    by_dialogue_id = beam.Map(partial(_with_id, name))
    return by_dialogue_id.with_input_types(Dialogue).with_output_types(tuple[str, Dialogue])


def _with_id(name: str, dialogue: Dialogue) -> tuple[str, Dialogue]:
    dialogue_id = dialogue.get("dialogue_id") if isinstance(dialogue, Mapping) else None
    if not isinstance(dialogue_id, str):
        raise InputError("a dialogue has no dialogue_id", name)
    return dialogue_id, dialogue


class _ScoreDialogue(beam.DoFn):
    """Maps (id, its references and predictions) to the sums of its metrics."""

    def __init__(self, scoring: _Scoring) -> None:
        super().__init__()
        self.scoring = scoring

    def process(self, element: tuple[str, Mapping[str, Iterable[Dialogue]]]) -> Iterator[Totals]:
        (name, groups), scoring = element, self.scoring
        references = dialogues_in_memory(groups[REFERENCES], f"{REFERENCES} {name}")
        place = f"{PREDICTIONS} {name}"
        dialogues = as_dialogues(references, predictions_in_memory(groups[PREDICTIONS], place), place)
        if not scoring.settings.official:
            check_known(references, dialogues, PREDICTIONS)
        passed = PassedOver()
        scored = list(score_dialogues(references, dialogues, scoring.slots, scoring.settings, PREDICTIONS, passed))
        for counter, number in msgspec.structs.asdict(passed).items():
            Metrics.counter("parapet", counter).inc(number)
        if scored:
            yield add_up(scored, scoring.seen, scoring.across_turn)


class _Mean(beam.CombineFn):
    """Averages sums of metrics; exact in any order, as all sums are of whole numbers."""

    def create_accumulator(self) -> Totals:
        return {}

    def add_input(self, accumulator: Totals, sums: Totals) -> Totals:
        return merged([accumulator, sums])

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        return merged(accumulators)

    def extract_output(self, accumulator: Totals) -> dict[str, dict[str, float]]:
        return means(accumulator)
