"""Rounds: an input of a command's line is damaged, the command is run, and what is wrong is traced to few records."""

import base64
import csv
import io
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from commands import ended, inputs_of, lines, path_of, ready, takes
from kit import files_of, json_of, quoted, rows_of, write

from fuzzing.mutations import mutated, mutated_bytes, mutated_text, reformatted, spliced
from fuzzing.watching import Finding, output_findings, run
from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import id_of

LINES = lines("/place", "/place/out")
TARGETS = [(name, i) for name in LINES for i, _, _ in inputs_of(LINES[name], "/place")]
# Of these every set has every dialogue, or a dead letter says why not.
KEEP_ALL = ("perturb", "language_variations", "rewrite", "ood", "unseen_entities")
LEAVE_OUT = takes("--max_bad") - {"predict"}  # which only language models have
SEEDS = Path(__file__).parent / "seeds"


class Found(NamedTuple):
    """Damage, and what came of it.

    Attributes:
      line: of ``commands.lines``.
      position: of the argument that names the input.
      file: the damaged file, below the input, or the name of the input.
      data: its bytes.
      finding: what is wrong.
    """

    line: str
    position: int
    file: str
    data: bytes
    finding: Finding


def findings(place: Path, line: str, position: int, file: str, data: bytes) -> list[Finding]:
    """Runs a line with other bytes in one file of an input: all that is wrong."""
    argv, folder = ready(place, line), place / f"fuzzed-{os.getpid()}"
    path = Path(path_of(argv[position]))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if path.is_dir():  # without its manifest, by which all damage would be refused at once
        shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("run.json"))
        (folder / path.name / file).write_bytes(data)
    else:
        (folder / file).write_bytes(data)
    argv[position] = argv[position].replace(str(path), str(folder / (path.name if path.is_dir() else file)))
    argv += ["--max_bad", "100%"] if argv[0] in LEAVE_OUT else []
    status, finding = run(ended(argv, str(folder / "out")))
    wrong = [finding] if finding else []
    wrong += output_findings(folder / "out")
    if argv[0] in KEEP_ALL and argv[position - 1] == "--sgd" and status == 0:
        wrong += lost_dialogues(folder / "out", file, data)
    return wrong


def lost_dialogues(output: Path, file: str, data: bytes) -> Iterator[Finding]:
    """Dialogues of a damaged file that are in no set and in no dead letter, or that came from nowhere."""
    split, _, name = file.partition("/")
    try:
        records = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not name.startswith("dialogues_") or not isinstance(records, list):
        return
    expected = Counter(id_of(record, i) for i, record in enumerate(records))
    letters = [row for row in rows_of(output / "dead_letters.jsonl") if (row["split"], row["file"]) == (split, name)]
    if any(not letter["dialogue_id"] for letter in letters):  # the file as a whole
        return
    dead = {letter["dialogue_id"] for letter in letters}
    dead |= {id_of(records[int(of[1:-1])], int(of[1:-1])) for of in dead if of[1:-1].isdigit()}
    for place in {path.parent for path in output.rglob(f"{split}/dialogues_*.json")}:
        path = place / name
        written = json_of(path) if path.is_file() else []
        there = Counter(id_of(record, i) for i, record in enumerate(written))
        if gone := [key for key in expected if expected[key] > there[key] and key not in dead]:
            yield Finding("dialogues are lost", f"{place}: {gone[:5]}")
        if new := [key for key in there if there[key] > expected[key]]:
            yield Finding("dialogues from nowhere", f"{place}: {new[:5]}")


