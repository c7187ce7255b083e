"""What is scored, and what predicts: the sets with their files, the user's model, and references in memory.

A model has ``predict(batch)``, or is a function, and gives a state for every example. In memory, one process scores
what ``parapet evaluate --task dst`` scores on workers.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from parapet.evaluation import user_code
from parapet.evaluation.bootstrap import REPLICATES
from parapet.evaluation.dst.frames import (
    Dialogue,
    Frame,
    PassedOver,
    Predicted,
    ScoreConfig,
    Scored,
    Slots,
    State,
    Turn,
    as_dialogues,
    check_known,
    dialogues_in_memory,
    parse_dialogues,
    predictions_in_memory,
    read_predictions,
    score_dialogues,
    slots_of,
)
from parapet.evaluation.dst.totals import Policy, Unit
from parapet.evaluation.sets import ORIGINAL, Kind, SetRoot, Sources, find_sets, prediction_files
from parapet.evaluation.user_code import UserCode, make, running
from parapet.schemas.dialogue import Action, check_ids
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, SplitSchemas, as_path, is_there, parse_services, read_root
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import Corpus, inline, read_corpus, read_file
from parapet.transforms.running import plugins
from parapet.transforms.running.progress import advance


class Set(msgspec.Struct, frozen=True):
    """One set.

    Attributes:
      name: ``original``, ``v1``, ``typos-env1``.
      services: of its split's schema, by name, in order.
      seen: the services of its training schema.
    """

    name: str
    kind: Kind
    services: dict[str, Service]
    seen: frozenset[str]

    def slots(self) -> dict[str, Slots]:
        """The slots of its services, as scoring asks for them."""
        return {name: slots_of(service) for name, service in self.services.items()}


class Member(msgspec.Struct, frozen=True):
    """A file of a set: the dialogues, and what was predicted for them, where that is a file of the same name."""

    set: str
    reference: str
    predictions: str = ""


class Job(msgspec.Struct, frozen=True):
    """One dialogue file in all sets that have it, by its name."""

    name: str
    members: tuple[Member, ...]


class Plan(msgspec.Struct, frozen=True):
    """The sets of a run and their files.

    Attributes:
      sets: by name, the original first.
      jobs: the files, the largest first.
      loose: (set, file) of predictions whose files are not those of the reference: JSON lines, or other names.
      originals: a variant's name of a service to the original's, for all variants.
      remarks: warnings for the user.
    """

    sets: dict[str, Set]
    jobs: list[Job]
    loose: list[tuple[str, str]]
    originals: dict[str, str]
    remarks: list[str]

    @property
    def variants(self) -> list[str]:
        """The names of the variants, over which sensitivity is computed."""
        return [one.name for one in self.sets.values() if one.kind == "variant"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A run of ``parapet evaluate --task dst``.

    Attributes:
      output: the folder.
      sources: what the flags name; ``plan`` what is there.
      scoring: how frames are scored.
      across_turn: joint accuracies are products over turns.
      unit: of the sensitivity in the tables; ``zero`` is its policy.
      seed: of the bootstrap; ``replicates`` how many, 0 for none.
      model: what predicts, where there are no files; ``batch_size`` examples at a time.
      system: what the page calls it.
    """

    output: str
    sources: Sources
    plan: Plan
    scoring: ScoreConfig = ScoreConfig()
    across_turn: bool = False
    unit: Unit = "frame"
    zero: Policy = "zero"
    seed: str = "0"
    replicates: int = REPLICATES
    model: UserCode | None = None
    batch_size: int = 64
    system: str = "the system"

    def options(self) -> dict[str, object]:
        """The options that shape the content, for ``run.json``."""
        arguments = self.model.arguments if self.model else {}
        return {
            "split": self.sources.split,
            "sets": list(self.plan.sets),
            "fuzzy": self.scoring.fuzzy,
            "across_turn": self.across_turn,
            "official": self.scoring.official,
            "unit": self.unit,
            "zero": self.zero,
            "replicates": self.replicates,
            "seed": self.seed,
            "model": self.model.target if self.model else None,
            **({"model_args": arguments} if arguments else {}),
        }


