"""Few-shot splits: small training sets for each domain, with tests (RADDLE, Peng et al. 2021, section 4).

All files are read for candidates; the dialogues of a domain are chosen from its candidates, which are held in memory
(about 400 bytes each); then the chosen ones are read again and written. With ``unseen_services`` the training sets of a
domain have dialogues of other domains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from sys import intern
from typing import Any

import apache_beam as beam
import msgspec

from parapet.schemas import dialogue as sgd
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, SplitSchemas, as_path, raw_by_name, read_root, schema_bytes
from parapet.transforms.core import fence, progress, runs, seeding
from parapet.transforms.core.counts import (
    Balance,
    CountKey,
    Counts,
    check_letters,
    dead_dialogue,
    id_of,
    in_order,
    of_dialogues,
)
from parapet.transforms.core.files import WriteFiles
from parapet.transforms.perturb.corpora import dialogues_of, domain_of, domains_of, services_in, without
from parapet.transforms.report.numbers import Metric, Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Report, Tile, report_files
from parapet.transforms.report.text import number

FILE = "dialogues_001.json"

Schemas = Mapping[str, SplitSchemas]  # by split


def read_schemas(root: str) -> dict[str, SplitSchemas]:
    """Reads the schema of each split that has dialogues. Raises InputError if there are none, or one has no schema."""
    folders = sgd.dialogue_folders(as_path(root), read_root(root, leave_out_bad=True))
    return {split: folders[split] for split in SPLITS if split in folders}


class Rule(msgspec.Struct, frozen=True):
    """The requested sets.

    Attributes:
      domains: the domains.
      sizes: the sizes of the training sets, ascending.
      test: the maximum number of dialogues of a test.
      train_split: the split for training dialogues.
      test_split: the split for test dialogues.
      multi_domain: whether to allow dialogues that also touch other domains.
      seed: the seed of the random order.
      unseen_services: whether training dialogues must not touch the domain, instead of having to.
    """

    domains: tuple[str, ...]
    sizes: tuple[int, ...]
    test: int
    train_split: str
    test_split: str
    multi_domain: bool
    seed: str
    unseen_services: bool = False


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A dialogue that may be chosen for a domain. Candidates sort in a random order determined by the seed.

    Attributes:
      draw: a 64-bit hash of seed, domain and dialogue id.
      dialogue_id: its id.
      file: its file, below the root.
      position: its position in the file.
      digest: a hash of all utterances; dialogues with the same digest count as equal.
      services: the services that it touches, lists, or has idle frames of, which the schema of its set must contain.
      slots: element ids (``Restaurants_1/slot/city``) of the domain's slots that occur in it.
      turns: the number of user turns.
      alone: whether it touches no other domain.
    """

    draw: int
    dialogue_id: str
    file: str
    position: int
    digest: bytes
    services: tuple[str, ...]
    slots: tuple[str, ...]
    turns: int
    alone: bool


Candidates = dict[str, list[Candidate]]  # by split; pickled as a whole, so that each name is stored once


class Chosen(msgspec.Struct, frozen=True):
    """The dialogues chosen for a domain.

    Attributes:
      train: the dialogues of the largest training set; smaller sets are its first ones.
      test: the dialogues of the test.
      occurring: element ids of the slots that occur in any training candidate, sorted.
      candidates: the number of training candidates without duplicates, of each other or of the test.
      several: the number of training dialogues skipped because they also touch other domains.
    """

    train: list[Candidate]
    test: list[Candidate]
    occurring: list[str]
    candidates: int
    several: int


Result = Mapping[str, Chosen]  # by domain


