"""Lines of rewritten turns and the turns of the dialogues: each line is given to its turn, or told to have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from parapet.transforms.dead_letters import DeadLetter
from parapet.transforms.variations.rewritten import REWRITTEN, Given, Key, Line, read_lines

Found = tuple[int, int, str, str, str]  # place of the file in the order given, line, file's name, text, source


class ReadRewritten(beam.PTransform):
    """Reads the files where workers are.

    Args:
      given: the files; none where there are none.
      kinds: which of them are made; lines of others are passed over.
    """

    def __init__(self, given: Given | None, kinds: Sequence[str]) -> None:
        super().__init__()
        self.paths, self.kinds = list(enumerate(given.paths if given else ())), tuple(kinds)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to PCollection of (Key, Found); of several lines of one key the first."""
        return (
            pipeline
            | "Files" >> beam.Create(self.paths)
            | "Lines" >> beam.FlatMap(_keyed, self.kinds)
            | "First of each turn" >> beam.CombinePerKey(min)
        )


def by_turn(lines: beam.PCollection) -> Any:
    """(Key, Found) as a side input: key to text and source."""
    return beam.pvalue.AsDict(lines | "By turn" >> beam.MapTuple(lambda key, found: (key, found[-2:])))


def _keyed(given: tuple[int, str], kinds: Sequence[str]) -> Iterator[tuple[Key, Found]]:
    place, path = given
    for number, line in read_lines(path):
        if isinstance(line, Line) and line.kind in kinds:
            yield line.key, (place, number, path.rpartition("/")[2], line.utterance, line.source or REWRITTEN)


class Fates(beam.PTransform):
    """What becomes of the lines: how many have and have not a turn, and letters for those that are of no use.

    Args:
      given: the files; none where there are none.
      lines: PCollection of (Key, Found).
    """

    def __init__(self, given: Given | None, lines: beam.PCollection) -> None:
        super().__init__()
        self.given, self.lines = given or Given((), {}, ()), lines

    def expand(self, matched: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """(Key, anything) of lines that a turn has asked for, to (where it sorts, letters) and (name, n)."""
        pipeline, given = matched.pipeline, self.given
        bad = [(f"\0{i:09}", [letter]) for i, letter in enumerate(given.bad)]
        counts = [(f"lines/{kind}", n) for kind, n in given.lines.items()]
        checked = {"lines": self.lines, "turns": matched} | "By line" >> beam.CoGroupByKey()
        letters = (
            pipeline | "Bad lines" >> beam.Create(bad),
            checked | "Lines without a turn" >> beam.FlatMap(_without_turn),
        )
        fates = (
            pipeline | "Lines read" >> beam.Create([*counts, ("bad_lines", len(bad))] if given.paths else []),
            checked | "Fates" >> beam.Map(_fate),
        )
        return letters | "Letters" >> beam.Flatten(), fates | "Counts" >> beam.Flatten()


def _without_turn(pair: tuple[Key, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[str, list[DeadLetter]]]:
    (dialogue_id, turn, _), of = pair
    if not any(of["turns"]):
        for place, number, name, _, _ in of["lines"]:
            reason = f"no_user_turn: the dialogues have no user turn {turn} of that id; --split says whose are read"
            letter = DeadLetter("", "", name, dialogue_id, f"line {number}", reason)
            yield f"\0{place:06}:{number:09}", [letter]


def _fate(pair: tuple[Key, Mapping[str, Iterable[Any]]]) -> tuple[str, int]:
    (_, _, kind), of = pair
    return f"lines_{'with' if any(of['turns']) else 'without'}_turn/{kind}", 1