def make_plan(sources: Sources) -> Plan:
    """Finds the sets, their dialogues and their predictions.

    Raises:
      InputError: dialogues, schemas, variants, or the predictions of a set are missing.
    """
    remarks: list[str] = []
    sets: dict[str, Set] = {}
    dialogues = {}
    for root in find_sets(sources):
        sets[root.name], dialogues[root.name] = _read_set(root, sources.split, sets.get(ORIGINAL), remarks)
    predicted = {}
    if sources.predictions is not None:
        predicted = {name: prediction_files(sources.predictions, sources.split, name) for name in sets}
    jobs, loose = _jobs(dialogues, predicted)
    return Plan(sets, jobs, loose, _originals(sets), remarks)


def _read_set(
    root: SetRoot, split: str, original: Set | None, remarks: list[str]
) -> tuple[Set, dict[str, tuple[str, int]]]:
    """A set, and by name the path and size of its files."""
    corpus = read_corpus(root.path, [split])
    schemas = {one.split: one for one in read_root(root.path, leave_out_bad=True)}
    remarks += corpus.problems
    here = schemas.get(split) or next(iter(schemas.values()))
    services = {service.service_name: service for service in here.services}
    return Set(root.name, root.kind, services, _seen(root, schemas, services, original, remarks)), {
        file.name: (file.path, file.size) for file in corpus.files
    }


def _seen(
    root: SetRoot,
    schemas: Mapping[str, SplitSchemas],
    services: Mapping[str, Service],
    original: Set | None,
    remarks: list[str],
) -> frozenset[str]:
    if root.kind == "variant" and original is not None:
        # Its train/schema.json may have services that the original's lacks, such as all of SGD-X.
        return seen_variants(originals_of(root.name, services, original.services), original.seen)
    if "train" in schemas:
        return frozenset(service.service_name for service in schemas["train"].services)
    if root.kind == "other" and original is not None:
        return original.seen  # it has the original's names
    remarks.append(f"{root.name}: there is no train/schema.json, so all of its services count as unseen")
    return frozenset()


def _originals(sets: Mapping[str, Set]) -> dict[str, str]:
    original = sets[ORIGINAL].services
    originals = {name: name for name in original}
    for one in sets.values():
        if one.kind == "variant":
            originals |= originals_of(one.name, one.services, original)
    return originals


def originals_of(variant: str, services: Iterable[str], originals: Container[str]) -> dict[str, str]:
    """A variant's names of services to the original's: ``Hotels_11`` of ``v1`` is ``Hotels_1``."""
    suffix = variant.removeprefix("v")
    shortened = ((name, name.removesuffix(suffix)) for name in services)
    return {name: short if short in originals else name for name, short in shortened}


def seen_variants(originals: Mapping[str, str], seen: Collection[str]) -> frozenset[str]:
    """The services of a variant, in ``originals`` with the original's name of each, whose original is seen."""
    return frozenset(name for name, original_name in originals.items() if original_name in seen)


def _jobs(
    dialogues: Mapping[str, Mapping[str, tuple[str, int]]], predicted: Mapping[str, Mapping[str, str]]
) -> tuple[list[Job], list[tuple[str, str]]]:
    loose = []
    paired = {}
    for name, files in predicted.items():
        if set(files) == set(dialogues[name]):
            paired[name] = files
        else:
            loose += [(name, path) for path in files.values()]
    sizes: dict[str, int] = {}
    members: dict[str, list[Member]] = {}
    for name, of in dialogues.items():
        for file, (path, size) in of.items():
            members.setdefault(file, []).append(Member(name, path, paired.get(name, {}).get(file, "")))
            sizes[file] = sizes.get(file, 0) + size
    order = sorted(members, key=lambda file: (-sizes[file], file))
    return [Job(file, tuple(members[file])) for file in order], loose


def unmatched(sets: Iterable[Set], jobs: Sequence[Job]) -> list[str]:
    """The variants that lack files of the original, one line each: sensitivity needs them all."""
    found = []
    for one in sets:
        lacking = [job.name for job in jobs if one.name not in {member.set for member in job.members}]
        if one.kind == "variant" and lacking:
            found.append(f"{one.name} has no {lacking[0]}" + (f" (and {len(lacking) - 1} more)" if lacking[1:] else ""))
    return found


class Context(msgspec.Struct, frozen=True):
    """A frame without what is to be predicted.

    Attributes:
      service: the schema of the frame's service.
      actions: those of the system; empty in a user turn.
    """

    service: Service
    actions: tuple[Action, ...] = ()


class Example(msgspec.Struct, frozen=True):
    """What a model is asked: the state of a service after a user turn.

    Attributes:
      turn: the position of the user turn, from 0.
      service: the schema of the service.
      history: (speaker, utterance) of all turns so far, the user turn last.
      frames: the frames of each of these turns: the services that it is about, and what the system does.
    """

    dialogue_id: str
    turn: int
    service: Service
    history: tuple[tuple[str, str], ...]
    frames: tuple[tuple[Context, ...], ...] = ()


class Model(Protocol):
    """What ``--model`` names."""

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """A state for each example: ``{"active_intent", "requested_slots", "slot_values"}``, or such a struct."""
        ...


