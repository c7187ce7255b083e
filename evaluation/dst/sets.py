"""The sets whose states are scored: their schemas, and their dialogue files beside what was predicted for each."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import msgspec

from parapet.evaluation.bootstrap import REPLICATES
from parapet.evaluation.dst.frames import ScoreConfig, Slots, slots_of
from parapet.evaluation.dst.totals import Policy, Unit
from parapet.evaluation.sets import ORIGINAL, Kind, SetRoot, Sources, find_sets, prediction_files
from parapet.evaluation.user_code import UserCode
from parapet.schemas.layout import SplitSchemas, read_root
from parapet.schemas.service import Service
from parapet.transforms.corpora import read_corpus


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
    found = {name: name for name in original}
    for one in sets.values():
        if one.kind == "variant":
            found |= originals_of(one.name, one.services, original)
    return found


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