class WriteFewShot(beam.PTransform):
    """Chooses nested training sets and a test for each domain, and publishes them with statistics, card and page."""

    tallies = staticmethod(of_dialogues)

    def __init__(self, schemas: Schemas, rule: Rule, run: runs.RunInfo) -> None:
        super().__init__()
        self.schemas, self.rule, self.run = schemas, rule, run

    def expand(self, files: beam.PCollection[sgd.DialogueFile]) -> beam.PCollection:
        """Transforms a PCollection of dialogue files to a single element, the manifest."""
        outputs = files | "Read" >> runs.WriteEach(
            partial(read_candidates, schemas=self.schemas, rule=self.rule), shown=0, others=("candidates",)
        )
        of_domains = outputs.others["candidates"] | "By domain" >> beam.GroupByKey()
        chosen = (
            files.pipeline
            | "Run" >> beam.Create([self.run], reshuffle=False)
            | "Check"
            >> beam.Map(
                checked_result,
                self.rule,
                beam.pvalue.AsDict(of_domains | "Choose" >> beam.Map(chosen_of_domain, self.rule)),
                beam.pvalue.AsList(outputs.dead_letters),
                beam.pvalue.AsIter(outputs.counts),
            )
        )
        by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
        uses = chosen | "Uses" >> beam.FlatMap(uses_of, self.rule)
        texts = {"file": by_path, "uses": uses} | "Join" >> beam.CoGroupByKey() | "Texts" >> beam.FlatMap(texts_of)
        files_of_sets = texts | "By set" >> beam.GroupByKey() | "Set files" >> beam.MapTuple(file_of)
        written = files_of_sets | "Write sets" >> WriteFiles(self.run.output)
        counts = [
            dialogues | f"Count {name}" >> beam.Map(lambda _, key: (key, 1), tuple(CountKey(name)))
            for name, dialogues in (("chosen", uses), ("written", texts))
        ] | "Counts of sets" >> beam.Flatten()
        # Every dialogue counts for some domains, others, or is left out; every chosen dialogue is written.
        finish = runs.FinishRun(
            self.run,
            partial(metadata_files, schemas=self.schemas, rule=self.rule),
            beam.pvalue.AsSingleton(chosen),
            tallies=self.tallies,
            invariants=[Balance("dialogues", ("of_domains", "of_others", "left_out")), Balance("chosen", ("written",))],
        )
        published: beam.PCollection = outputs.with_more("Sets", written=written, counts=counts) | "Finish" >> finish
        return published


def metadata_files(counts: Counts, _: object, result: Result, schemas: Schemas, rule: Rule) -> dict[str, bytes]:
    """Returns statistics, card and page, and the schema of each set."""
    statistics = statistics_of(result, rule)
    files = report_files(statistics, report_of(statistics, rule))
    for domain, chosen in result.items():
        for folder, dialogues in sets_of(domain, chosen, rule):
            is_test = folder.endswith("/test")
            used = {service for candidate in dialogues for service in candidate.services}
            has_own = is_test or not rule.unseen_services
            services = [
                raw
                for name, raw in raw_by_name([schemas[rule.test_split if is_test else rule.train_split]]).items()
                if name in used or (has_own and domain_of(name) == domain)
            ]
            files[f"{folder}/schema.json"] = schema_bytes(services)
    return files


def statistics_of(result: Result, rule: Rule) -> dict[str, Any]:
    """Returns the content of ``statistics.json``; ``short`` lists what is less than requested, a line each."""
    domains = {name: _of_domain(result[name], rule) for name in rule.domains}
    return {"domains": domains, "short": [*_short(domains, rule), *without_training(result, rule)]}