class UserModel:
    """A model of the user's, or of a plug-in: what it raises is shown as an error of its own.

    Args:
      code: where it is from.
      called: what is called with a batch.
    """

    def __init__(self, code: UserCode, called: Callable[[Sequence[Example]], Any]) -> None:
        self.code, self.called = code, called

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The states, in order.

        Raises:
          UserCodeError: the code raised.
          InputError: it returned something else than a list of as many.
        """
        where = _where(batch)
        with running(self.code, f"failed in predict on {where}"):
            states = self.called(batch)
            if isinstance(states, Iterable) and not isinstance(states, str | bytes | Mapping):
                states = list(states)
        if not isinstance(states, list) or len(states) != len(batch):
            got = f"a list of length {len(states)}" if isinstance(states, list) else reprlib.repr(states)
            expected = f"expected a list of {len(batch)} states, one for each example, found {got}"
            raise self.code.refused(f"did not return states for {where}: {expected}")
        return states


def _where(batch: Sequence[Example]) -> str:
    first, last = batch[0], batch[-1]
    if len(batch) == 1:
        return f"dialogue {first.dialogue_id!r}, turn {first.turn}, service {first.service.service_name!r}"
    until = f"turn {last.turn}" if first.dialogue_id == last.dialogue_id else f"{last.dialogue_id!r} turn {last.turn}"
    until += " ('--batch_size 1' finds the example)"
    return f"the batch of {len(batch)} examples from dialogue {first.dialogue_id!r} turn {first.turn} to {until}"


def load(code: UserCode) -> Model:
    """The model of ``MODULE:NAME`` or ``FILE.py:NAME``, or that of a plug-in, ready to predict.

    Raises:
      InputError: as :func:`check`.
      UserCodeError: its code raises.
    """
    if chosen := plugin_of(code.target):
        return UserModel(UserCode(chosen.plugin.target), plugins.make(chosen, ["predict"]).predict)
    return UserModel(code, make(code, "predict"))


def check(code: UserCode) -> None:
    """Looks at what ``--model`` names, without making it unless it is a plug-in's.

    Raises:
      InputError: there is no such module, name or plug-in, it has no ``predict``, or takes other arguments.
      UserCodeError: its module raises while it is imported.
    """
    if chosen := plugin_of(code.target):
        if code.arguments:
            raise InputError(
                f"cannot be used with a plug-in, which takes {chosen.plugin.name}=ARGUMENT", f"{code.flag}_args"
            )
        plugins.make(chosen, ["predict"])
    elif ":" not in code.target:
        reason = f"{code.target!r}: expected MODULE:NAME, FILE.py:NAME or the name of a plug-in"
        raise InputError(f"{reason}; {plugins.told(plugins.MODELS)}", code.flag)
    else:
        user_code.check(code, "predict")


def plugin_of(named: str) -> plugins.Chosen | None:
    """The plug-in that ``--model`` names, if it does."""
    return plugins.find(plugins.MODELS, named, "--model")


def examples(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Example]:
    """An example for every frame of every user turn, in order.

    Raises:
      InputError: a user turn has a frame of a service that is not in the schemas.
    """
    history: list[tuple[str, str]] = []
    frames: list[tuple[Context, ...]] = []
    for position, turn in enumerate(dialogue.turns):
        history.append((turn.speaker, turn.utterance if isinstance(turn.utterance, str) else ""))
        frames.append(
            tuple(
                Context(services[frame.service], tuple(frame.actions or ()) if turn.speaker == "SYSTEM" else ())
                for frame in turn.frames
                if frame.service in services
            )
        )
        if turn.speaker == "USER":
            for frame in turn.frames:
                service = services.get(frame.service)
                if service is None:
                    where = f"{dialogue.dialogue_id} turns[{position}] {frame.service}"
                    raise InputError("the schemas of the reference do not have this service", "", where)
                yield Example(dialogue.dialogue_id, position, service, tuple(history), tuple(frames))


def predicted(
    model: Model, references: Sequence[Dialogue], services: Mapping[str, Service], batch_size: int, named: str
) -> dict[str, Dialogue]:
    """What a model predicts for the dialogues of a file.

    Raises:
      InputError: it gives another number of states than asked, or something that is no state; or a dialogue has a
        frame of a service that is not in the schemas.
    """
    asked = [example for reference in references for example in examples(reference, services)]
    last = {one.dialogue_id: i for i, one in enumerate(asked)}  # the position of each dialogue's last example
    states: list[State] = []
    for at in range(0, len(asked), batch_size):
        batch = asked[at : at + batch_size]
        states += [_state(*pair, named) for pair in zip(model.predict(batch), batch, strict=True)]
        advance(sum(last[one.dialogue_id] == i for i, one in enumerate(batch, at)), "dialogues")
    found = {
        of.dialogue_id: Dialogue(of.dialogue_id, [Turn(turn.speaker, []) for turn in of.turns]) for of in references
    }
    for one, state in zip(asked, states, strict=True):
        found[one.dialogue_id].turns[one.turn].frames.append(Frame(one.service.service_name, state))
    return found


def _state(given: Any, of: Example, named: str) -> State:
    try:
        return msgspec.convert(given, State, from_attributes=True)
    except msgspec.ValidationError as error:
        expected = '{"active_intent": TEXT, "requested_slots": [SLOT, ...], "slot_values": {SLOT: [VALUE, ...], ...}}'
        reason = f"{named}: predict returned something that is not a state: {error}. Expected {expected}"
        where = f"dialogue {of.dialogue_id!r}, turn {of.turn}, service {of.service.service_name!r}"
        raise InputError(f"{reason}; got {reprlib.repr(given)}", "--model", where) from None


BATCH = 64  # examples that a tracker gets at a time


class References(msgspec.Struct):
    """A set with its dialogues.

    Attributes:
      of: its services.
      split: whose dialogues; nothing where they are in memory.
      dialogues: all of them.
      originals: its names of services to the original's, where they differ.
    """

    of: Set
    split: str
    dialogues: list[Dialogue]
    originals: dict[str, str] = {}


def of_corpus(corpus: Corpus, split: str | None, name: str) -> References:
    """The references of a corpus.

    Args:
      corpus: the corpus.
      split: whose dialogues; None: ``test``, or the only one that has any.
      name: of the set.

    Raises:
      InputError: there is no such split, or something in it cannot be read.
    """
    if split is None:
        splits = list(dict.fromkeys(one for one in corpus.splits if corpus.files_of(one)))
        split = TEST if TEST in splits or not splits else splits[0]
        if split not in splits or (split != TEST and len(splits) > 1):
            raise InputError(
                f"is required: must be one of the splits that have dialogues: {', '.join(splits) or 'none'}", "split"
            )
    dialogues: list[Dialogue] = []
    for file in (inline(corpus, file) for file in corpus.files_of(split)):
        dialogues += parse_dialogues(read_file(file), file.path or file.relative)
    seen = frozenset(_names(corpus, "train")) if "train" in corpus.splits else frozenset()
    services = {service.service_name: service for of in _schemas(corpus, split) for service in of.services}
    original = getattr(corpus, "original", None)
    originals = {}
    if isinstance(original, Corpus):
        originals = originals_of(name, services, _names(original, split))
        seen = seen_variants(originals, _names(original, "train"))
    return References(Set(name, "other", services, seen), split, dialogues, originals)


def _schemas(corpus: Corpus, split: str) -> list[SplitSchemas]:
    return [of for of, name in zip(corpus.folders.values(), corpus.splits, strict=True) if name == split]


def _names(corpus: Corpus, split: str) -> list[str]:
    return [service.service_name for of in _schemas(corpus, split) for service in of.services]


def of_dialogues(dialogues: Iterable[Any], schemas: Iterable[Any], name: str) -> References:
    """The references of dialogues and services that are dicts in SGD's form. Raises InputError where they are not."""
    parsed = parse_services(list(schemas), "schemas", "schemas")
    if parsed.bad:
        raise parsed.bad[0].error
    of = Set(name, "other", {service.service_name: service for service in parsed.services}, frozenset())
    return References(of, "", dialogues_in_memory(dialogues, "references"))


