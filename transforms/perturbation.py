"""The frame of perturbations: fit on a corpus, applied to a dialogue. A new one is one short class.

The class says what it is called and what it makes of a dialogue; all else has defaults. What is drawn is drawn by
``hash(seed, dialogue, turn, operation)``, so that a dialogue comes out the same on any machine, alone or in a corpus.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError, storable_row
from parapet.transforms import plugins
from parapet.transforms.corpora import Corpus, Item
from parapet.transforms.seeding import key_of

if TYPE_CHECKING:
    import apache_beam as beam

Place = tuple[str, int]  # of a dialogue: its file below the root, its position there
States = Mapping[Place, Any]
Texts = str | float | Sequence[str | float]  # an option of several values: a list, or as its flag has it

_FLAG = re.compile(r"(?<!\S)--(?=[a-z])")

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


class Perturbation:
    """The base class of perturbations. A subclass needs a ``name`` and a method :meth:`perturb`; the rest has defaults.

    The keyword arguments of ``__init__`` are the options. ``parapet.perturb`` takes a class or an instance; a package
    that registers the class as an entry point of the group ``parapet.perturbations`` makes it available by name.

    Attributes:
      name: the name of the perturbation.
      row_schema: the Arrow schema of the rows that record what was changed.
      rows_folder: the folder, below that of the corpus, to which ``save`` writes the rows.
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
    row_schema: ClassVar[pa.Schema] = CHANGED_TURNS
    rows_folder: ClassVar[str] = "turns"

    def __init__(self, *, seed: int | str = 0) -> None:
        self.seed = str(seed)

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets it makes. Most perturbations make one; those with rates make one for each rate."""
        return (self.name,)

    def fit(self, corpus: Corpus) -> None:
        """Learns from the corpus, for example its schemas or the values seen in training. The default does nothing.

        Called once, on the machine that starts the run, before anything is perturbed. The instance is then pickled and
        sent to the workers.
        """

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, Any]]:
        """Computes a state for each dialogue from the whole corpus. Needed for exact rates, for example.

        Args:
          files: the dialogue files. ``parapet.transforms.corpora.dialogues_of`` reads one.

        Returns:
          PCollection of ((file.relative, position in the file), state). A dialogue without a state gets None.
        """
        raise NotImplementedError

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """Perturbs one dialogue. Must be a pure function of its arguments, the options and the seed.

        Args:
          dialogue: the dialogue in the SGD format. Do not modify it: return a new one.
          set_name: which of :attr:`sets` is being made.
          state: the state that :meth:`analyze` computed for this dialogue, or None.

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

    def needs_analysis(self) -> bool:
        """Whether :meth:`analyze` is to be run: where it is defined."""
        return type(self).analyze is not Perturbation.analyze

    def needs_corpus(self) -> bool:
        """Whether :meth:`fit` is to be run: where it is defined."""
        return type(self).fit is not Perturbation.fit


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


