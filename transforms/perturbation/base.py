"""An exact share of all turns of a corpus, in random order.

Each turn has a key, a hash of its identity; the share is the turns whose keys are lowest. One number decides: the
highest key that is taken, the threshold. So the same turns are taken however they are divided among files and workers,
and a smaller share is part of a larger one. All keys of a group are sorted in memory, some 20 bytes a turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import Corpus, Item, items_of
from parapet.transforms.perturbation.metrics import CHANGES, Metric, Numbers
from parapet.transforms.running.counts import Balance, Counted, Counts, Invariant
from parapet.transforms.running.fence import calling
from parapet.transforms.running.seeding import key_of, seed_text

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturbation import Command
    from parapet.transforms.reports.report import Example, Report
    from parapet.transforms.running.counts import Tally
    from parapet.transforms.running.plugins import Chosen
    from parapet.transforms.running.runs import Outputs


# Some turns, such as those of a file: how many there are, of which the share is one,
# and the keys of those that may be taken.
Keys = tuple[int, Sequence[bytes]]


def size_of(rate: str, turns: int) -> int:
    """``round(rate × turns)``, halves up; the rate as it was written, since 0.1 has no exact float."""
    return int((Decimal(rate) * turns).quantize(Decimal(1), ROUND_HALF_UP))


def level_of(key: bytes, thresholds: Sequence[bytes]) -> int:
    """The smallest share, from 1, that has the turn; 0 where none has."""
    return next((i for i, threshold in enumerate(thresholds, 1) if key <= threshold), 0)


def thresholds(parts: Iterable[Keys], rates: Sequence[str]) -> list[bytes]:
    """The threshold of each rate, empty where no key is taken; of more turns than there are keys it is the last key.

    Args:
      parts: all turns.
      rates: as they were written.
    """
    turns, ordered = 0, list[bytes]()
    for n, keys in parts:
        turns += n
        ordered += keys
    ordered.sort()
    sizes = [min(size_of(rate, turns), len(ordered)) for rate in rates]
    return [ordered[size - 1] if size else b"" for size in sizes]


def thresholds_of(keys: beam.PCollection, rates: Sequence[str]) -> beam.PCollection:
    """The threshold of each rate in each group: splits, for example.

    Args:
      keys: PCollection of (group, Keys): of files, or other parts of the corpus.
      rates: as they were written.

    Returns:
      PCollection of (group, list of thresholds).
    """
    import apache_beam as beam

    grouped = keys | "Gather" >> beam.GroupByKey()
    return grouped | "Thresholds" >> beam.MapTuple(lambda group, parts: (group, thresholds(parts, rates)))


Place = tuple[str, int]  # of a dialogue: its file below the root, its position there
States = Mapping[Place, Any]
Shared = Mapping[str, Mapping[Any, Any]]  # what all dialogues share of an analysis, by name
REFUSED = ".refused"  # among the side inputs of an analysis, beside the names of what is shared
Texts = str | float | Sequence[str | float]  # an option of several values: a list, or comma-separated

# The rows of a perturbation that declares no others: a row for each turn that it changed.
CHANGED_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("original", pa.string(), nullable=False),
        pa.field("utterance", pa.string(), nullable=False),
    ]
)


class Perturbed(NamedTuple):
    """The result of a perturbation for one dialogue.

    Attributes:
      dialogue: the perturbed dialogue, in the SGD format. The original is left as it was.
      rows: what was changed: dicts with the columns of the perturbation's ``row_schema``.
    """

    dialogue: dict[str, Any]
    rows: Sequence[dict[str, Any]] = ()


class Detailed(Perturbed):
    """The same with what a run of whole files takes besides.

    Attributes:
      counts: numbers of this dialogue: a name, or a name and a value (a reason, an operation), to a number. They are
        summed by set and split; the perturbation's ``metrics`` say how they read on the page.
      problems: turns or values that could not be perturbed and are unchanged, for the dead letters: ``where`` is the
        place in the dialogue.
      shown: what may be shown of it on the page, as :meth:`Perturbation.example` takes it; None: its rows.
      files: further files, as (path below the output, bytes).
      others: further outputs of the pipeline, by tag: each value becomes an element (set, split, value).
    """

    counts: Mapping[Counted, int]
    problems: Sequence[InputError]
    shown: Sequence[dict[str, Any]] | None
    files: Sequence[tuple[str, bytes]]
    others: Mapping[str, Sequence[Any]]

    def __new__(
        cls,
        dialogue: dict[str, Any],
        rows: Sequence[dict[str, Any]] = (),
        *,
        counts: Mapping[Counted, int] = {},
        problems: Sequence[InputError] = (),
        shown: Sequence[dict[str, Any]] | None = None,
        files: Sequence[tuple[str, bytes]] = (),
        others: Mapping[str, Sequence[Any]] = {},
    ) -> Detailed:
        """A result with these details."""
        self = super().__new__(cls, dialogue, rows)
        self.counts, self.problems, self.shown, self.files, self.others = counts, problems, shown, files, others
        return self


class Analysis(NamedTuple):
    """What a perturbation computes from the whole corpus before it perturbs a dialogue.

    Attributes:
      states: PCollection of ((file.relative, position in the file), state): a state of each dialogue.
      shared: name to PCollection of (key, value): what all dialogues share, small enough for each worker.
      reported: name to PCollection of values that :meth:`Perturbation.statistics` needs.
      counts: PCollection of (CountKey as a tuple, n), added to those of the run.
      dead_letters: PCollection of (key, list of DeadLetter), added to those of the run.
      files: PCollection of (path below the output, bytes), added to the files of the run.
      others: what :meth:`Perturbation.finish` needs, by name.
      refused: PCollection of ((file.relative, position in the file), InputError): dialogues of which the analysis could
        make nothing. No set has them; whoever writes the sets makes their dead letters.
    """

    states: beam.PCollection | None = None
    shared: Mapping[str, beam.PCollection] = {}
    reported: Mapping[str, beam.PCollection] = {}
    counts: beam.PCollection | None = None
    dead_letters: beam.PCollection | None = None
    files: beam.PCollection | None = None
    others: Mapping[str, beam.PCollection] = {}
    refused: beam.PCollection | None = None

    def side_inputs(self) -> dict[str, beam.PCollection]:
        """What all workers get: what dialogues share, and under ``REFUSED`` the refused ones."""
        return {**self.shared, **({} if self.refused is None else {REFUSED: self.refused})}


class Perturbation:
    """The base class of perturbations. A subclass needs a ``name`` and a method :meth:`perturb`; the rest has defaults.

    The keyword arguments of ``__init__`` are the options. ``parapet.perturb`` takes a class or an instance; a package
    that registers the class as an entry point of the group ``parapet.perturbations`` makes it available by name.

    Attributes:
      name: the name of the perturbation.
      command: how it is run from the command line; None: its flags are made of its options.
      row_schema: the Arrow schema of the rows that record what was changed.
      rows_folder: the folder, below that of a set, to which the rows are written.
      metrics: what is counted, and how it reads on the page. ``CHANGES`` are counted of themselves.
      tables: the tables of the page, of what ``statistics.json`` has; None: of ``metrics``.
      title: the title of the card; empty: the name.
      terms: words that the page explains, with their meaning.
      links: further files of a run, with what is in them.
      in_folders: whether each set has a folder of its own, or the only set is the output folder itself.
      shown: how many examples of a set the page shows.
      keeps_turns: whether dialogues keep their turns, speakers and services. Where a plug-in's class says so, dialogues
        that do not are left out.
      keeps_empty_files: whether a dialogue file of which a set has no dialogue is written, as an empty list.
      other_outputs: the tags of further outputs of the pipeline, see ``Detailed.others``.
      analyzes_dialogues: whether :meth:`analyze` reads the dialogues that it gets. One that reads the corpus that
        :meth:`fit` got, and that all dialogues share, gets none.
      analyzes_all_splits: whether a command analyzes all splits of the corpus, not only those that it perturbs.
      kept: what of a run that fails is kept, for messages.
      splits: the folders of the splits that are perturbed, where :meth:`fit` gets others, too; none: all.
      max_bad: the share of the records of the analysis that may be bad, where no command's ``--max_bad`` says it.
      seed: the random seed, as text.

    Example:
      >>> import parapet
      >>> class Shout(parapet.Perturbation):
      ...     '''Users who type in capitals.'''
      ...
      ...     name = "shout"
      ...
      ...     def perturb(self, dialogue, set_name, state):
      ...         turns, rows = [], []
      ...         for i, turn in enumerate(dialogue["turns"]):
      ...             if turn["speaker"] == "USER":
      ...                 shouted = {**turn, "utterance": turn["utterance"].upper()}
      ...                 rows.append(parapet.changed_turn(dialogue, i, shouted))
      ...                 turn = shouted
      ...             turns.append(turn)
      ...         return parapet.Perturbed({**dialogue, "turns": turns}, rows)
      >>> corpus = parapet.perturb(parapet.load_corpus(), Shout())
      >>> next(corpus.dialogues("test"))["turns"][0]["utterance"].isupper()
      True
    """

    name: ClassVar[str]
    command: ClassVar[Command | None] = None
    row_schema: ClassVar[pa.Schema] = CHANGED_TURNS
    rows_folder: ClassVar[str] = "turns"
    metrics: ClassVar[Sequence[Metric]] = CHANGES
    tables: ClassVar[Sequence[Numbers] | None] = None
    title: ClassVar[str] = ""
    terms: ClassVar[Mapping[str, str]] = {}
    links: ClassVar[Mapping[str, str]] = {}
    in_folders: ClassVar[bool] = True
    shown: ClassVar[int] = 12
    keeps_turns: ClassVar[bool] = True
    keeps_empty_files: ClassVar[bool] = True
    other_outputs: ClassVar[Sequence[str]] = ()
    analyzes_dialogues: ClassVar[bool] = True
    analyzes_all_splits: ClassVar[bool] = False

    kept = ""
    splits: Sequence[str] = ()
    max_bad = Fraction(0)

    def __init__(self, *, seed: int | str = 0) -> None:
        self.seed = seed_text(seed)

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets it makes. Most perturbations make one; those with rates make one for each rate."""
        return (self.name,)

    # What a perturbation does: one must be defined, perturb.

    def fit(self, corpus: Corpus) -> None:
        """Learns from the corpus, for example its schemas or the values seen in training. The default does nothing.

        Called once, on the machine that starts the run, before anything is perturbed. The instance is then pickled and
        sent to the workers.
        """

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, Any]] | Analysis:
        """Computes a state for each dialogue from the whole corpus. Needed for exact rates, for example.

        Args:
          files: the dialogue files. ``parapet.transforms.perturbation.corpora.dialogues_of`` reads one.

        Returns:
          PCollection of ((file.relative, position in the file), state), or an :class:`Analysis` with more than that. A
          dialogue without a state gets None.
        """
        raise NotImplementedError

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """Perturbs one dialogue. Must be a pure function of its arguments, the options and the seed.

        Args:
          dialogue: the dialogue in the SGD format. Do not modify it: return a new one.
          set_name: which of :attr:`sets` is being made.
          state: the state of this dialogue, see :meth:`state_of`; None if nothing was analyzed.

        Raises:
          InputError: the dialogue cannot be perturbed. ``where`` is the place in the dialogue.
        """
        raise NotImplementedError

    def random(self, *key: str | int) -> Random:
        """Random numbers that depend on the seed, the perturbation's name and a key, and on nothing else.

        Args:
          key: what they are for, usually the dialogue's id and the turn's position.

        Example:
          >>> import parapet
          >>> typos = parapet.perturbations()["typos"](seed=1)
          >>> typos.random("1_00000", 0).random() == typos.random("1_00000", 0).random()
          True
        """
        return Random(key_of(self.seed, self.name, *map(str, key)))  # noqa: S311 (no secret)

    # What the drivers ask besides. The defaults are right for most perturbations.

    def items(self, file: DialogueFile) -> Iterator[Item]:
        """The dialogues of a file, each with the error that makes it unusable, if any.

        Raises:
          InputError: the file cannot be read; possibly after some of its dialogues.
        """
        return items_of(file)

    def state_of(self, place: Place, state: Any, shared: Shared) -> Any:
        """The state that :meth:`perturb` gets.

        Args:
          place: of the dialogue.
          state: of this dialogue, from the analysis; None if it has none.
          shared: what all dialogues share, by name.
        """
        return state

    def perturb_sets(self, item: Item, state: Any) -> Iterator[tuple[str, Perturbed | InputError]]:
        """A dialogue in every set, or why one cannot have it. To be overridden where sets share work.

        Each result is written before the next is asked for.

        Raises:
          InputError: no set can have the dialogue.
        """
        with calling():
            results = [(name, self.perturb(item.raw, name, state)) for name in self.sets]
        return iter(results)

    def open(self) -> None:
        """Called on each worker before it perturbs anything, for example to start a program. See :meth:`close`."""

    def close(self) -> None:
        """Called on each worker at the end."""

    def row_sets(self) -> Sequence[str]:
        """The sets whose rows are written: all, unless one set has the rows of others, too."""
        return self.sets

    def schema_files(self, corpus: Corpus) -> list[tuple[str, bytes]]:
        """The schema files of the sets, as (path below the output, content): those of the corpus, by default."""
        folders = [f"{name}/" for name in self.sets] if self.in_folders else [""]
        return [(f"{folder}{path}", content) for folder in folders for path, content in corpus.schemas]

    def finish(self, outputs: Outputs, analysis: Analysis) -> Outputs:
        """Adds to the outputs of a run, once all dialogues are perturbed. The default adds nothing."""
        return outputs

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Records besides files and dialogues that may be bad, up to ``--max_bad``."""
        return []

    def tallies(self, counts: Counts) -> list[Tally]:
        """All records that may be bad, up to ``--max_bad``."""
        from parapet.transforms.running.counts import of_dialogues

        return [*of_dialogues(counts), *self.analysis_tallies(counts)]

    def invariants(self) -> Sequence[Invariant]:
        """What must hold of the counts before anything is published: every dialogue is in every set or left out."""
        return (Balance("dialogues", ("dialogues",), self.sets, shared=("left_out",)),)

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The content of ``statistics.json``, by default the metrics of each set.

        Args:
          counts: summed over all dialogues.
          reported: what the analysis reports, by name.
        """
        from parapet.transforms.perturbation.report import statistics_of

        return statistics_of(self, counts)

    def example(self, shown: Mapping[str, Any]) -> Example:
        """An example for the page, of what ``Detailed.shown`` has, or of a row."""
        from parapet.transforms.perturbation.report import example_of

        return example_of(shown)

    def report(
        self, statistics: Mapping[str, Any], examples: Mapping[str, Sequence[Example]], options: Mapping[str, object]
    ) -> Report:
        """The page and the card of a run, by default tables of the metrics.

        Args:
          statistics: see :meth:`statistics`.
          examples: by set.
          options: the options that shape the content.
        """
        from parapet.transforms.perturbation.report import report_of

        return report_of(self, statistics, examples, options)

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """What a run prints, line by line: by default the numbers of the first table that are to be shown first.

        Args:
          statistics: see :meth:`statistics`.
        """
        from parapet.transforms.perturbation.report import lines_of

        own = type(self).statistics is Perturbation.statistics or self.tables is not None
        return lines_of(self, statistics) if own else iter(())

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """What must be known before the numbers are used: the page shows it first, the command warns of it."""
        return iter(())

    # What the command asks besides.

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Perturbation:
        """An object of the flags of a command: by default, each is the argument of its name.

        Args:
          flags: the values of all flags of the command, its output too.
        """
        taken = inspect.signature(cls).parameters
        given = {name: value for name, value in flags.items() if value is not None and value is not False}
        options = {name: value for name, value in given.items() if name in taken}
        return cls(**options)

    def remarks(self) -> Iterator[tuple[int, str]]:
        """Messages about what :meth:`fit` has learned, with their levels (``logging.WARNING``)."""
        return iter(())

    def recorded_options(self) -> Mapping[str, object]:
        """What ``run.json`` says of the options, beyond the flags as they were given or instead of them."""
        return {}

    def plugins_used(self) -> Sequence[Chosen | None]:
        """The plug-ins that take part, besides the one that brings the class."""
        return ()

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """(flag, place) of the files besides the corpus that workers read."""
        return ()

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """What ``--dry_run`` prints: what perturbing these files would cost."""
        return iter(())

    def metadata_files(self, statistics: Mapping[str, Any], reported: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """Further files that are made of the numbers, by path below the output; as :meth:`statistics` has them."""
        return {}

    def needs_analysis(self) -> bool:
        """Whether :meth:`analyze` is to be run: where it is defined."""
        return type(self).analyze is not Perturbation.analyze

    def needs_corpus(self) -> bool:
        """Whether :meth:`fit` is to be run: where it is defined."""
        return type(self).fit is not Perturbation.fit


def analysis_of(perturbation: Perturbation, files: beam.PCollection[DialogueFile]) -> Analysis:
    """The analysis of a corpus; an empty one where the perturbation needs none."""
    if not perturbation.needs_analysis():
        return Analysis()
    analysis = perturbation.analyze(files)
    return analysis if isinstance(analysis, Analysis) else Analysis(analysis)


def checked_analysis(perturbation: Perturbation, files: beam.PCollection[DialogueFile]) -> Analysis:
    """The same, where nobody takes its dead letters: the pipeline fails where there are too many."""
    from parapet.transforms.running.runs import check_dead_letters

    analysis = analysis_of(perturbation, files)
    if analysis.dead_letters is not None and analysis.counts is not None:
        tallies, max_bad = perturbation.analysis_tallies, perturbation.max_bad
        check_dead_letters(analysis.dead_letters, analysis.counts, tallies, max_bad)
    return analysis


def changed_turn(dialogue: Mapping[str, Any], position: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the default ``row_schema``: the utterance of a turn before and after.

    Args:
      dialogue: the original dialogue.
      position: the position of the turn, from 0.
      turn: the perturbed turn.

    Example:
      >>> import parapet
      >>> dialogue = {"dialogue_id": "1_00000", "turns": [{"utterance": "Hello."}]}
      >>> parapet.changed_turn(dialogue, 0, {"utterance": "HELLO."})
      {'dialogue_id': '1_00000', 'turn': 0, 'original': 'Hello.', 'utterance': 'HELLO.'}
    """
    original = dialogue["turns"][position]["utterance"]
    row = {"dialogue_id": dialogue["dialogue_id"], "turn": position, "original": original}
    return {**row, "utterance": turn["utterance"]}


def comma_separated(values: Texts | Mapping[str, object]) -> str:
    """An option of several values as its flag has it: ``0.1,0.5``, ``word=0.2``."""
    if isinstance(values, Mapping):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return str(values) if isinstance(values, str | int | float) else ",".join(map(str, values))


def share_of(share: float | Fraction, option: str) -> Fraction:
    """A share as it is written, 0 to 1. Raises InputError for anything else."""
    if not isinstance(share, int | float | Fraction) or not 0 <= share <= 1:
        shown = f"{share:g}" if isinstance(share, int | float) else repr(share)
        raise InputError(f"{shown} is not a number between 0 and 1", option)
    return Fraction(str(share))


def set_of(perturbation: Perturbation, set_name: str | None) -> str:
    """The set that is meant. Raises InputError where that is unclear, or there is no such set."""
    sets = perturbation.sets
    if set_name is None and len(sets) > 1:
        raise InputError(
            f"{perturbation.name} makes {len(sets)} sets: set_name is required and must be one of {', '.join(sets)}"
        )
    if set_name is not None and set_name not in sets:
        raise InputError(f"{perturbation.name} makes no set {set_name!r}: must be one of {', '.join(sets)}")
    return set_name or sets[0]
