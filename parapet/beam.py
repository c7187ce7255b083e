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
from dataclasses import dataclass
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
from parapet.evaluation.dst import frames
from parapet.schemas.dialogue import DialogueFile, dialogue_text, file_bytes, typed
from parapet.schemas.errors import InputError, UserCodeError
from parapet.schemas.layout import services_by_name
from parapet.schemas.service import parse_service
from parapet.transforms.core.counts import DeadLetter, dead_dialogue, id_of
from parapet.transforms.core.fence import bad_record
from parapet.transforms.crowd.compose import Compose, Rank
from parapet.transforms.crowd.ingest import Dedupe, ReadAnswers
from parapet.transforms.crowd.vet import Vet
from parapet.transforms.perturb.apply import Analyzed, Services, options_named, perturbation_of
from parapet.transforms.perturb.base import Perturbation, check_analysis, set_of
from parapet.transforms.perturb.corpora import Corpus, Item, read_items
from parapet.transforms.perturb.files import Element, with_states
from parapet.transforms.variants.matching import Known, Variant
from parapet.transforms.variants.perturbation import Places, renamed_corpora

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


class _OfDialogues(beam.PTransform):
    """A transform of dialogues, some of which may become dead letters."""

    def expand(self, dialogues: beam.PCollection[Dialogue]) -> beam.PCollection:
        """Returns the results; the first dead letter fails the pipeline."""
        outputs = self._outputs(dialogues)
        _ = outputs.dead_letters | "Fail" >> beam.Map(_fail)
        return outputs.dialogues

    def with_outputs(self) -> beam.PTransform:
        """Returns the same transform with the outputs ``dialogues``, ``dead_letters`` (those that cannot be used, with
        the reason) and, for ``Perturb``, ``rows`` (dicts with the columns of the perturbation's ``row_schema``).

        Example:
          >>> import apache_beam as beam, parapet
          >>> with beam.Pipeline() as pipeline:
          ...     dialogues = pipeline | beam.Create([{"dialogue_id": "1"}])
          ...     outputs = dialogues | parapet.beam.Perturb("typos").with_outputs()
          ...     _ = outputs.dead_letters | beam.Map(lambda letter: print(letter.dialogue_id, letter.reason))
          1 not_sgd: Object missing required field `services`
        """
        return self.default_label() >> beam.ptransform_fn(self._outputs)().with_input_types(Dialogue)

    def _outputs(self, dialogues: beam.PCollection[Dialogue]) -> Any:
        raise NotImplementedError


@with_input_types(Dialogue)
@with_output_types(Dialogue)
class Perturb(_OfDialogues):
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

    def _outputs(self, dialogues: beam.PCollection[Dialogue]) -> Any:
        files = dialogues | "As files" >> beam.FlatMap(_as_file).with_outputs(DEAD_LETTERS, main="files")
        elements, analysis = with_states(files.files, self.perturbation)
        check_analysis(self.perturbation, analysis)
        perturb = _Perturb(self.perturbation, self.set_name, self.services, tuple(analysis.shared))
        each = beam.ParDo(perturb, *map(beam.pvalue.AsDict, analysis.shared.values()))
        perturbed = elements | "Perturb" >> each.with_outputs(ROWS, DEAD_LETTERS, main="dialogues")
        dead_letters = (files[DEAD_LETTERS], perturbed[DEAD_LETTERS]) | "All dead letters" >> beam.Flatten()
        return _Perturbed(perturbed.dialogues, perturbed[ROWS], dead_letters)


class _Perturbed(NamedTuple):
    dialogues: beam.PCollection
    rows: beam.PCollection
    dead_letters: beam.PCollection


def _fail(letter: DeadLetter) -> None:
    raise InputError(letter.reason, f"dialogue {letter.dialogue_id}", letter.where)


def _refused(dialogue: Any, error: Exception, code: object = None, variant: str = "") -> TaggedOutput:
    """Makes the dead letter of a dialogue. Raises the exception if the dialogue is not its cause."""
    file = DialogueFile("", "", "", 0)
    return TaggedOutput(DEAD_LETTERS, dead_dialogue(file, id_of(dialogue, 0), bad_record(error, code), variant))


def _as_file(dialogue: Dialogue) -> Iterator[Any]:
    """Turns a dialogue into a file that contains only it and has its name."""
    try:
        typed(dialogue)
        content = file_bytes([dialogue_text(dialogue)])
    except InputError as error:
        yield _refused(dialogue, error)
    else:
        name = id_of(dialogue, 0)
        yield DialogueFile("", name, f"dialogue {name}", len(content), content)