def damaged(name: str, whole: bytes, rng: Random) -> bytes:
    """A file with mutated values or mutated bytes."""
    try:
        units, joined = parted(name, whole)
    except ValueError:  # it is of no format whose values we know
        return mutated_bytes(whole, rng, [whole])
    if rng.random() < 0.3:
        return mutated_bytes(whole, rng, [whole])
    if name.endswith(".csv") and rng.random() < 0.3:  # a column goes, comes twice, or has another name or place
        columns = list(zip_longest(*units, fillvalue=""))
        title, *cells = rng.choice(columns)
        pieces = [[(mutated_text(title, rng), *cells)], columns[::-1], rng.sample(columns, len(columns))]
        return joined(list(map(list, zip(*spliced(columns, pieces, rng), strict=True))))
    some = rng.choice([1, 1, 3, len(units) // 2])
    for i in rng.sample(range(len(units)), min(max(some, 1), len(units))):
        units[i] = mutated(units[i], rng, units[:3])
    data = joined(units)
    return reformatted(data, rng) if name.endswith(".json") and rng.random() < 0.1 else data


def parted(name: str, data: bytes) -> tuple[list[Any], Callable[[list[Any]], bytes]]:
    """The records of a file, and what makes a file of records; ValueError for another format."""
    if name.endswith(".json"):
        value = json.loads(data)
        if isinstance(value, list):
            return value, lambda units: json.dumps(units).encode()
        return [value], lambda units: json.dumps(units[0] if units else {}).encode()
    if name.endswith(".jsonl"):
        rows = [json.loads(line) for line in data.splitlines()]
        return rows, lambda units: "".join(f"{json.dumps(unit)}\n" for unit in units).encode()
    if name.endswith(".csv"):
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
        return rows, lambda units: _bytes(
            quoted([list(map(_text, row if isinstance(row, list) else [row])) for row in units])
        )
    if name.endswith((".txt", ".toml")):
        return data.decode().split("\n"), lambda units: _bytes("\n".join(map(_text, units)))
    raise ValueError(name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def round_of(
    place: Path, line: str, position: int, rng: Random, known: set[str], patience: float = 60.0
) -> list[Found]:
    """Damages one file of an input; what is new of what was found, with as few records as can be.

    Args:
      place: where lines are made.
      line, position: the target.
      rng: draws the damage.
      known: kinds of findings by command; new ones are added.
      patience: seconds in which records are taken out of a finding.
    """
    path = Path(path_of(ready(place, line)[position]))
    files = [name for name in files_of(path) if name != "run.json"] if path.is_dir() else [path.name]
    file = rng.choice([name for name in files if not name.startswith(".")] or files)
    data = damaged(file, (path / file if path.is_dir() else path).read_bytes(), rng)
    new = []
    for finding in findings(place, line, position, file, data):
        key = f"{LINES[line][0]}: {finding.kind}"
        if key not in known:
            known.add(key)
            less = smaller(file, data, lambda some, kind=finding.kind: any(
                one.kind == kind for one in findings(place, line, position, file, some)), patience)  # fmt: skip
            new.append(Found(line, position, file, less, finding))
    return new


def smaller(file: str, data: bytes, wrong: Callable[[bytes], bool], patience: float) -> bytes:
    """A file without the records without which it is still wrong, or without such parts of its bytes."""
    try:
        units, joined = parted(file, data)
    except ValueError:
        units, joined = list(data), bytes
    end, step = time.monotonic() + patience, len(units) // 2
    while step and time.monotonic() < end:
        i = 0
        while i < len(units) and time.monotonic() < end:
            less = joined(units[:i] + units[i + step :])
            if wrong(less):
                units = units[:i] + units[i + step :]
                data = less
            else:
                i += step
        step //= 2
    return data


def keep(found: Found) -> Path:
    """Writes a finding as a seed, which the tests try again."""
    kind, data = found.finding.kind, base64.b64encode(found.data).decode()
    content = {"line": found.line, "position": found.position, "file": found.file, "kind": kind, "data": data}
    name = re.sub("[^a-zA-Z0-9]+", "_", f"{found.line} {kind}")[:80]
    return write(SEEDS / f"{name}.json", json.dumps(content, indent=1) + "\n")


def again(place: Path, seed: Path) -> list[Finding]:
    """What is still wrong with a seed."""
    kept = json_of(seed)
    try:
        return findings(place, kept["line"], kept["position"], kept["file"], base64.b64decode(kept["data"]))
    except InputError as error:
        return [Finding("an InputError that no command caught", str(error))]