def score(references: References, predictions: Any, config: ScoreConfig) -> tuple[list[list[Scored]], PassedOver]:
    """Scores the frames of each dialogue.

    Args:
      references: of the set.
      predictions: the place of files, dialogues or lines in memory, a corpus, or a tracker.
      config: how frames are scored.

    Returns:
      The frames of each dialogue; and what ``config.official`` has passed over.

    Raises:
      InputError: as ``score_dialogues`` has it; or a dialogue is predicted that the references lack.
    """
    passed_over = PassedOver()
    check_ids((dialogue.dialogue_id for dialogue in references.dialogues), "references")
    by_id, path = _predictions(references, predictions)
    if not config.official:
        check_known(references.dialogues, by_id, path)
    slots = references.of.slots()
    return list(score_dialogues(references.dialogues, by_id, slots, config, path, passed_over)), passed_over


def _predictions(references: References, predictions: Any) -> tuple[dict[str, Dialogue], str]:
    """What was predicted, by dialogue id, and its place for messages."""
    if callable(predictions) or callable(getattr(predictions, "predict", None)):
        tracker = _Tracker(predictions)
        services = references.of.services
        return predicted(tracker, references.dialogues, services, BATCH, tracker.name), tracker.name
    if isinstance(predictions, Corpus):
        predictions = predictions.dialogues(references.split or None)
    place = "predictions"
    if isinstance(predictions, str | Path):
        place, name = str(predictions), references.of.name
        files = prediction_files(place, references.split, name if is_there(as_path(place) / name) else ORIGINAL)
        place = place if len(files) > 1 else next(iter(files.values()))
        rows: list[Predicted] = [row for path in files.values() for row in read_predictions(path)]
    else:
        rows = predictions_in_memory(predictions, place)
    return as_dialogues(references.dialogues, rows, place), place


class _Tracker:
    """A tracker, or a function, that must give as many states as it is asked for. Its own errors are its own."""

    def __init__(self, tracker: Any) -> None:
        self.name = getattr(tracker, "__name__", type(tracker).__name__)
        if isinstance(tracker, type):
            raise InputError(f"{self.name} is a class: give an object of it, such as {self.name}()", "predictions")
        self.called = getattr(tracker, "predict", tracker)

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The states, in order. Raises InputError where they are others than a list of as many."""
        states = self.called(batch)
        if not isinstance(states, Iterable) or isinstance(states, str | bytes | Mapping):
            raise InputError(f"{self.name} returned {type(states).__name__}: expected a list of states", "predictions")
        states = list(states)
        if len(states) != len(batch):
            raise InputError(f"{self.name} returned {len(states)} states for {len(batch)} examples", "predictions")
        return states
