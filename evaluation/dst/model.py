"""The sets to score with their files, the user's model, and references in memory.

A model has ``predict(batch)``, or is a function, and returns a state for every example. In memory, a single process
computes what ``parapet evaluate --task dst`` computes on workers.
"""

import reprlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import msgspec

from parapet.evaluation import sets, statistics, user_code
from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.sets import ORIGINAL, Kind, SetRoot, Sources
from parapet.evaluation.user_code import UserCode, make, running
from parapet.schemas.dialogue import Action, check_ids, check_no_id_twice
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, SplitSchemas, as_path, is_there, parse_services, read_root
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.core import plugins
from parapet.transforms.core.inputs import read_input
from parapet.transforms.core.progress import advance
from parapet.transforms.perturb.corpora import Corpus, inline, read_corpus, read_file


class Set(msgspec.Struct, frozen=True):
    """A set of dialogues.

    Attributes:
      name: ``original``, ``v1``, ``typos-env1``.
      services: the services of its split's schema, by name, in order.
      seen: the services of its training schema.
    """

    name: str
    kind: Kind
    services: dict[str, Service]
    seen: frozenset[str]

    def slots(self) -> dict[str, state_frames.Slots]:
        """Returns the slots of its services, by type."""
        return {name: state_frames.slots_of(service) for name, service in self.services.items()}


class Member(msgspec.Struct, frozen=True):
    """A dialogue file of a set, and its predictions if they are in a file of the same name."""

    set: str
    reference: str
    predictions: str = ""


class Job(msgspec.Struct, frozen=True):
    """A dialogue file in all sets that have a file of this name."""

    name: str
    members: tuple[Member, ...]


