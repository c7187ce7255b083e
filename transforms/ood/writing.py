"""The sets: each dialogue file with its injections, once per rate, beside a row for every user turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.schemas.ood_turns import OOD_TURNS
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.files import Written, write_staged
from parapet.transforms.ood.injecting import Row, injected
from parapet.transforms.ood.plan import Injection, Recipe, most_uses, wanted
from parapet.transforms.ood.planning import sound_dialogues
from parapet.transforms.ood.pool import STATUSES
from parapet.transforms.ood.statistics import uses_in
from parapet.transforms.ood.texts import key_of
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.seeding import stable_hash
from parapet.transforms.set_files import SetFiles

DEAD, COUNTS, USED, EXAMPLES = "dead", "counts", "used", "examples"
SHOWN = 12  # examples of a set on the page


class WriteSets(beam.PTransform):
    """Writes dialogue files of all sets into staging, and their rows."""

    def __init__(self, output: str, recipe: Recipe) -> None:
        super().__init__()
        self.output, self.recipe = output, recipe

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> Any:
        """(DialogueFile, (file, Injection)) to Written (main), (file, letters) (DEAD), (name, n) (COUNTS),
        (key, (set, split)) of every injected turn (USED), (set, (draw, example)) (EXAMPLES).
        """
        files, injections = inputs
        by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
        return (
            {"file": by_path, "injections": injections}
            | "Join" >> beam.CoGroupByKey()
            | "Spread" >> beam.Reshuffle()
            | "Write file"
            >> beam.ParDo(_WriteFile(self.output, self.recipe)).with_outputs(
                DEAD, COUNTS, USED, EXAMPLES, main="written"
            )
        )


class _WriteFile(beam.DoFn):
    def __init__(self, output: str, recipe: Recipe) -> None:
        super().__init__()
        self.output, self.recipe = output, recipe

    def process(self, joined: tuple[str, dict[str, Iterable[Any]]]) -> Iterator[Written | TaggedOutput]:
        relative, found = joined
        (file,) = found["file"]
        of = FileOfSets(file, found["injections"], self.recipe, self.output)
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (relative, of.letters))
        for count in of.counts.items():
            yield TaggedOutput(COUNTS, count)
        for used in of.used:
            yield TaggedOutput(USED, used)
        for name, rows in of.examples.items():
            for example in sorted(rows, key=lambda drawn: drawn[0])[:SHOWN]:
                yield TaggedOutput(EXAMPLES, (name, example))
        for name in ("files", "dialogues"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfSets:
    """One dialogue file, as every set has it.

    Attributes:
      letters: what could not be read, and why.
      counts: see :func:`check_invariants`.
      used: (key, (set, split)) of every injected turn.
      examples: of each set its injected turns with the turns around them, each with its place in a drawn order.
    """

    def __init__(self, file: DialogueFile, injections: Iterable[Injection], recipe: Recipe, output: str) -> None:
        self.file, self.recipe, self.output = file, recipe, output
        self.split = file.split or "all"
        self.injections: dict[int, list[Injection]] = {}
        for one in injections:
            self.injections.setdefault(one.dialogue, []).append(one)
        self._reset()

    def _reset(self) -> None:
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)
        self.used: list[tuple[str, tuple[str, str]]] = []
        self.examples: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._rows: dict[str, list[Row]] = {name: [] for name in self.recipe.sets}

    def write(self) -> list[Written]:
        """Writes it into staging; of a file that cannot be read nothing."""
        try:
            with ExitStack() as stack:
                files = SetFiles(self.output, self.recipe.sets, self.file.relative, stack)
                self._write_dialogues(files)
        except InputError as error:
            self._reset()
            self.letters = [dead_file(self.file, error)]
            self.counts = Counter(files=1, broken_files=1)
            return []
        written = files.written()
        self.counts.update({f"dialogues/{name}": n for name, n in files.dialogues.items()})
        for name, rows in self._rows.items():
            path = f"{name}/turns/{self.file.relative.removesuffix('.json')}.parquet"
            written.append(write_staged(self.output, path, parquet_bytes(pa.Table.from_pylist(rows, OOD_TURNS))))
        return written

    def _write_dialogues(self, files: SetFiles) -> None:
        sets = self.recipe.sets
        for position, raw, plain, dialogue in sound_dialogues(self.file):
            self.counts["dialogues"] += 1
            if isinstance(dialogue, InputError):
                self.letters.append(dead_dialogue(self.file, id_of(raw, position), dialogue))
                self.counts["left_out"] += 1
                continue
            self.counts[f"user_turns/{self.split}"] += sum(turn.speaker == "USER" for turn in dialogue.turns)
            injections = self.injections.get(position, [])
            for i, name in enumerate(sets):
                chosen = [one for one in injections if one.sets >= len(sets) - i]
                new, rows = injected(raw, chosen, self.recipe.place, self.recipe.seed)
                files.add(name, dialogue_text(new, plain))
                self._note(name, new, rows, chosen)
        files.close()

    def _note(self, name: str, new: dict[str, Any], rows: list[Row], chosen: Sequence[Injection]) -> None:
        self._rows[name] += rows
        self.counts["twice_in_dialogue"] += len(chosen) - len({one.utterance.key for one in chosen})
        self.counts[f"touched/{name}/{self.split}"] += bool(chosen)
        for one in chosen:
            group = "+".join(one.utterance.domains) or one.utterance.source.split(":")[0].split("/")[0]
            self.counts[f"from/{name}/{group}"] += 1
        for row in rows:
            self.counts[f"{row['label']}/{name}/{self.split}"] += 1
            if row["label"] == "ood":
                self.used.append((key_of(row["utterance"]), (name, self.split)))
                place = stable_hash("example", self.file.relative, row["dialogue_id"], str(row["turn"]))
                self.examples.setdefault(name, []).append((place, example(new["turns"], row)))


def example(turns: Sequence[Any], row: Row) -> dict[str, Any]:
    """An injected turn with the turns around it."""
    at = row["turn"]
    after = turns[at + 2]["utterance"] if at + 2 < len(turns) else ""
    return {**row, "before": turns[at - 1]["utterance"] if at else "", "after": after}


def uses_of(used: beam.PCollection) -> beam.PCollection:
    """(key, (set, split)) of injected turns to (name, n): utterances in two splits, and those used so many times."""
    return (
        used
        | "By utterance" >> beam.GroupByKey()
        | "Uses" >> beam.FlatMapTuple(lambda _, uses: _uses(list(uses)).items())
    )


def _uses(uses: list[tuple[str, str]]) -> Counter[str]:
    times = Counter(uses)
    counts = Counter(f"uses/{name}/{split}/{n}" for (name, split), n in times.items())
    counts["overlapping"] = len({split for _, split in uses}) - 1
    return counts


def check_invariants(counts: dict[str, int], recipe: Recipe) -> dict[str, int]:
    """Every dialogue is in every set or left out; rates are exact; no utterance is used too often, or in two splits.

    Raises:
      RuntimeError: something of this does not hold.
    """
    wrong = []
    for rate, name in zip(recipe.rates, recipe.sets, strict=True):
        if counts.get("dialogues", 0) != counts.get(f"dialogues/{name}", 0) + counts.get("left_out", 0):
            wrong.append(f"dialogues of {name}")
        for split in recipe.splits:
            of = f"{name}/{split or 'all'}"
            turns = counts.get(f"user_turns/{split or 'all'}", 0)
            if (counts.get(f"in_domain/{of}", 0), counts.get(f"ood/{of}", 0)) != (turns, wanted(rate, turns)):
                wrong.append(f"turns of {of}")
            most = most_uses(turns) if recipe.own else 1
            if any(n > most for n in uses_in(of, counts)):
                wrong.append(f"uses in {of}")
    wrong += [f"utterances {name}" for name in ("overlapping", "twice_in_dialogue") if counts.get(name, 0)]
    if counts.get("texts", 0) != sum(counts.get(f"pool/{status}", 0) for status in STATUSES):
        wrong.append("texts of the source")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts
