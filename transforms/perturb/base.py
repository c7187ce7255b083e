"""The base class of perturbations, what it returns, and the analysis of a corpus before it is perturbed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.core import fence, progress, seeding
from parapet.transforms.core.counts import (
    Balance,
    Counted,
    Counts,
    DeadLetter,
    Invariant,
    dead_dialogue,
    dead_file,
    id_of,
    of_dialogues,
)
from parapet.transforms.perturb import corpora, page
from parapet.transforms.report.numbers import Numbers

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.core.counts import Tally
    from parapet.transforms.core.plugins import Chosen


Place = tuple[str, int]  # of a dialogue: its file below the root, its position in the file
States = Mapping[Place, Any]
Shared = Mapping[str, Mapping[Any, Any]]  # name to data of an analysis shared by all dialogues
REFUSED = ".refused"  # name of shared data: the dialogues that the analysis could not process
DEAD_LETTERS = "dead_letters"
Texts = str | float | Sequence[str | float]  # an option with several values: a list, or comma-separated

# The default rows of a perturbation: one for each changed turn.
CHANGED_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("original", pa.string(), nullable=False),
        pa.field("utterance", pa.string(), nullable=False),
    ]
)


class Perturbed(NamedTuple):
    """The result of a perturbation for one dialogue. Most perturbations only need the first two.

    Attributes:
      dialogue: the perturbed dialogue, in the SGD format. The original must not be modified.
      rows: the changes: dicts with the columns of the perturbation's ``row_schema``.
      counts: numbers for this dialogue: a name, or a name and a value (a reason, an operation), to a number. They are
        summed by set and split.
      problems: turns or values that could not be perturbed and are unchanged, for the dead letters: ``where`` is the
        place in the dialogue.
      files: further files, as (path below the output, bytes).
    """

    dialogue: dict[str, Any]
    rows: Sequence[dict[str, Any]] = ()
    counts: Mapping[Counted, int] = {}
    problems: Sequence[InputError] = ()
    files: Sequence[tuple[str, bytes]] = ()


class Analysis(NamedTuple):
    """What a perturbation computes from the whole corpus before it perturbs a dialogue.

    Attributes:
      states: PCollection of ((file.relative, position in the file), state), with a state for each dialogue.
      shared: name to PCollection of (key, value) shared by all dialogues, small enough for each worker. Those named
        ``REFUSED`` are ((file.relative, position in the file), InputError) of dialogues that the analysis could not
        process. They are in no set; the step that writes the sets makes their dead letters.
      counts: PCollection of (CountKey as a tuple, n), added to those of the run.
      dead_letters: PCollection of (key, list of DeadLetter), added to those of the run.
    """

    states: beam.PCollection | None = None
    shared: Mapping[str, beam.PCollection] = {}
    counts: beam.PCollection | None = None
    dead_letters: beam.PCollection | None = None


class Perturbation:
    """The base class of perturbations. A subclass needs a ``name`` and a method :meth:`perturb`; the rest has defaults.

    The keyword arguments of ``__init__`` are the options. ``parapet.perturb`` takes a class or an instance; a package
    that registers the class as an entry point of the group ``parapet.perturbations`` makes it available by name.

    Attributes:
      name: the name of the perturbation.
      row_schema: the Arrow schema of the rows that record changes.
      rows_folder: the folder for the rows, below that of a set.
      tables: the tables of the page, from ``statistics.json``; if None, changed dialogues and turns are counted, and a
        table shows all counts.
      title: the title of the card; if empty, the name.
      known_odd: a line of the card on what is known to be odd in its sets.
      links: further files of a run, with their descriptions.
      languages: the languages that it knows, such as ``("en",)``; if empty, the language of the texts does not matter.
        Dialogues in others are kept as they are, and a run fails if they are most.
      in_folders: whether each set has its own folder; otherwise, the output folder is the only set.
      keeps_turns: whether dialogues keep their turns, speakers and services. For plug-ins that declare this, dialogues
        that do not are left out.
      needs_annotation: whether it needs schemas and states, so that it cannot perturb plain texts and chat messages.
      analyzes_dialogues: whether :meth:`analyze` reads the dialogues passed to it. If it only uses the corpus passed to
        :meth:`prepare`, it gets none.
      analyzes_all_splits: whether a command analyzes all splits of the corpus, not only those that it perturbs.
      splits: the folders of the splits to perturb, if :meth:`prepare` gets others, too; if empty, all.
      engines: the plug-ins that it uses, by flag.
      max_bad: maximum share of bad records in the analysis, unless a command has ``--max_bad``.
      seed: the random seed, as text.

    Example:
      >>> import parapet
      >>> class Shout(parapet.Perturbation):
      ...     '''Users who type in capitals.'''
      ...
      ...     name = "shout"
      ...
      ...     def perturb(self, dialogue, random):
      ...         for turn in dialogue["turns"]:
      ...             if turn["speaker"] == "USER" and random.random() < 0.5:
      ...                 turn["utterance"] = turn["utterance"].upper()
      ...         return dialogue
      >>> corpus = parapet.perturb(parapet.load_corpus(), Shout())
      >>> corpus.rows_of("test").to_pylist()[0]["utterance"]
      "I'D RATHER HAVE SOMEONE WHO DOES."
    """

    name: ClassVar[str]
    row_schema: ClassVar[pa.Schema] = CHANGED_TURNS
    rows_folder: ClassVar[str] = "turns"
    tables: ClassVar[Sequence[Numbers] | None] = None
    title: ClassVar[str] = ""
    known_odd: ClassVar[str] = ""
    links: ClassVar[Mapping[str, str]] = {}
    in_folders: ClassVar[bool] = True
    keeps_turns: ClassVar[bool] = True
    needs_annotation: ClassVar[bool] = False
    analyzes_dialogues: ClassVar[bool] = True
    analyzes_all_splits: ClassVar[bool] = False

    languages: Sequence[str] = ()
    splits: Sequence[str] = ()
    engines: Mapping[str, Chosen] = {}
    max_bad = Fraction(0)

    def __init__(self, *, seed: int | str = 0) -> None:
        self.seed = seeding.seed_text(seed)

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns the names of its sets. Most perturbations make one; those with rates make one for each rate."""
        return (self.name,)

    # The methods that define a perturbation; only perturb is required.

    def perturb(self, dialogue: dict[str, Any], random: Random) -> Perturbed | dict[str, Any]:
        """Perturbs one dialogue. Must be a pure function of its arguments and the options.

        Args:
          dialogue: a copy of the dialogue in the SGD format, which may be modified.
          random: depends on the seed, the perturbation's name and the dialogue's id alone.

        Returns:
          The perturbed dialogue, or :class:`Perturbed` with rows, counts and other outputs. Without rows, there is one
          for each turn with another utterance.

        Raises:
          InputError: the dialogue cannot be perturbed. ``where`` is the place in the dialogue.
        """
        raise NotImplementedError

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Learns from the corpus, for example its schemas or the values seen in training. The default does nothing.

        It is called once, on the machine that starts the run, before anything is perturbed. The instance is then
        pickled and sent to the workers.
        """

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, Any]] | Analysis:
        """Computes a state for each dialogue from the whole corpus, for example for exact rates.

        Args:
          files: the dialogue files; use ``parapet.transforms.perturb.corpora.dialogues_of`` to read one.

        Returns:
          PCollection of ((file.relative, position in the file), state), or an :class:`Analysis` with further outputs.
            Dialogues without a state get None.
        """
        raise NotImplementedError

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """Perturbs one dialogue for a set; by default with :meth:`perturb`.

        Override it in place of :meth:`perturb` if there are several sets, or the whole corpus is analyzed.

        Args:
          dialogue: the dialogue in the SGD format. Must not be modified: return a new one.
          set_name: the set of :attr:`sets` to make.
          state: the state of this dialogue, see :meth:`state_of`; None if nothing was analyzed.

        Raises:
          InputError: as :meth:`perturb`.
        """
        result = self.perturb(copy.deepcopy(dialogue), self.random(str(dialogue["dialogue_id"])))
        if isinstance(result, dict):
            result = Perturbed(result)
        if isinstance(result, Perturbed) and result.rows == () and self.row_schema is CHANGED_TURNS:
            return result._replace(rows=changed_turns(dialogue, result.dialogue))
        return result

    def random(self, *key: str | int) -> Random:
        """Returns a random number generator that depends only on the seed, the perturbation's name and a key.

        Args:
          key: the purpose, usually the dialogue's id and the turn's position.

        Example:
          >>> import parapet
          >>> typos = parapet.perturbations()["typos"](seed=1)
          >>> typos.random("1_00000", 0).random() == typos.random("1_00000", 0).random()
          True
        """
        return Random(seeding.key_of(self.seed, self.name, *map(str, key)))  # noqa: S311 (not a secret)

    # Further hooks. The defaults suit most perturbations.

    def state_of(self, place: Place, state: Any, shared: Shared) -> Any:
        """Returns the state to pass to :meth:`perturb`.

        Args:
          place: the place of the dialogue.
          state: the state of this dialogue from the analysis; None if it has none.
          shared: the data shared by all dialogues, by name.
        """
        return state

    def perturb_sets(self, item: corpora.Item, state: Any) -> Iterator[tuple[str, Perturbed | InputError]]:
        """Yields the dialogue in every set, or the error for a set. Override it if sets share work.

        Each result is written before the next one is requested.

        Raises:
          InputError: the dialogue cannot be perturbed for any set.
        """
        return iter([(name, self.perturb_set(item.raw, name, state)) for name in self.sets])

    def open(self) -> None:
        """Prepares a worker before it perturbs anything, for example by starting a program. See :meth:`close`."""

    def close(self) -> None:
        """Cleans up a worker at the end."""

    def row_sets(self) -> Sequence[str]:
        """Returns the sets whose rows are written: all, unless the rows of one set cover others."""
        return self.sets

    def schema_files(self, corpus: corpora.Corpus) -> dict[str, bytes]:
        """Returns the schema files of the sets, by path below the output; by default those of the corpus."""
        folders = [f"{name}/" for name in self.sets] if self.in_folders else [""]
        return {f"{folder}{path}": content for folder in folders for path, content in corpus.schemas}

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of bad records besides files and dialogues, which ``--max_bad`` limits."""
        return []

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of all bad records, which ``--max_bad`` limits."""
        return [*of_dialogues(counts), *self.analysis_tallies(counts)]

    def invariants(self) -> Sequence[Invariant]:
        """Returns checks on the counts before publishing: every dialogue must be in every set or left out."""
        return (Balance("dialogues", ("dialogues",), self.sets, shared=("left_out",)),)

    def statistics(self, counts: Counts) -> dict[str, Any]:
        """Returns the content of ``statistics.json``, by default the summed counts of each set."""
        return page.statistics_of(self, counts)

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yields notes to read before the numbers.

        The page shows them first, and the command prints them as warnings.
        """
        return iter(())

    # Further hooks of the command.

    def recorded_options(self) -> Mapping[str, object]:
        """Returns the options for ``run.json``, in addition to the flags as given, or replacing them."""
        return {}

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Returns (flag, path) of the files that workers read besides the corpus."""
        return ()

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """Yields the lines of ``--dry_run``: the cost of perturbing these files."""
        return iter(())

    def needs_analysis(self) -> bool:
        """Whether to run :meth:`analyze`: by default, if it is defined."""
        return type(self).analyze is not Perturbation.analyze

    def needs_corpus(self) -> bool:
        """Whether to run :meth:`prepare`: by default, if it is defined."""
        return type(self).prepare is not Perturbation.prepare


def analyze_dialogues(
    file: DialogueFile, analyze: Callable[[Dialogue, DialogueFile, int], Iterable[Any]], is_written: bool = True
) -> Iterator[Any]:
    """Yields what a function returns for each dialogue of a file, for :meth:`Perturbation.analyze`.

    Dialogues in other languages yield nothing. A file that cannot be read to its end yields only its error, at position
    -1.

    Args:
      file: the file.
      analyze: a function of a dialogue, its file, and its position in the file.
      is_written: whether a later step writes the file. If so, it reports what is bad, and errors are yielded as
        ((file, position), error) with the tag ``REFUSED``; otherwise, as (file, dead letters) with ``DEAD_LETTERS``.
    """
    from apache_beam.pvalue import TaggedOutput

    def tagged(position: int, bad: InputError, dead_letter: DeadLetter) -> TaggedOutput:
        if is_written:
            return TaggedOutput(REFUSED, ((file.relative, position), bad))
        return TaggedOutput(DEAD_LETTERS, (file.relative, [dead_letter]))

    results: list[Any] = []
    try:
        for position, raw, dialogue in progress.tracked(corpora.dialogues_of(file), "dialogues", progress.ANALYSIS):
            if isinstance(dialogue, corpora.OtherLanguage):
                continue
            try:
                if isinstance(dialogue, InputError):
                    raise dialogue
                results += [*analyze(dialogue, file, position)]
            except Exception as error:
                bad = fence.bad_record(error)
                results.append(tagged(position, bad, dead_dialogue(file, id_of(raw, position), bad)))
    except Exception as error:
        bad = fence.bad_record(error)
        results = [tagged(-1, bad, dead_file(file, bad))]
    yield from results


def analysis_of(perturbation: Perturbation, files: beam.PCollection[DialogueFile]) -> Analysis:
    """Returns the analysis of a corpus; empty if the perturbation needs none."""
    if not perturbation.needs_analysis():
        return Analysis()
    if perturbation.languages:
        import apache_beam as beam

        files = files | "In known languages" >> beam.Map(corpora.in_languages, perturbation.languages)
    analysis = perturbation.analyze(files)
    return analysis if isinstance(analysis, Analysis) else Analysis(analysis)


def check_analysis(perturbation: Perturbation, analysis: Analysis) -> None:
    """Lets the pipeline fail if an analysis has too many dead letters."""
    from parapet.transforms.core.runs import check_dead_letters

    if analysis.dead_letters is not None and analysis.counts is not None:
        tallies, max_bad = perturbation.analysis_tallies, perturbation.max_bad
        check_dead_letters(analysis.dead_letters, analysis.counts, tallies, max_bad)


def changed_turns(before: Mapping[str, Any], after: Any) -> list[dict[str, Any]]:
    """Makes a row for each turn with another utterance; none if there are more or fewer turns than before."""
    turns = after.get("turns") if isinstance(after, Mapping) else None
    if not isinstance(turns, list) or len(turns) != len(before["turns"]):
        return []
    pairs = enumerate(zip(before["turns"], turns, strict=True))
    return [changed_turn(before, i, new) for i, (old, new) in pairs if old["utterance"] != new.get("utterance")]


def changed_turn(dialogue: Mapping[str, Any], position: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a row of the default ``row_schema``: the utterance of a turn before and after.

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
    """Formats an option with several values as for its flag: ``0.1,0.5``, ``word=0.2``."""
    if isinstance(values, Mapping):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return str(values) if isinstance(values, str | int | float) else ",".join(map(str, values))


def share_of(share: float | Fraction, option: str) -> Fraction:
    """Converts a share from 0 to 1 to an exact fraction. Raises InputError for anything else."""
    if not isinstance(share, int | float | Fraction) or not 0 <= share <= 1:
        shown = f"{share:g}" if isinstance(share, int | float) else repr(share)
        raise InputError(f"{shown} is not a number between 0 and 1", option)
    return Fraction(str(share))


def set_of(perturbation: Perturbation, set_name: str | None) -> str:
    """Returns the set to use. Raises InputError if it is ambiguous, or does not exist."""
    sets = perturbation.sets
    if set_name is None and len(sets) > 1:
        raise InputError(
            f"{perturbation.name} makes {len(sets)} sets: set_name is required and must be one of {', '.join(sets)}"
        )
    if set_name is not None and set_name not in sets:
        raise InputError(f"{perturbation.name} makes no set {set_name!r}: must be one of {', '.join(sets)}")
    return set_name or sets[0]