@dataclass
class _Perturb(beam.DoFn):
    """Perturbs files of one dialogue each, with the states of the analysis and its shared data, which have names."""

    perturbation: Perturbation
    set_name: str
    services: Services | None
    names: Sequence[str]

    def default_type_hints(self) -> IOTypeHints:
        """Returns no hints, since Beam would apply those of ``*shared`` to each side input."""
        return IOTypeHints.empty().with_output_types(beam.typehints.Dict[str, Any])

    def process(self, element: Element, *shared: Mapping[Any, Any]) -> Iterator[Dialogue | TaggedOutput]:
        file, states = element
        (dialogue,) = read_items(file)
        analyzed = Analyzed(self.perturbation, states, dict(zip(self.names, shared, strict=True)))
        try:
            ((_, result),) = analyzed.results(file.relative, Item(0, dialogue), self.services, self.set_name)
        except UserCodeError:
            raise
        except Exception as error:
            yield _refused(dialogue, error, self.perturbation)
            return
        yield result.dialogue
        yield from (TaggedOutput(ROWS, row) for row in result.rows)


@with_input_types(Dialogue)
@with_output_types(tuple[str, Dialogue])
class ApplyVariants(_OfDialogues):
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
        for name, renamed in renamed_corpora(original, variants, names).items():
            variant = Variant(name, {}, {})
            for folder in original.folders_of(split):
                variant.names.update(renamed.names[folder].names)
                variant.bad.update(renamed.names[folder].bad)
                self.known |= renamed.known[folder]
            for service in variant.names.keys() & variant.bad.keys():  # it has a match in another split
                del variant.bad[service]
            self.variants.append(variant)

    def _outputs(self, dialogues: beam.PCollection[Dialogue]) -> Any:
        rename_each = beam.FlatMap(_renamed, self.variants, self.known)
        return dialogues | "Rename" >> rename_each.with_outputs(DEAD_LETTERS, main="dialogues")


def _renamed(dialogue: Dialogue, variants: Sequence[Variant], known: Known) -> Iterator[Any]:
    try:
        typed(dialogue)
    except InputError as error:
        yield _refused(dialogue, error)
        return
    for variant in variants:
        try:
            # Renames in place, which must not affect other steps; pickle is faster than deepcopy.
            copy = pickle.loads(pickle.dumps(dialogue, pickle.HIGHEST_PROTOCOL))  # noqa: S301 (written here)
            renamed = Places(copy, known).rename(variant)
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
        slots = {service.service_name: frames.slots_of(service) for service in services}
        self.scoring = (slots, frozenset(seen), frames.ScoreConfig(fuzzy, official), across_turn)

    def expand(self, dialogues: Any) -> beam.PCollection[dict[str, dict[str, float]]]:
        """Maps a dict or pair of PCollections to a PCollection of one dict of metrics."""
        if not isinstance(dialogues, Mapping):
            dialogues = dict(zip((REFERENCES, PREDICTIONS), dialogues, strict=True))
        keyed = {}
        for name in (REFERENCES, PREDICTIONS):
            by_id = beam.Map(partial(_with_id, name)).with_input_types(Dialogue)
            keyed[name] = dialogues[name] | f"Id of {name}" >> by_id.with_output_types(tuple[str, Dialogue])
        return (
            keyed
            | "By dialogue" >> beam.CoGroupByKey()
            | "Score" >> beam.FlatMap(_totals, *self.scoring)
            | "Add up" >> beam.CombineGlobally(frames.merged)  # exact in any order, as all sums are of whole numbers
            | "Means" >> beam.Map(frames.means)
        )


def _with_id(name: str, dialogue: Dialogue) -> tuple[str, Dialogue]:
    dialogue_id = dialogue.get("dialogue_id") if isinstance(dialogue, Mapping) else None
    if not isinstance(dialogue_id, str):
        raise InputError("a dialogue has no dialogue_id", name)
    return dialogue_id, dialogue


def _totals(
    element: tuple[str, Any],
    slots: dict[str, frames.Slots],
    seen: frozenset[str],
    settings: frames.ScoreConfig,
    across_turn: bool,
) -> Iterator[Any]:
    """Maps (id, its references and predictions) to the sums of its metrics."""
    name, groups = element
    references = frames.dialogues_in_memory(groups[REFERENCES], f"{REFERENCES} {name}")
    place = f"{PREDICTIONS} {name}"
    dialogues = frames.as_dialogues(references, frames.predictions_in_memory(groups[PREDICTIONS], place), place)
    if not settings.official:
        frames.check_known(references, dialogues, PREDICTIONS)
    passed = frames.PassedOver()
    scored = list(frames.score_dialogues(references, dialogues, slots, settings, PREDICTIONS, passed))
    for counter, number in msgspec.structs.asdict(passed).items():
        Metrics.counter("parapet", counter).inc(number)
    if scored:
        yield frames.add_up(scored, seen, across_turn)
