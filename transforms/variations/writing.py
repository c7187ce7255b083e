"""The sets: each dialogue file with its user turns varied, once per kind and Env, beside a row for every turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import DialogueFile, dialogue_text
from parapet.schemas.errors import InputError, storable_row
from parapet.schemas.perturbed_turns import PERTURBED_TURNS
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.files import Written, write_staged
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.set_files import SetFiles
from parapet.transforms.user_turns import UserTurn, user_turns
from parapet.transforms.variations.envs import among_namesakes, level_of, place_in_order, placed
from parapet.transforms.variations.kinds import BAD_SPAN, TORN_SPAN, Given, Settings, row_of, vary, write_into
from parapet.transforms.variations.paraphrase import NOT_TRANSLATED, Answers
from parapet.transforms.variations.rewritten import Key as LineKey
from parapet.transforms.variations.rewritten import Rewritten
from parapet.transforms.variations.statistics import Key, tally

DEAD, COUNTS, TALLIES, EXAMPLES, MATCHED = "dead", "counts", "tallies", "examples", "matched"
SHOWN = 12  # examples of a kind on the page

OfSplit = tuple[str, str]  # kind, folder of the split


class Others(NamedTuple):
    """What others have said, as side inputs.

    Attributes:
      rewritten: the lines of files, key to text and source.
      answers: of an engine or a memory, text to its translation.
    """

    rewritten: Any
    answers: Any


class Sets(msgspec.Struct, frozen=True):
    """What is written.

    Attributes:
      output: the output folder.
      kinds: of variations.
      envs: the rates of the Env sets, as they were written; none where there are no such sets.
      settings: of the variations.
    """

    output: str
    kinds: tuple[str, ...]
    envs: tuple[str, ...]
    settings: Settings

    @property
    def names(self) -> list[str]:
        """Of all sets: those of a kind, then its Env sets."""
        return [name for kind in self.kinds for name in (kind, *self.env_names(kind))]

    def env_names(self, kind: str) -> list[str]:
        """Of a kind's Env sets."""
        return [f"{kind}-env{i}" for i in range(1, len(self.envs) + 1)]


def places_of_file(
    file: DialogueFile, sets: Sets, rewritten: Mapping[LineKey, Rewritten], answers: Answers
) -> Iterator[tuple[OfSplit, bytes]]:
    """((kind, split), the places of the turns of a file that can be varied). Of a file that cannot be read nothing."""
    given = Given(rewritten, answers)
    places: dict[str, list[bytes]] = {kind: [] for kind in sets.kinds}
    try:
        for kind, _, _, place in placed(file, sets.kinds, sets.settings, given):
            places[kind].append(place)
    except InputError:
        return  # who writes the sets says so
    for kind, found in places.items():
        yield (kind, file.split), b"".join(found)