def summary(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each domain that has training sets."""
    for name, domain in statistics["domains"].items():
        if domain["train_candidates"]:
            sizes = ", ".join(str(of_set["dialogues"]) for of_set in domain["train"].values())
            n = domain["test"]["dialogues"]
            yield f"{name}: training sets of {sizes}; {n:,} test dialogue{'' if n == 1 else 's'}"


def report_of(statistics: Mapping[str, Any], rule: Rule) -> Report:
    """Creates the report for the page and the card."""
    domains = {name: numbers for name, numbers in statistics["domains"].items() if numbers["train_candidates"]}
    sizes = metrics_named("dialogues", "user_turns")
    training = Numbers(
        "Training sets",
        "domains/*/train/*",
        ("domain", "size"),
        [*sizes, Metric("slots", "slots"), Metric("slots_that_occur", "slots of the domain")],
        note="Slots are those that occur in the set, and in all training dialogues of the domain. Dialogues that touch "
        f"other domains are {'taken' if rule.multi_domain else 'left out'}. Seed: `{rule.seed}`.",
    )
    test = Numbers("Test sets", "domains/*/test", ("domain",), sizes)
    of_other = "of other domains" if rule.unseen_services else "for each domain"
    return Report(
        command="few_shot",
        title="Few-shot splits",
        headline="Few-shot splits",
        lead=f"Training sets {of_other} from `{rule.train_split}`, each with the first dialogues of the next larger "
        f"one, and test dialogues from `{rule.test_split}`.",
        tiles=[
            Tile("domains", number(len(domains))),
            Tile("dialogues of a training set", ", ".join(map(str, rule.sizes))),
            Tile("test dialogues", number(sum(numbers["test"]["dialogues"] for numbers in domains.values()))),
        ],
        notes=[f"{line[:1].upper()}{line[1:]}." for line in statistics["short"]],
        sections=sections_of({"domains": domains}, training, test),
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "what could not be used"},
    )


def domains_in(schemas: SplitSchemas) -> list[str]:
    """Returns the domains of a schema, sorted."""
    return sorted({domain_of(service.service_name) for service in schemas.services})


def read_candidates(file: sgd.DialogueFile, schemas: Schemas, rule: Rule) -> runs.FileResult:
    """Returns the candidates of one file. Unusable dialogues become dead letters."""
    result = runs.FileResult(file.relative)
    services = {service.service_name: service for service in schemas[file.split].services}
    of_file: dict[str, Candidates] = {}
    result.counts.add("files")
    for position, raw, dialogue in progress.tracked(dialogues_of(file), "dialogues"):
        result.counts.add("dialogues")
        try:
            if isinstance(dialogue, InputError):
                raise dialogue
            candidates = candidates_of(dialogue, services_in(dialogue, services), rule, file, position)
        except Exception as error:
            result.dead_letters.append(dead_dialogue(file, id_of(raw, position), fence.bad_record(error)))
            result.counts.add("left_out")
            continue
        result.counts.add("of_domains" if candidates else "of_others")
        for domain, candidate in candidates.items():
            of_file.setdefault(domain, {}).setdefault(file.split, []).append(candidate)
    result.others["candidates"] = list(of_file.items())
    return result


def candidates_of(
    dialogue: sgd.Dialogue, needed_services: Sequence[str], rule: Rule, file: sgd.DialogueFile, position: int
) -> dict[str, Candidate]:
    """Returns the dialogue as a candidate of each requested domain that it touches.

    For training with ``unseen_services``, these are the domains that it does not touch.

    Args:
      dialogue: the dialogue.
      needed_services: the services that a schema for the dialogue needs.
      rule: the requested sets.
      file: the file of the dialogue.
      position: the position of the dialogue in the file.
    """
    touched = set(domains_of(dialogue))
    is_unseen = rule.unseen_services and file.split == rule.train_split
    digest = seeding.short_digest(seeding.key_of(*(turn.utterance for turn in dialogue.turns)))
    slots = {slot for turn in dialogue.turns for frame in turn.frames for slot in frame_slots(frame)}
    candidates = {}
    for domain in sorted(set(rule.domains) - touched if is_unseen else touched.intersection(rule.domains)):
        own_slots = [slot for slot in slots if (domain_of(slot.partition("/")[0]) == domain) != is_unseen]
        services = [name for name in needed_services if not is_unseen or domain_of(name) != domain]
        candidates[domain] = Candidate(
            draw=seeding.stable_hash(rule.seed, "few_shot", domain, dialogue.dialogue_id),
            dialogue_id=dialogue.dialogue_id,
            file=file.relative,
            position=position,
            digest=digest,
            services=tuple(map(intern, services)),  # interned so that each name is in memory once
            slots=tuple(sorted(own_slots)),
            turns=sum(turn.speaker == "USER" for turn in dialogue.turns),
            alone=len(touched) == 1,
        )
    return candidates


def frame_slots(frame: sgd.Frame) -> set[str]:
    """Returns the element ids of the slots in a frame: in spans, actions, the state, a service call."""
    names = {span.slot for span in frame.slots}
    names |= {
        action.slot for action in frame.actions or [] if action.slot and not sgd.is_marker(action.act, action.slot)
    }
    if frame.state:
        names |= {*frame.state.slot_values, *frame.state.requested_slots}
    if frame.service_call:
        names |= set(frame.service_call.parameters)
    return {intern(f"{frame.service}/slot/{name}") for name in names}


def chosen_of_domain(candidates: tuple[str, Iterable[Candidates]], rule: Rule) -> tuple[str, Chosen]:
    """Chooses the dialogues of a domain from the candidates of each file."""
    domain, files = candidates
    pool: Candidates = {}
    for of_file in files:
        for split, of_split in of_file.items():
            pool.setdefault(split, []).extend(of_split)
    return domain, choose(pool.get(rule.train_split, ()), pool.get(rule.test_split, ()), rule)


def checked_result(
    run: runs.RunInfo, rule: Rule, chosen: Mapping[str, Chosen], dead_letters: Sequence[runs.Letters], counts: runs.Sums
) -> dict[str, Chosen]:
    """Returns the chosen dialogues of every domain.

    Args:
      run: the run.
      rule: the requested sets.
      chosen: those of the domains that have candidates.
      dead_letters: the dead letters of all files.
      counts: the counts of each file.

    Raises:
      InputError: too many dialogues cannot be used, or no domain has a training dialogue.
    """
    # Reported here, before a lack of candidates that they may cause.
    check_letters(in_order(dead_letters), of_dialogues(Counts.of_pairs(counts)), run.max_bad, run.done)
    result = {domain: chosen.get(domain) or choose((), (), rule) for domain in rule.domains}
    if not any(of_domain.train for of_domain in result.values()):
        raise InputError("; ".join(without_training(result, rule)), "--domains")
    return result


def choose(train: Sequence[Candidate], test: Sequence[Candidate], rule: Rule) -> Chosen:
    """Chooses the dialogues of one domain.

    The training sets are nested and contain every slot; the test has other dialogues.

    Args:
      train: the candidates of the training split.
      test: the candidates of the test split.
      rule: the requested sets.
    """
    trainable, testable = (
        different(sorted(candidate for candidate in candidates if candidate.alone or rule.multi_domain))
        for candidates in (train, test)
    )
    # SGD's splits share ids. The test prefers dialogues whose id is not in training, so that training loses few;
    train_ids = {candidate.dialogue_id for candidate in trainable}
    tests = sorted(testable, key=lambda candidate: candidate.dialogue_id in train_ids)[: rule.test]
    digests, ids = {candidate.digest for candidate in tests}, {candidate.dialogue_id for candidate in tests}
    left = [
        candidate for candidate in trainable if candidate.digest not in digests and candidate.dialogue_id not in ids
    ]
    return Chosen(
        train=ordered(left)[: rule.sizes[-1]],
        test=tests,
        occurring=sorted({slot for candidate in trainable for slot in candidate.slots}),
        candidates=len(left),
        several=0 if rule.multi_domain else sum(not candidate.alone for candidate in train),
    )


def different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Drops candidates with the utterances or the id of an earlier one."""
    digests, ids, kept = set[bytes](), set[str](), []
    for candidate in candidates:
        if candidate.digest not in digests and candidate.dialogue_id not in ids:
            kept.append(candidate)
        digests.add(candidate.digest)
        ids.add(candidate.dialogue_id)
    return kept


def ordered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Orders candidates: first a cover of all slots, then the others in random order.

    Greedy set cover (Chvatal 1979): the next one always has the most slots not covered yet; ties go to the earlier one
    in random order. So small sets have about as many slots as is possible for their size.
    """
    # Among candidates with the same slots, only the first can cover anything new.
    first: dict[tuple[str, ...], int] = {}
    for i, candidate in enumerate(candidates):
        first.setdefault(candidate.slots, i)
    uncovered = {slot for slots in first for slot in slots}
    cover: dict[int, None] = {}
    while uncovered:
        best = max(first, key=lambda slots: (len(uncovered.intersection(slots)), -first[slots]))
        cover[first[best]] = None
        uncovered.difference_update(best)
    return [candidates[i] for i in (*cover, *(i for i in range(len(candidates)) if i not in cover))]


def sets_of(domain: str, chosen: Chosen, rule: Rule) -> Iterator[tuple[str, list[Candidate]]]:
    """Yields (folder, dialogues) for each set of a domain; none if it has no training dialogue."""
    if chosen.train:
        for size in rule.sizes:
            yield f"{domain}/{size}/train", chosen.train[:size]
        if chosen.test:
            yield f"{domain}/test", chosen.test


def uses_of(result: Result, rule: Rule) -> Iterator[tuple[str, tuple[int, str, int, str]]]:
    """Yields the use of every dialogue of every set by its file.

    A use is its position in the file, the path of the set's file, its position there, and the domain whose idle frames
    are removed, because the training set must not name it.
    """
    for domain, chosen in result.items():
        for folder, dialogues in sets_of(domain, chosen, rule):
            hidden = domain if rule.unseen_services and not folder.endswith("/test") else ""
            for rank, candidate in enumerate(dialogues):
                yield candidate.file, (candidate.position, f"{folder}/{FILE}", rank, hidden)


def texts_of(joined: tuple[str, dict[str, Iterable[Any]]]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Yields (path of a set's file, (position there, text)) for every chosen dialogue of a file.

    Raises:
      InputError: a chosen dialogue cannot be written; it is too late to choose another.
    """
    _, groups = joined
    uses: dict[int, list[tuple[str, int, str]]] = {}
    for position, *use in groups["uses"]:
        uses.setdefault(position, []).append(tuple(use))
    if not uses:
        return
    (file,) = groups["file"]
    for position, raw, _ in dialogues_of(file):
        for path, rank, hidden in uses.get(position, ()):
            shown = raw
            if hidden:
                services = {*raw["services"], *(frame["service"] for turn in raw["turns"] for frame in turn["frames"])}
                shown = without(raw, [name for name in services if domain_of(name) == hidden])
            with fence.needed(file.path, f"[{position}]"):
                text = sgd.dialogue_text(shown)
            yield path, (rank, text)


def file_of(path: str, texts: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """Returns (path, bytes) of a set's dialogue file."""
    in_order = [text for _, text in sorted(texts)]
    return path, sgd.OPENING + sgd.BETWEEN.join(in_order) + sgd.CLOSING if in_order else sgd.EMPTY


def _of_domain(chosen: Chosen, rule: Rule) -> dict[str, Any]:
    occurring = set(chosen.occurring)
    return {
        "train_candidates": chosen.candidates,
        "slots_that_occur": len(occurring),
        "train": {str(size): _of_set(chosen.train[:size], occurring) for size in rule.sizes},
        "test": _lengths(chosen.test),
    }


def _of_set(dialogues: Sequence[Candidate], occurring: set[str]) -> dict[str, Any]:
    missing = occurring - {slot for candidate in dialogues for slot in candidate.slots}
    return {**_lengths(dialogues), "slots": len(occurring) - len(missing), "slots_missing": sorted(missing)}


def _lengths(dialogues: Sequence[Candidate]) -> dict[str, int]:
    return {"dialogues": len(dialogues), "user_turns": sum(candidate.turns for candidate in dialogues)}


def without_training(result: Result, rule: Rule) -> list[str]:
    """Explains which domains have no training dialogue: first the domains for which an option helps."""
    lacking = {name: chosen for name, chosen in result.items() if not chosen.train}
    several = {name: chosen.several for name, chosen in lacking.items() if chosen.several}
    none = [name for name in lacking if name not in several]
    lines = []
    if several:
        listed = ", ".join(f"{name} ({n:,})" for name, n in several.items())
        lines.append(
            "these domains get no set without --multi_domain, because their training dialogues also touch other "
            f"domains: {listed}"
        )
    if none:
        reason = "all training dialogues touch them" if rule.unseen_services else "no training dialogue touches them"
        lines.append(f"these domains get no set, because {reason}: {', '.join(none)}")
    return lines


def _short(domains: Mapping[str, Any], rule: Rule) -> list[str]:
    """Returns what is less than requested: a line for each domain that has a training dialogue."""
    lines = []
    largest = str(rule.sizes[-1])
    hint = "" if rule.multi_domain else " (--multi_domain also takes those that touch other domains)"
    for name, domain in domains.items():
        train = domain["train"][largest]
        if not train["dialogues"]:
            continue
        parts = [
            f"only {n} of {requested} {unit} dialogues{hint}"
            for unit, n, requested in (
                ("training", train["dialogues"], rule.sizes[-1]),
                ("test", domain["test"]["dialogues"], rule.test),
            )
            if n < requested
        ]
        if train["slots_missing"]:
            parts.append(f"no training dialogue has the slots {', '.join(train['slots_missing'])}")
        if parts:
            lines.append(f"{name}: {'; '.join(parts)}")
    return lines
