"""What must be known before values are replaced: training, the kinds of the slots, and whether values suffice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas
from parapet.transforms.corpora import Corpus, dialogues_of, inlined, train_files
from parapet.transforms.entities.forms import step_of
from parapet.transforms.entities.groups import Kinds, Slot, find_values, values_of
from parapet.transforms.entities.kinds import CHOICE, KINDS, SlotKind, is_none, kind_of, says_city
from parapet.transforms.entities.replacing import Replacer
from parapet.transforms.entities.sources import CORPUS, GENERATED, Sources, check_enough, held_out, read_gazetteer
from parapet.transforms.entities.vocabulary import Training, texts_of, training_of


class Config(NamedTuple):
    """How values are replaced.

    Attributes:
      values: where new ones come from: ``generated``, ``corpus``, or a gazetteer's path.
      replace_choices: categorical values are to be replaced as well.
      seed: of all choices.
      max_bad: up to which share of the values that a dialogue needs may be missing.
    """

    values: str = GENERATED
    replace_choices: bool = False
    seed: str = "0"
    max_bad: Fraction = Fraction(1, 100)


class Study(NamedTuple):
    """What is known of a corpus before anything is replaced.

    Attributes:
      replacer: what replaces values.
      leaking: how many values of the source were dropped because training has them.
      warning: which values are missing, where some are; empty where there are enough.
    """

    replacer: Replacer
    leaking: int
    warning: str


def study(corpus: Corpus, whole: Corpus, training: Training, config: Config) -> Study:
    """Studies the dialogues whose values are to be replaced.

    Args:
      corpus: these dialogues.
      whole: the corpus with all its splits, where ``values`` are the corpus's own.
      training: what training has.
      config: how.

    Raises:
      InputError: a gazetteer that cannot be used, or too few values.
    """
    files = inlined(corpus)
    kinds = kinds_of(files, corpus.folders.values(), config.replace_choices)
    sources, leaking = _sources(whole, training, kinds, config)
    warning = ""
    if sources.pools:
        path = config.values if sources.mode == "file" else ""
        warning = check_enough(sources.pools, needs_of(files, kinds, sources), path, config.max_bad)
    return Study(Replacer(kinds, sources, training), leaking, warning)


def _sources(whole: Corpus, training: Training, kinds: Kinds, config: Config) -> tuple[Sources, int]:
    """Where values come from, and how many of them training has."""
    if config.values == GENERATED:
        return Sources(GENERATED, config.seed), 0
    if config.values == CORPUS:
        files = inlined(whole)
        names = set(names_in(files, kinds_of(files, whole.folders.values(), replace_choices=False)))
        leaking = sum(training.leaks(value) for _, value in names)
        return Sources(CORPUS, config.seed, held_out(names, training, config.seed)), leaking
    pools, leaking = read_gazetteer(config.values, open_slots(kinds), training)
    return Sources("file", config.seed, pools), leaking


def split_train(corpus: Corpus, root: object = "") -> Training:
    """What the split train of a corpus has; all of it where it has no splits.

    Args:
      corpus: that models are trained on.
      root: its place, for messages.

    Raises:
      InputError: it has no such split, or a dialogue file cannot be read.
    """
    files = train_files(corpus)
    if not files:
        there = ", ".join(dict.fromkeys(file.split for file in corpus.files if file.split)) or "none"
        raise InputError(
            f"nobody knows what was seen (there are no dialogues in 'train'; there are in: {there}); "
            "give --training ROOT, the corpus that models are trained on",
            root,
        )
    return learn_training(files, [corpus.folders[files[0].split]])


def learn_training(files: Sequence[DialogueFile], schemas: Iterable[SplitSchemas]) -> Training:
    """What training has: all utterances and values of its dialogues, and the possible values of its schemas.

    Raises:
      InputError: a dialogue file that cannot be read: nobody knows what it has.
    """

    def texts() -> Iterator[str]:
        for file in files:
            yield from texts_of(file)
        for split in schemas:
            for service in split.services:
                for slot in service.slots:
                    yield from slot.possible_values

    return training_of(texts())


def kinds_of(
    files: Iterable[DialogueFile], schemas: Iterable[SplitSchemas], replace_choices: bool
) -> dict[Slot, SlotKind]:
    """The kind of every slot, by its values in all dialogues; files and dialogues that cannot be read say nothing.

    Args:
      files: the dialogues.
      schemas: of the same splits.
      replace_choices: categorical values are to be replaced as well, unless they are numbers or truth values.
    """
    values: dict[Slot, tuple[set[str], set[str]]] = {}
    for name, value, canonical in _values(files):
        values.setdefault(name, (set(), set()))[canonical].add(value)
    seen_of = {name: sorted(named or said) for name, (said, named) in sorted(values.items())}
    about = {(s.service_name, slot.name): slot for split in schemas for s in split.services for slot in s.slots}
    description = {name: about[name].description if name in about else "" for name in seen_of}
    # Slots that say that they are towns tell which of the locations are.
    towns = [seen for name, seen in seen_of.items() if says_city(name[1], description[name], name[0])]
    cities = frozenset(value.casefold() for seen in towns for value in seen)
    kinds = {}
    for name, seen in seen_of.items():
        slot, found = about.get(name), kind_of(name[1], description[name], seen, name[0], cities)
        if slot is None or not slot.is_categorical:
            kinds[name] = SlotKind(found, step=step_of(found, seen))
            continue
        possible = tuple(sorted({value for value in slot.possible_values if not is_none(value)}))
        plain = found in ("boolean", "number") or all(value.isdecimal() for value in possible)
        kinds[name] = SlotKind(CHOICE if replace_choices and not plain else "categorical", possible)
    return kinds


def _values(files: Iterable[DialogueFile]) -> Iterator[tuple[Slot, str, bool]]:
    for file in files:
        try:
            for _, _, _, dialogue in dialogues_of(file):
                if not isinstance(dialogue, InputError):
                    yield from values_of(dialogue)
        except InputError:
            continue  # who writes the set says so


def names_in(files: Iterable[DialogueFile], kinds: Kinds) -> Iterator[tuple[str, str]]:
    """(kind, canonical form) of every value of open slots."""
    for file in files:
        try:
            for _, _, _, dialogue in dialogues_of(file):
                if not isinstance(dialogue, InputError):
                    for group in find_values(dialogue, kinds).groups:
                        yield group.kind, group.canonical
        except InputError:
            continue


def needs_of(files: Iterable[DialogueFile], kinds: Kinds, sources: Sources) -> dict[str, int]:
    """How many values the dialogue that needs most of them needs, of each pool.

    A dialogue's own values cannot stand for others of it: those that a pool has count as well.
    """
    needs: dict[str, int] = {}
    pools = {name: {value.casefold() for value in pool} for name, pool in sources.pools.items()}
    for file in files:
        try:
            for _, _, _, dialogue in dialogues_of(file):
                if isinstance(dialogue, InputError):
                    continue
                of: dict[str, int] = {}
                for group in find_values(dialogue, kinds).groups:
                    name = sources.pool_of(group)
                    if group.kind == CHOICE or group.reason or sources.makes(group) or name is None:
                        continue
                    of[name] = of.get(name, 0) + 1 + (group.key in pools[name])
                for name, n in of.items():
                    needs[name] = max(needs.get(name, 0), n)
        except InputError:
            continue
    return needs


def open_slots(kinds: Kinds) -> list[Slot]:
    """The slots whose values may be replaced by unseen ones."""
    return sorted(slot for slot, of in kinds.items() if of.kind in KINDS)