class WriteSets(beam.PTransform):
    """Writes dialogue files of all sets into staging.

    Args:
      sets: what is written.
      thresholds: PCollection of ((kind, split), thresholds of the Env sets).
      others: side inputs.
    """

    def __init__(self, sets: Sets, thresholds: beam.PCollection, others: Others) -> None:
        super().__init__()
        self.sets, self.thresholds, self.others = sets, thresholds, others

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to Written (main), (file, letters) (DEAD), (name, n) (COUNTS), (Key, n) (TALLIES), (kind, (draw,
        row)) (EXAMPLES), (key, 1) of lines of files that have a turn (MATCHED).
        """
        write = beam.ParDo(_WriteFile(self.sets), beam.pvalue.AsDict(self.thresholds), *self.others)
        return (
            files
            | "Spread" >> beam.Reshuffle()
            | "Write file" >> write.with_outputs(DEAD, COUNTS, TALLIES, EXAMPLES, MATCHED, main="written")
        )


class _WriteFile(beam.DoFn):
    def __init__(self, sets: Sets) -> None:
        super().__init__()
        self.sets = sets

    def process(
        self,
        file: DialogueFile,
        thresholds: Mapping[OfSplit, Sequence[bytes]],
        rewritten: Mapping[LineKey, Rewritten],
        answers: Answers,
    ) -> Iterator[Written | TaggedOutput]:
        of_kinds = {kind: thresholds.get((kind, file.split), ()) for kind in self.sets.kinds}
        of = FileOfSets(file, of_kinds, self.sets, Given(rewritten, answers))
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (file.relative, of.letters))
        for count in of.counts.items():
            yield TaggedOutput(COUNTS, count)
        for number in of.tallies.items():
            yield TaggedOutput(TALLIES, number)
        for kind, rows in of.examples.items():
            for example in sorted(rows, key=lambda drawn: drawn[0])[:SHOWN]:
                yield TaggedOutput(EXAMPLES, (kind, example))
        for key in sorted(of.matched):
            yield TaggedOutput(MATCHED, (key, 1))
        for name in ("files", "dialogues", "turns"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfSets:
    """One dialogue file, as every set has it.

    Attributes:
      letters: what could not be done, and why.
      counts: see ``parapet.transforms.variations.invariants``.
      tallies: numbers of its turns.
      examples: of each kind some turns that were varied, each with its place in a drawn order.
      matched: the lines of files that have a turn here.
    """

    def __init__(self, file: DialogueFile, thresholds: Mapping[str, Sequence[bytes]], sets: Sets, given: Given) -> None:
        self.file, self.thresholds, self.sets, self.given = file, thresholds, sets, given
        self.matched: set[LineKey] = set()
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)
        self.tallies: Counter[Key] = Counter()
        self.examples: dict[str, list[tuple[bytes, dict[str, Any]]]] = {kind: [] for kind in sets.kinds}
        self._rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in sets.kinds}

    def write(self) -> list[Written]:
        """Writes it into staging; of a file that cannot be read nothing."""
        try:
            with ExitStack() as stack:
                files = SetFiles(self.sets.output, self.sets.names, self.file.relative, stack)
                self._write_dialogues(files)
                files.close()
        except InputError as error:
            self.letters = [dead_file(self.file, error)]
            self.counts = Counter(files=1, broken_files=1)
            self.tallies, self.examples, self.matched = Counter(), {}, set()
            return []
        self.counts.update({f"dialogues/{name}": n for name, n in files.dialogues.items()})
        written = files.written()
        for kind, rows in self._rows.items():
            path = f"{kind}/turns/{self.file.relative.removesuffix('.json')}.parquet"
            written.append(
                write_staged(self.sets.output, path, parquet_bytes(pa.Table.from_pylist(rows, PERTURBED_TURNS)))
            )
        return written

    def _write_dialogues(self, files: SetFiles) -> None:
        for position, raw, plain, dialogue in dialogues_of(self.file):
            self.counts["dialogues"] += 1
            if isinstance(dialogue, InputError):
                self._leave_out(id_of(raw, position), dialogue.where, dialogue.reason)
                self.counts["left_out"] += 1
                continue
            turns = list(user_turns(dialogue))
            self._count(turns)
            seed, among = self.sets.settings.seed, among_namesakes(self.file.relative, position)
            places = {said.position: place_in_order(seed, said.dialogue_id, said.position, among) for said in turns}
            for kind in self.sets.kinds:
                self._add(files, kind, raw, plain, turns, places)

    def _count(self, turns: Sequence[UserTurn]) -> None:
        self.counts["turns"] += len(turns)
        self.counts["odd_spans"] += sum(len(said.odd) for said in turns)
        for said in turns:
            if said.wrong:
                self.counts["bad_turns"] += 1
                reason = f"{BAD_SPAN}: {', '.join(said.wrong)}: not inside the utterance"
                self._leave_out(said.dialogue_id, f"turns[{said.position}]", reason)

    def _leave_out(self, dialogue_id: str, where: str, reason: str) -> None:
        self.letters.append(dead_dialogue(self.file, dialogue_id, InputError(reason, "", where)))

    def _add(
        self, files: SetFiles, kind: str, raw: Any, plain: bool, turns: Sequence[UserTurn], places: Mapping[int, bytes]
    ) -> None:
        """A dialogue in the set of one kind, and in its Env sets; rows and numbers are noted."""
        new: dict[int, dict[str, Any]] = {}
        levels: dict[int, int] = {}
        variations = []
        for said in turns:
            variation = vary(kind, said, self.sets.settings, self.given)
            level = 0
            if variation.operations:
                new[said.position] = write_into(raw["turns"][said.position], variation)
                level = levels[said.position] = level_of(places[said.position], self.thresholds[kind])
            elif variation.reason.startswith((TORN_SPAN, NOT_TRANSLATED)):
                self.counts[f"bad_turns/{kind}"] += 1
                self._leave_out(said.dialogue_id, f"turns[{said.position}]", variation.reason)
            variations.append(variation)
            row = row_of(said, variation, level)
            self._rows[kind].append(row if plain else storable_row(row))
            if variation.operations:
                self.examples[kind].append((places[said.position], self._rows[kind][-1]))
        self.counts[f"varied/{kind}/{self.file.split or '-'}"] += len(new)
        self.counts[f"unchanged/{kind}/{self.file.split or '-'}"] += len(turns) - len(new)
        tally(self.tallies, kind, zip(turns, variations, strict=True))
        lines = {(said.dialogue_id, said.position, kind) for said in turns} & self.given.rewritten.keys()
        self.counts[f"given/{kind}"] += len(lines)
        self.matched |= lines
        texts: dict[frozenset[int], bytes] = {}

        def text_with(chosen: frozenset[int]) -> bytes:
            # Of a short dialogue several sets have the same.
            if chosen not in texts:
                made = [new[i] if i in chosen else turn for i, turn in enumerate(raw["turns"])]
                texts[chosen] = dialogue_text({**raw, "turns": made}, plain)
            return texts[chosen]

        files.add(kind, text_with(frozenset(new)))
        for i, name in enumerate(self.sets.env_names(kind), 1):
            chosen = frozenset(position for position, level in levels.items() if 0 < level <= i)
            self.counts[f"replaced/{name}/{self.file.split or '-'}"] += len(chosen)
            files.add(name, text_with(chosen))