class Registry(Mapping[str, type[Perturbation]]):
    """The perturbations that are installed, by name. A class is imported when it is looked up."""

    def __init__(self) -> None:
        self._names = plugins.names(plugins.PERTURBATIONS)

    def __getitem__(self, name: str) -> type[Perturbation]:
        if name not in self._names:
            raise KeyError(name)
        chosen = plugins.choose(plugins.PERTURBATIONS, name, "")
        found = plugins.load(chosen)
        if not (isinstance(found, type) and issubclass(found, Perturbation)):
            raise chosen.refused("is no subclass of parapet.Perturbation")
        if getattr(found, "name", None) != name:
            raise chosen.refused(f"has another name in its class: give {found.__name__} the line name = {name!r}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<perturbations: {', '.join(self._names)}>"


def perturbation_of(which: str | type[Perturbation] | Perturbation, options: Mapping[str, Any]) -> Perturbation:
    """An object of a perturbation.

    Args:
      which: the name of one that is installed, a class, or an object.
      options: of the class.

    Raises:
      InputError: there is none of that name, or it does not take these options.
    """
    if isinstance(which, Perturbation):
        if options:
            raise InputError(f"{which.name} is made already: give its options where it is made ({', '.join(options)})")
        return _complete(copy.copy(which))  # what one corpus teaches it is not for another
    if isinstance(which, str):
        registry = Registry()
        if which not in registry:
            near = difflib.get_close_matches(which, registry, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(registry)}"
            raise InputError(f"there is no perturbation {which!r}: {hint}")
        which = registry[which]
    if not (isinstance(which, type) and issubclass(which, Perturbation)):
        raise InputError(f"expected a name, a class or an object of a Perturbation, found {type(which).__name__}")
    _name_of(which)
    _check_options(which, options)
    with options_named():
        return _complete(which(**options))


@contextmanager
def options_named() -> Iterator[None]:
    """An option is no flag: in messages that were written for commands, ``--seed`` becomes ``seed``."""
    try:
        yield
    except InputError as error:
        error.args = tuple(_FLAG.sub("", part) for part in (error.reason, error.path, error.where))
        error.reason, error.path, error.where = error.args
        raise


def _complete(perturbation: Perturbation) -> Perturbation:
    """A perturbation. Raises InputError where its class lacks something."""
    its = type(perturbation)
    _name_of(its)
    if its.perturb is Perturbation.perturb:
        raise InputError(f"the class {its.__name__} has no method perturb(self, dialogue, set_name, state)")
    if not hasattr(perturbation, "seed"):
        raise InputError(f"{its.__name__}.__init__ must call super().__init__(seed=seed)")
    return perturbation


def _name_of(which: type[Perturbation]) -> str:
    name = getattr(which, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f'the class {which.__name__} has no name: add a line such as name = "my_perturbation"')
    return name


def _check_options(which: type[Perturbation], options: Mapping[str, Any]) -> None:
    """Raises InputError where the class does not take one of the options, or needs another."""
    parameters = inspect.signature(which).parameters.values()
    named = {one.name: one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        for option in options:
            if option not in named:
                near = difflib.get_close_matches(option, named, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(named)}"
                raise InputError(f"{which.name} has no option {option!r}: {hint}")
    missing = [name for name, one in named.items() if one.default is one.empty and name not in options]
    if missing:
        raise InputError(f"{which.name} needs the option {missing[0]!r}")


def comma_separated(values: Texts | Mapping[str, object]) -> str:
    """An option of several values as its flag has it: ``0.1,0.5``, ``word=0.2``."""
    if isinstance(values, Mapping):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return str(values) if isinstance(values, str | int | float) else ",".join(map(str, values))


def share_of(share: float, option: str) -> Fraction:
    """A share as it is written, 0 to 1. Raises InputError for anything else."""
    if not isinstance(share, int | float | Fraction) or not 0 <= share <= 1:
        raise InputError(f"{share!r} is no share: give 0 to 1", option)
    return Fraction(str(share))


def set_of(perturbation: Perturbation, set_name: str | None) -> str:
    """The set that is meant. Raises InputError where that is unclear, or there is no such set."""
    sets = perturbation.sets
    if set_name is None and len(sets) > 1:
        raise InputError(f"{perturbation.name} makes {len(sets)} sets: give set_name, one of {', '.join(sets)}")
    if set_name is not None and set_name not in sets:
        raise InputError(f"{perturbation.name} makes no set {set_name!r}: there are {', '.join(sets)}")
    return set_name or sets[0]


def apply(perturbation: Perturbation, item: Item, set_name: str, state: Any) -> Item:
    """An item of a file as a set has it, with its rows; one that cannot be perturbed has the error.

    Raises:
      InputError: :meth:`Perturbation.perturb` returned something else than it should: an error of the class, not of
        the dialogue.
    """
    if item.error is not None:
        return item
    try:
        perturbed = perturbation.perturb(item.raw, set_name, state)
    except InputError as error:
        return item._replace(error=error)
    dialogue, rows = _checked(perturbation, perturbed)
    return item._replace(raw=dialogue, rows=rows if item.plain else [storable_row(row) for row in rows])


def _checked(perturbation: Perturbation, perturbed: Any) -> Perturbed:
    """What ``perturb`` returned, once it is clear that it is what it should be."""
    name = f"{type(perturbation).__name__}.perturb"
    if not isinstance(perturbed, Perturbed):
        hint = "expected parapet.Perturbed(dialogue, rows)"
        raise InputError(f"{name} returned {_kind_of(perturbed)}: {hint}")
    if not isinstance(perturbed.dialogue, dict):
        raise InputError(f"{name}: the dialogue in its Perturbed is {_kind_of(perturbed.dialogue)}, expected a dict")
    if not isinstance(perturbed.rows, list | tuple):
        raise InputError(f"{name}: the rows in its Perturbed are {_kind_of(perturbed.rows)}, expected a list of dicts")
    columns = perturbation.row_schema.names if perturbed.rows else ()
    for row in perturbed.rows:
        if not isinstance(row, dict):
            raise InputError(f"{name}: a row is {_kind_of(row)}, expected a dict")
        unknown = [str(column) for column in row if column not in columns]
        if unknown:
            raise InputError(f"{name}: a row has {unknown[0]!r}, which row_schema has not: it has {', '.join(columns)}")
    return perturbed


def _kind_of(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
