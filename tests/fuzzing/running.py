"""Rounds of a case: records are mutated, the command is run, and what is wrong is traced to the smallest record."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzzing.cases import Case, with_id, write_shared
from fuzzing.mutations import Json, at, json_text, mutated, mutated_bytes, parts
from fuzzing.watching import Finding, output_findings, run

LIMIT = 60.0  # seconds of a run of a batch: a hundredfold of what it takes


class Found(NamedTuple):
    """A finding with what it takes.

    Attributes:
      target: the name of the case.
      finding: what is wrong.
      records: the mutated records as JSON texts, as few and as small as could be.
      data: the bytes of the damaged file, where these were mutated.
    """

    target: str
    finding: Finding
    records: list[str]
    data: bytes | None = None


class Workshop:
    """A folder in which cases run, with what all of them share."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.shared = self.folder / "shared"
        write_shared(self.shared)
        self.number = itertools.count()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.last_errors: dict[str, str] = {}
        self.part = 1.0  # of the records of a round
        self.patience = 60.0  # seconds in which the smallest record of a finding is looked for

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def findings(self, case: Case, texts: Sequence[str], data: bytes | None = None) -> list[Finding]:
        """Runs a case on records, or on a damaged file: all that is wrong."""
        place = self.folder / str(next(self.number))
        inputs, output = place / "in", place / "out"
        inputs.mkdir(parents=True)
        try:
            case.write(inputs, self.shared, texts)
            if data is not None:
                (inputs / case.damaged).write_bytes(data)
            ran = run([*case.flags(inputs), "--output", str(output)], LIMIT)
            self.statuses[case.name, ran.status] += 1
            if ran.status:
                self.last_errors[case.name] = ran.errors
            found = [ran.finding] if ran.finding else []
            found += output_findings(output)
            if data is None and (output / "run.json").is_file():
                found += case.check(inputs, output, [json.loads(text) for text in texts])
            return found
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def content(self, case: Case, texts: Sequence[str]) -> bytes:
        """The file of a case whose bytes are to be damaged."""
        inputs = self.folder / str(next(self.number))
        inputs.mkdir(parents=True)
        case.write(inputs, self.shared, texts)
        data = (inputs / case.damaged).read_bytes()
        shutil.rmtree(inputs)
        return data


def round_of(workshop: Workshop, case: Case, rng: Random, known: set[str], batch: int = 0) -> tuple[int, list[Found]]:
    """One run of a case on a batch of new mutated records, and where something is wrong more to find out what.

    Args:
      workshop: where.
      case: what.
      rng: draws the mutations.
      known: the kinds of what was found before, by target; new ones are added.
      batch: how many records; 0: as the case says.

    Returns:
      The number of records, and what is new of what was found.
    """
    seeds = case.seeds(workshop.shared)
    batch = max(2, int((batch or case.batch) * workshop.part)) if case.batch > 1 else 1
    if case.damaged and rng.random() < 0.1:
        whole = workshop.content(case, [json_text(with_id(rng.choice(seeds), i)) for i in range(min(batch, 5))])
        data = mutated_bytes(whole, rng, [whole])
        found = [one for one in workshop.findings(case, [], data) if _is_new(case, one, known)]
        return 1, [_shrunk_bytes(workshop, case, one, data) for one in found]
    passing = case.passes is not None and rng.random() < 0.8
    texts = []
    for i in range(batch if passing or case.passes is None else 2):
        for _ in range(20):
            record = mutated(with_id(rng.choice(seeds), i), rng, rng.sample(seeds, min(3, len(seeds))))
            if not passing or case.passes(record):
                texts.append(json_text(record, rng))
                break
    return len(texts), list(_traced(workshop, case, texts, known))


def _is_new(case: Case, finding: Finding, known: set[str]) -> bool:
    key = f"{case.name.split()[0]}: {finding.kind}"
    if key in known:
        return False
    known.add(key)
    return True


def _traced(workshop: Workshop, case: Case, texts: list[str], known: set[str]) -> Iterator[Found]:
    """What is wrong with a batch: each defect by its records, which are taken out until nothing is wrong."""
    for _ in range(12):
        found = workshop.findings(case, texts)
        if not found:
            return
        kind = found[0].kind
        if not workshop.patience:
            yield from (Found(case.name, one, texts) for one in found if _is_new(case, one, known))
            return
        culprits = _fewest(texts, lambda some, kind=kind: any(f.kind == kind for f in workshop.findings(case, some)))
        for one in found:
            if _is_new(case, one, known):
                yield _shrunk(workshop, case, one, culprits if one.kind == kind else texts)
        left = list(texts)
        for text in culprits:
            left.remove(text)
        if len(left) == len(texts):  # it is wrong without any record
            return
        texts = left


def _fewest(texts: list[str], wrong: Callable[[list[str]], bool]) -> list[str]:
    """Few of some records with which it is still wrong: halves, as long as one of them will do."""
    if wrong([]):
        return []
    while len(texts) > 1:
        half = len(texts) // 2
        if wrong(texts[:half]):
            texts = texts[:half]
        elif wrong(texts[half:]):
            texts = texts[half:]
        else:
            break
    i = 0
    while 1 < len(texts) <= 12 and i < len(texts):  # two together
        less = texts[:i] + texts[i + 1 :]
        texts, i = (less, i) if wrong(less) else (texts, i + 1)
    return texts


def _shrunk(workshop: Workshop, case: Case, finding: Finding, texts: Sequence[str]) -> Found:
    """The same finding of smaller records: parts are taken out as long as it stays the same."""
    values: list[Json] = [json.loads(text) for text in texts]
    if len(values) > 3:
        return Found(case.name, finding, list(texts))
    end = time.monotonic() + workshop.patience

    def same(values: Sequence[Json]) -> bool:
        return any(one.kind == finding.kind for one in workshop.findings(case, list(map(json_text, values))))

    if not same(values):
        return Found(case.name, finding, list(texts))  # the text of it matters
    for i in range(len(values)):
        values[i] = smaller(values[i], lambda value, i=i: same([*values[:i], value, *values[i + 1 :]]), end)
    return Found(case.name, finding, list(map(json_text, values)))


def smaller(value: Json, wrong: Callable[[Json], bool], end: float) -> Json:
    """A value of which all parts have been taken out without which it is still wrong.

    Args:
      value: a JSON value.
      wrong: whether one is still wrong.
      end: when to stop, as of ``time.monotonic``.
    """
    ways = [way for way in sorted(parts(value), key=lambda way: (len(way), str(way))) if way]
    while ways and time.monotonic() < end:
        way = ways.pop(0)
        less = json.loads(json.dumps(value))
        try:
            parent = at(less, way[:-1])
            del parent[way[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        if wrong(less):
            value = less
            ways = [
                one
                for one in sorted(parts(value), key=lambda one: (len(one), str(one)))
                if one and len(one) >= len(way)
            ]
    return value


def _shrunk_bytes(workshop: Workshop, case: Case, finding: Finding, data: bytes) -> Found:
    end = time.monotonic() + workshop.patience

    def same(some: bytes) -> bool:
        return any(one.kind == finding.kind for one in workshop.findings(case, [], some))

    return Found(case.name, finding, [], smaller_bytes(data, same, end))


def smaller_bytes(data: bytes, wrong: Callable[[bytes], bool], end: float) -> bytes:
    """Bytes of which no large part can be taken out."""
    step = len(data) // 2
    while step > 8 and time.monotonic() < end:
        i = 0
        while i < len(data) and time.monotonic() < end:
            less = data[:i] + data[i + step :]
            data, i = (less, i) if wrong(less) else (data, i + step)
        step //= 2
    return data