class Plan(msgspec.Struct, frozen=True):
    """The sets of a run and their files.

    Attributes:
      sets: by name, the original first.
      jobs: the files, the largest first.
      loose: (set, file) of predictions in other files than the reference's: JSON lines, or files with other names.
      originals: a variant's name of a service to the original's, for all variants.
      remarks: warnings for the user.
      common: the dialogues that all sets have, which are scored; None for all.
      dialogues: the number of the original's dialogues, if there are other sets.
    """

    sets: dict[str, Set]
    jobs: list[Job]
    loose: list[tuple[str, str]]
    originals: dict[str, str]
    remarks: list[str]
    common: frozenset[str] | None = None
    dialogues: int = 0

    @property
    def variants(self) -> list[str]:
        """The names of the variants, over which sensitivity is computed."""
        return [scored_set.name for scored_set in self.sets.values() if scored_set.kind == "variant"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of ``parapet evaluate --task dst``.

    Attributes:
      output: the folder to write.
      sources: the paths from the flags; ``plan`` has what they contain.
      scoring: the settings of scoring.
      across_turn: whether joint accuracies are products over turns.
      zero: the policy of the sensitivity.
      seed: the seed of the bootstrap; ``replicates`` their number, 0 for none.
      model: the model to run if there are no predictions, on ``batch_size`` examples at a time.
      system: the name of the system on the page.
      is_deterministic: whether the system is known to predict the same in each run.
    """

    output: str
    sources: Sources
    plan: Plan
    scoring: state_frames.ScoreConfig = state_frames.ScoreConfig()
    across_turn: bool = False
    zero: statistics.Policy = "zero"
    seed: str = "0"
    replicates: int = statistics.REPLICATES
    model: UserCode | None = None
    batch_size: int = 64
    system: str = "the system"
    is_deterministic: bool = True

    @property
    def is_noisy(self) -> bool:
        """Whether part of the schema sensitivity may be noise."""
        return len(self.plan.variants) > 1 and not self.is_deterministic

    def options(self) -> dict[str, object]:
        """The options that determine the content, for ``run.json``."""
        arguments = self.model.arguments if self.model else {}
        return {
            "split": self.sources.split,
            "sets": list(self.plan.sets),
            "fuzzy": self.scoring.fuzzy,
            "across_turn": self.across_turn,
            "official": self.scoring.official,
            "zero": self.zero,
            "replicates": self.replicates,
            "seed": self.seed,
            "model": self.model.target if self.model else None,
            **({"model_args": arguments} if arguments else {}),
        }


def make_plan(sources: Sources) -> Plan:
    """Lists the sets, their dialogues and their predictions.

    Raises:
      InputError: dialogues, schemas, variants, or the predictions of a set are missing.
    """
    remarks: list[str] = []
    by_name: dict[str, Set] = {}
    dialogues = {}
    for root in sets.find_sets(sources):
        by_name[root.name], dialogues[root.name] = _read_set(root, sources.split, by_name.get(ORIGINAL), remarks)
    predicted = {}
    if sources.predictions is not None:
        predicted = {name: sets.prediction_files(sources.predictions, sources.split, name) for name in by_name}
    jobs, loose = _jobs(dialogues, predicted)
    return Plan(by_name, jobs, loose, _originals(by_name), remarks)


def comparable(plan: Plan) -> Plan:
    """Returns a plan that scores the dialogues that all its sets have.

    Raises:
      InputError: a file cannot be read, or the sets have too few dialogues in common.
    """
    if len(plan.sets) == 1:
        return plan
    dialogues: dict[str, set[str]] = {name: set() for name in plan.sets}
    for member in (member for job in plan.jobs for member in job.members):
        references = state_frames.parse_dialogues(read_input(member.reference, MAX_DIALOGUE_FILE), member.reference)
        dialogues[member.set].update(dialogue.dialogue_id for dialogue in references)
    common, whole = sets.common_dialogues(dialogues), len(dialogues[ORIGINAL])
    return msgspec.structs.replace(plan, common=common, dialogues=whole)


def _read_set(
    root: SetRoot, split: str, original: Set | None, remarks: list[str]
) -> tuple[Set, dict[str, tuple[str, int]]]:
    """Reads a set; also returns the path and size of its files, by name."""
    sets.check_has_dialogues(root)
    corpus = read_corpus(root.path, [split])
    check_no_id_twice(corpus.files)
    schemas = {schemas.split: schemas for schemas in read_root(root.path, leave_out_bad=True)}
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
        # A variant's train/schema.json may have services that the original's lacks, such as all of SGD-X.
        return seen_variants(originals_of(root.name, services, original.services), original.seen)
    if (seen := sets.services_of_train(root.path, schemas)) is not None:
        return seen
    if root.kind == "other" and original is not None:
        return original.seen  # it uses the original's names
    remarks.append(f"{root.name}: there is no train/schema.json, so all of its services count as unseen")
    return frozenset()


def _originals(sets: Mapping[str, Set]) -> dict[str, str]:
    original = sets[ORIGINAL].services
    originals = {name: name for name in original}
    for scored_set in sets.values():
        if scored_set.kind == "variant":
            originals |= originals_of(scored_set.name, scored_set.services, original)
    return originals


def originals_of(variant: str, services: Iterable[str], originals: Container[str]) -> dict[str, str]:
    """Maps a variant's names of services to the original's: ``Hotels_11`` of ``v1`` to ``Hotels_1``."""
    suffix = variant.removeprefix("v")
    shortened = ((name, name.removesuffix(suffix)) for name in services)
    return {name: short if short in originals else name for name, short in shortened}


def seen_variants(originals: Mapping[str, str], seen: Collection[str]) -> frozenset[str]:
    """Returns the services of a variant whose original is seen; ``originals`` maps each to the original's name."""
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
    for name, set_files in dialogues.items():
        for file, (path, size) in set_files.items():
            members.setdefault(file, []).append(Member(name, path, paired.get(name, {}).get(file, "")))
            sizes[file] = sizes.get(file, 0) + size
    return [Job(file, tuple(members[file])) for file in sorted(members, key=lambda file: (-sizes[file], file))], loose


def unmatched(sets: Iterable[Set], jobs: Sequence[Job]) -> list[str]:
    """Describes the variants that lack files of the original, one line each. Sensitivity needs all files."""
    missing = []
    for scored_set in sets:
        lacking = [job.name for job in jobs if scored_set.name not in {member.set for member in job.members}]
        if scored_set.kind == "variant" and lacking:
            more = f" (and {len(lacking) - 1} more)" if lacking[1:] else ""
            missing.append(f"{scored_set.name} has no {lacking[0]}{more}")
    return missing


class Context(msgspec.Struct, frozen=True):
    """A frame without the state that is to be predicted.

    Attributes:
      service: the schema of the frame's service.
      actions: the system's actions; empty in a user turn.
    """

    service: Service
    actions: tuple[Action, ...] = ()


class Example(msgspec.Struct, frozen=True):
    """The input of a model, which predicts the state of a service after a user turn.

    Attributes:
      turn: the position of the user turn, from 0.
      service: the schema of the service.
      history: (speaker, utterance) of all turns so far, the user turn last.
      frames: the frames of each of these turns: the services of the turn, and the system's actions.
    """

    dialogue_id: str
    turn: int
    service: Service
    history: tuple[tuple[str, str], ...]
    frames: tuple[tuple[Context, ...], ...] = ()


class Model(Protocol):
    """The interface of a model that ``--model`` names."""

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """Predicts a state for each example:

        ``{"active_intent", "requested_slots", "slot_values"}``, or such a struct.
        """
        ...


class UserModel:
    """A model of the user's or of a plug-in, which must return one state for each example.

    Args:
      code: the place of its code.
      called: the function that predicts a batch.
      in_python: whether its exceptions are passed on, rather than reported as errors of that code.
    """

    def __init__(self, code: UserCode, called: Callable[[Sequence[Example]], Any], in_python: bool = False) -> None:
        self.code, self.called, self.in_python = code, called, in_python

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """Predicts the states, in order.

        Raises:
          UserCodeError: the code raised an exception.
          InputError: it did not return a list with a state for each example.
        """
        where = _where(batch)
        with nullcontext() if self.in_python else running(self.code, f"failed in predict on {where}"):
            states = self.called(batch)
            if isinstance(states, Iterable) and not isinstance(states, str | bytes | Mapping):
                states = list(states)
        if not isinstance(states, list) or len(states) != len(batch):
            got = f"a list of length {len(states)}" if isinstance(states, list) else reprlib.repr(states)
            expected = f"expected a list of {len(batch)} states, one for each example, found {got}"
            raise self.code.refused(f"did not return states for {where}: {expected}")
        return states


def _where(batch: Sequence[Example]) -> str:
    first, last = (f"dialogue {example.dialogue_id!r}, turn {example.turn}" for example in (batch[0], batch[-1]))
    if len(batch) == 1:
        return f"{first}, service {batch[0].service.service_name!r}"
    return f"the batch of {len(batch)} examples from {first} to {last} ('--batch_size 1' finds the example)"


def load(code: UserCode) -> Model:
    """Makes the model of ``MODULE:NAME``, ``FILE.py:NAME`` or a plug-in, ready to predict.

    Raises:
      InputError: see :func:`check`.
      UserCodeError: its code raises an exception.
    """
    if chosen := plugin_of(code.target):
        return UserModel(UserCode(chosen.plugin.target), plugins.make(chosen, ["predict"]).predict)
    return UserModel(code, make(code, "predict"))


def check(code: UserCode) -> None:
    """Checks the value of ``--model``. Only models of plug-ins are constructed.

    Raises:
      InputError: the module, name or plug-in does not exist, has no ``predict``, or takes other arguments.
      UserCodeError: its module raises an exception while it is imported.
    """
    if chosen := plugin_of(code.target):
        if code.arguments:
            reason = f"cannot be used with a plug-in, which takes {chosen.plugin.name}=ARGUMENT"
            raise InputError(reason, f"{code.flag}_args")
        plugins.make(chosen, ["predict"])
    elif ":" not in code.target:
        reason = f"{code.target!r}: expected MODULE:NAME, FILE.py:NAME or the name of a plug-in"
        raise InputError(f"{reason}; {plugins.told(plugins.MODELS)}", code.flag)
    else:
        user_code.check(code, "predict")


def plugin_of(named: str) -> plugins.Chosen | None:
    """Returns the plug-in that ``--model`` names, if any."""
    return plugins.find(plugins.MODELS, named, "--model")


def examples(dialogue: state_frames.Dialogue, services: Mapping[str, Service]) -> Iterator[Example]:
    """Yields an example for every frame of every user turn, in order.

    Raises:
      InputError: a user turn has a frame of a service that is not in the schemas.
    """
    history: list[tuple[str, str]] = []
    frames: list[tuple[Context, ...]] = []
    for position, turn in enumerate(dialogue.turns):
        history.append((turn.speaker, turn.utterance if isinstance(turn.utterance, str) else ""))
        known, is_system = [frame for frame in turn.frames if frame.service in services], turn.speaker == "SYSTEM"
        contexts = [
            Context(services[frame.service], tuple(frame.actions or ()) if is_system else ()) for frame in known
        ]
        frames.append(tuple(contexts))
        if turn.speaker == "USER":
            for frame in turn.frames:
                service = services.get(frame.service)
                if service is None:
                    where = f"{dialogue.dialogue_id} turns[{position}] {frame.service}"
                    raise InputError("the schemas of the reference do not have this service", "", where)
                yield Example(dialogue.dialogue_id, position, service, tuple(history), tuple(frames))


def predicted(
    model: Model,
    references: Sequence[state_frames.Dialogue],
    services: Mapping[str, Service],
    batch_size: int,
    named: str,
    reports: bool = True,
) -> dict[str, state_frames.Dialogue]:
    """Predicts the dialogues of a file with a model, and reports its progress unless the caller does.

    Raises:
      InputError: it returns a wrong number of states or something that is not a state, or a dialogue has a frame of a
        service that is not in the schemas.
    """
    wanted = [example for reference in references for example in examples(reference, services)]
    # Dialogue id to the position of its last example.
    last = {example.dialogue_id: i for i, example in enumerate(wanted)}
    states: list[state_frames.State] = []
    for at in range(0, len(wanted), batch_size):
        batch = wanted[at : at + batch_size]
        states += [_state(*pair, named) for pair in zip(model.predict(batch), batch, strict=True)]
        if reports:
            advance(sum(last[example.dialogue_id] == i for i, example in enumerate(batch, at)), "dialogues")
    by_id = {}
    for dialogue in references:
        turns = [state_frames.Turn(turn.speaker, []) for turn in dialogue.turns]
        by_id[dialogue.dialogue_id] = state_frames.Dialogue(dialogue.dialogue_id, turns)
    for example, state in zip(wanted, states, strict=True):
        frame = state_frames.Frame(example.service.service_name, state)
        by_id[example.dialogue_id].turns[example.turn].frames.append(frame)
    return by_id


def _state(given: Any, of: Example, named: str) -> state_frames.State:
    try:
        return msgspec.convert(given, state_frames.State, from_attributes=True)
    except msgspec.ValidationError as error:
        expected = '{"active_intent": TEXT, "requested_slots": [SLOT, ...], "slot_values": {SLOT: [VALUE, ...], ...}}'
        reason = f"{named}: predict returned something that is not a state: {error}. Expected {expected}"
        where = f"dialogue {of.dialogue_id!r}, turn {of.turn}, service {of.service.service_name!r}"
        raise InputError(f"{reason}; got {reprlib.repr(given)}", "--model", where) from None


BATCH = 64  # examples that a tracker receives at a time


class References(msgspec.Struct):
    """A set with its dialogues.

    Attributes:
      of: the set.
      split: the split of the dialogues; empty if they are in memory.
      dialogues: all dialogues.
      originals: names of services to the original's, where they differ.
    """

    of: Set
    split: str
    dialogues: list[state_frames.Dialogue]
    originals: dict[str, str] = {}


def of_corpus(corpus: Corpus, split: str | None, name: str) -> References:
    """Reads the references of a corpus.

    Args:
      corpus: the corpus.
      split: the split to score; None: ``test``, or the only split with dialogues.
      name: the name of the set.

    Raises:
      InputError: the split does not exist, or something in it cannot be read.
    """
    if split is None:
        splits = list(dict.fromkeys(split for split in corpus.splits if corpus.files_of(split)))
        split = TEST if TEST in splits or not splits else splits[0]
        if split not in splits or (split != TEST and len(splits) > 1):
            reason = f"is required: must be one of the splits that have dialogues: {', '.join(splits) or 'none'}"
            raise InputError(reason, "split")
    dialogues: list[state_frames.Dialogue] = []
    check_no_id_twice(corpus.files_of(split))
    for file in (inline(corpus, file) for file in corpus.files_of(split)):
        dialogues += state_frames.parse_dialogues(read_file(file), file.path or file.relative)
    seen = frozenset(_names(corpus, "train")) if "train" in corpus.splits else frozenset()
    services = {service.service_name: service for schemas in _schemas(corpus, split) for service in schemas.services}
    original = getattr(corpus, "original", None)
    originals = {}
    if isinstance(original, Corpus):
        originals = originals_of(name, services, _names(original, split))
        seen = seen_variants(originals, _names(original, "train"))
    return References(Set(name, "other", services, seen), split, dialogues, originals)


def _schemas(corpus: Corpus, split: str) -> list[SplitSchemas]:
    return [schemas for schemas, name in zip(corpus.folders.values(), corpus.splits, strict=True) if name == split]


def _names(corpus: Corpus, split: str) -> list[str]:
    return [service.service_name for schemas in _schemas(corpus, split) for service in schemas.services]


def of_dialogues(dialogues: Iterable[Any], schemas: Iterable[Any], name: str) -> References:
    """Reads the references from dialogues and services as dicts in SGD's form.

    Raises InputError if they are not valid.
    """
    parsed = parse_services(list(schemas), "schemas", "schemas")
    if parsed.bad:
        raise parsed.bad[0].error
    dialogue_set = Set(name, "other", {service.service_name: service for service in parsed.services}, frozenset())
    return References(dialogue_set, "", state_frames.dialogues_in_memory(dialogues, "references"))


def score(
    references: References, predictions: Any, config: state_frames.ScoreConfig
) -> tuple[list[list[state_frames.Scored]], state_frames.PassedOver]:
    """Scores the frames of each dialogue.

    Args:
      references: the references of the set.
      predictions: the path of files, dialogues or lines in memory, a corpus, or a tracker.
      config: the settings of scoring.

    Returns:
      The frames of each dialogue, and counts of what ``config.official`` has skipped.

    Raises:
      InputError: see :func:`score_dialogues`; or the references lack a predicted dialogue.
    """
    passed_over = state_frames.PassedOver()
    check_ids((dialogue.dialogue_id for dialogue in references.dialogues), "references")
    by_id, path = _predictions(references, predictions)
    if not config.official:
        state_frames.check_known(references.dialogues, by_id, path)
    slots = references.of.slots()
    scored = state_frames.score_dialogues(references.dialogues, by_id, slots, config, path, passed_over)
    return list(scored), passed_over


def _predictions(references: References, predictions: Any) -> tuple[dict[str, state_frames.Dialogue], str]:
    """Returns the predictions by dialogue id, and their place for messages."""
    if callable(predictions) or callable(getattr(predictions, "predict", None)):
        name = getattr(predictions, "__name__", type(predictions).__name__)
        if isinstance(predictions, type):
            raise InputError(f"{name} is a class: give an object of it, such as {name}()", "predictions")
        called = getattr(predictions, "predict", predictions)
        tracker = UserModel(UserCode(name, flag="predictions"), called, in_python=True)
        return predicted(tracker, references.dialogues, references.of.services, BATCH, name), name
    if isinstance(predictions, Corpus):
        predictions = predictions.dialogues(references.split or None)
    place = "predictions"
    if isinstance(predictions, str | Path):
        place, name = str(predictions), references.of.name
        files = sets.prediction_files(place, references.split, name if is_there(as_path(place) / name) else ORIGINAL)
        place = place if len(files) > 1 else next(iter(files.values()))
        rows = [row for path in files.values() for row in state_frames.read_predictions(path)]
    else:
        rows = state_frames.predictions_in_memory(predictions, place)
    return state_frames.as_dialogues(references.dialogues, rows, place), place
