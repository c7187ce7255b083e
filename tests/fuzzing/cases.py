"""What a command is run on: valid records of one of its inputs, which are mutated, and all else that it reads.

A record is a JSON value whatever the file is: a dialogue, a service, a row of a table by its columns, a line of text.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import multiwoz_corpus

from fuzzing.mutations import Json, json_text
from fuzzing.watching import Finding
from parapet.schemas.dialogue import typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import parse_services, sample_root, too_deep
from parapet.transforms.running.counts import id_of

SPLITS = ("train", "dev", "test")

RELEASE = """
name = "fuzz"
version = "1.0.0"
licence = "CC0-1.0"
description = "Mutated."
allow_problems = ["format", "reference", "span", "span_value"]

[[authors]]
name = "Ada"

[[corpora]]
path = "corpus"
name = "original"
kind = "original"
splits = ["test"]
"""


class Case(NamedTuple):
    """An input of a command, of which the records are mutated.

    Attributes:
      name: of the target: the command, and the input where it has several.
      flags: the command line, given the folder of the inputs; without ``--output``.
      seeds: valid records, given the folder of what all cases share.
      write: writes the inputs into a folder, given that of what all share, and the mutated records as JSON texts.
      check: what is wrong with the output, given the folder of the inputs, the output and the records that were read.
      damaged: the file of which the bytes are mutated, below the folder of the inputs.
      batch: mutated records in a run.
      passes: where one bad record is refused with the whole file: whether a reader takes a record. Most runs are of
        records that pass, mutated though they are, the others of few that may not.
    """

    name: str
    flags: Callable[[Path], list[str]]
    seeds: Callable[[Path], Sequence[Json]]
    write: Callable[[Path, Path, Sequence[str]], None]
    check: Callable[[Path, Path, Sequence[Json]], Iterator[Finding]] = lambda *_: iter(())
    damaged: str = ""
    batch: int = 100
    passes: Callable[[Json], bool] | None = None


def write_shared(shared: Path) -> None:
    """What all cases read beside the mutated records: a corpus of two shapes, variants, outputs of other commands."""
    services = corpus_services()
    for split in SPLITS:
        (shared / "corpus" / split).mkdir(parents=True)
        (shared / "corpus" / split / "schema.json").write_text(json.dumps(services))
        (shared / "corpus" / split / "dialogues_002.json").write_text(json.dumps(good_dialogues(split)))
    for name in ("v1", "v2"):
        for split in SPLITS:
            folder = shared / "variants" / name / split
            folder.mkdir(parents=True)
            (folder / "schema.json").write_text(json.dumps([varied(one, name[1]) for one in services]))
    (shared / "release.toml").write_text(RELEASE)
    shutil.copytree(sample_root() / "crowd", shared / "crowd")
    rows = rows_of(shared / "crowd" / "rewrites.csv")
    good = json.loads(json.dumps(rows).replace('"1_', '"good-1_').replace('"AssignmentId": "3', '"AssignmentId": "4'))
    (shared / "crowd" / "rewrites.csv").write_bytes(csv_text(list(rows[0]), [*rows, *good]))


@functools.cache
def corpus_services() -> list[Json]:
    """The services of the sample, each once, and those of MultiWOZ's shape."""
    found: dict[str, Json] = {}
    for split in SPLITS:
        for one in json.loads((sample_root() / split / "schema.json").read_bytes()):
            found.setdefault(one["service_name"], one)
    return [*found.values(), *multiwoz_corpus.schema()]


def good_dialogues(split: str) -> list[Json]:
    """Dialogues that no mutation touches: five of the sample, one of MultiWOZ's shape."""
    dialogues = json.loads((sample_root() / split / "dialogues_001.json").read_bytes())[:5]
    dialogues.append(multiwoz_corpus.dialogue(900 + SPLITS.index(split), ["hotel", "taxi"]))
    return [{**one, "turns": one["turns"][:6], "dialogue_id": f"good-{one['dialogue_id']}"} for one in dialogues]


def varied(service: Json, number: str) -> Json:
    """A variant of a service: every name ends in another way."""
    slots = {slot["name"]: f"{slot['name']}_{'also' * int(number)}" for slot in service["slots"]}
    intents = [
        {
            **intent,
            "name": f"{intent['name']}{'Too' * int(number)}",
            "required_slots": [slots[one] for one in intent["required_slots"]],
            "optional_slots": {slots[one]: value for one, value in intent["optional_slots"].items()},
            **({"result_slots": [slots[one] for one in intent["result_slots"]]} if "result_slots" in intent else {}),
        }
        for intent in service["intents"]
    ]
    return {
        **service,
        "service_name": f"{service['service_name']}{number}",
        "slots": [{**slot, "name": slots[slot["name"]]} for slot in service["slots"]],
        "intents": intents,
    }


def dialogue_seeds(_: Path) -> list[Json]:
    """Dialogues of the sample and of MultiWOZ's shape, short ones."""
    sample = [
        one for split in SPLITS for one in json.loads((sample_root() / split / "dialogues_001.json").read_bytes())
    ]
    drawn = multiwoz_corpus.domains_drawn(6)
    multiwoz = [multiwoz_corpus.dialogue(n, domains, lists_all=n % 3 == 0) for n, domains in enumerate(drawn)]
    return [{**one, "turns": one["turns"][: 2 + n % 4]} for n, one in enumerate([*sample, *multiwoz])]


def is_dialogue(record: Json) -> bool:
    """Whether readers of dialogues take it."""
    try:
        typed(record)
    except InputError:
        return False
    return not too_deep(record)


def is_service(record: Json) -> bool:
    """Whether readers of schemas take it."""
    try:
        return not parse_services([record], "", "test").bad
    except InputError:
        return False


def with_id(record: Json, number: int) -> Json:
    """A record with an id of its own, so that two have the same only by mutation."""
    if not isinstance(record, dict):
        return record
    for key, text in (("dialogue_id", "1_{:05d}"), ("AssignmentId", "3{:05d}FUZZ"), ("chat_id", "chat-{}")):
        if key in record:
            return {**record, key: text.format(number)}
    if "service_name" in record:
        old, new = record["service_name"], f"Fuzz{number}_1"
        return json.loads(json.dumps(record).replace(json.dumps(old), json.dumps(new)))
    return record


def dialogues(
    command: Sequence[str],
    split: str = "test",
    name: str = "",
    corpus: str = "--sgd",
    sets: str = "",
    batch: int = 200,
    max_bad: bool = True,
    passes: Callable[[Json], bool] | None = None,
    before: Callable[[Path, Path], None] = lambda *_: None,
) -> Case:
    """A case of mutated dialogues in one file of a split; the other files are good.

    Args:
      command: with its flags; ``{in}`` is the folder of the inputs, ``{shared}`` that of what all share.
      split: in which the dialogues are.
      name: of the target, where it is not the command.
      corpus: the flag of the corpus.
      sets: where the sets are, as a pattern below the output: each has a file of the mutated dialogues, and of good
        ones that must be the same in every run.
      batch: mutated records in a run.
      max_bad: whether the command has that flag.
      passes: as of a case.
      before: what else is written into the folder of the inputs.
    """

    def write(folder: Path, shared: Path, texts: Sequence[str]) -> None:
        shutil.copytree(shared / "corpus", folder / "corpus")
        (folder / "corpus" / split / "dialogues_001.json").write_text(f"[{', '.join(texts)}]", "utf-8", "surrogatepass")
        (folder / "shared").symlink_to(shared)
        before(folder, shared)

    def flags(folder: Path) -> list[str]:
        given = [part.replace("{in}", str(folder)).replace("{shared}", f"{folder}/shared") for part in command]
        return [*given, corpus, f"{folder}/corpus", *(["--max_bad", "100%"] if max_bad else [])]

    def check(folder: Path, output: Path, records: Sequence[Json]) -> Iterator[Finding]:
        if sets:
            yield from lost_dialogues(output, sets, split, records)
            yield from changed_good_ones(shown, output, sets, split)

    shown = name or " ".join(part for part in command[:2] if not part.startswith("-"))
    return Case(shown, flags, dialogue_seeds, write, check, f"corpus/{split}/dialogues_001.json", batch, passes)


def lost_dialogues(output: Path, sets: str, split: str, records: Sequence[Json]) -> Iterator[Finding]:
    """Dialogues that are in no file of a set and in no dead letter, or that came from nowhere."""
    dead = dead_letters(output)
    broken = [one for one in dead if one["file"] == "dialogues_001.json" and not one["dialogue_id"]]
    expected = [_name(record) for record in records]
    left_out: dict[str, list[str]] = {}
    of_file = [one["dialogue_id"] for one in dead if (one["split"], one["file"]) == (split, "dialogues_001.json")]
    placed = [one for one in of_file if re.fullmatch(r"\[\d{1,4}\]", one) and int(one[1:-1]) < len(expected)]
    for letter in dead:
        if letter["file"] == "dialogues_001.json" and letter["split"] == split:
            left_out.setdefault(letter["variant"], []).append(re.sub(r"^\[\d+\]$", "", letter["dialogue_id"]))
    for folder in folders_of(output, sets):
        if broken:
            yield Finding("a file of JSON was refused as a whole", str(broken)[:1_000])
            return
        path = folder / split / "dialogues_001.json"
        items = json.loads(path.read_bytes()) if path.is_file() else []
        found = [*map(_name, items)]
        gone = [one for one in {*expected} if expected.count(one) > found.count(one)]
        positions = {expected[int(one[1:-1])] for one in placed}  # of records too odd to have an id
        lost = {*gone} - positions - {*left_out.get("", ()), *left_out.get(folder.name, ())}
        if lost:
            yield Finding("dialogues are lost", f"{folder.name}: {sorted(lost)[:5]}; of {len(expected)}")
        if new := [one for one in {*found} if found.count(one) > expected.count(one)]:
            yield Finding("dialogues from nowhere", f"{folder.name}: {sorted(new)[:5]}")


def _name(record: Json) -> str:
    """The id of a dialogue; nothing where it has none."""
    name = id_of(record, 0)
    return "" if name == "[0]" else name


def folders_of(output: Path, sets: str) -> list[Path]:
    """The folders of the sets; ``.`` is the output itself."""
    return [output] if sets == "." else sorted(path for path in output.glob(sets) if path.is_dir())


def dead_letters(output: Path) -> list[Any]:
    """The dead letters of an output."""
    path = output / "dead_letters.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n") if line] if path.is_file() else []


_GOOD: dict[tuple[str, str], bytes] = {}  # the file of good dialogues by case and set, as the first run wrote it


def changed_good_ones(name: str, output: Path, sets: str, split: str) -> Iterator[Finding]:
    """Good dialogues that came out in another way than in the first run: what the bad ones are must not matter."""
    if "unseen_entities" in name:
        return  # kinds of slots and values are learned from all dialogues
    for place in folders_of(output, sets):
        path = place / split / "dialogues_002.json"
        if "env" in place.name or "ood" in place.name or "SR" in place.name or not path.is_file():
            continue  # which turns are changed is planned over all dialogues
        before = _GOOD.setdefault((name, place.name if sets != "." else ""), path.read_bytes())
        if before != path.read_bytes():
            yield Finding("good dialogues are others beside bad ones", f"{place.name}: see {path.name}")


# Tables and lines


def csv_text(header: Sequence[str], rows: Sequence[Json]) -> bytes:
    """A table of records; one that is no object, or has other columns, is a row of another width."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(header)
    for row in rows:
        cells = list(row.values()) if isinstance(row, dict) else row if isinstance(row, list) else [row]
        writer.writerow([cell if isinstance(cell, str) else json.dumps(cell) for cell in cells])
    return out.getvalue().encode("utf-8", "surrogatepass")


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def lines_of(path: Path) -> list[Json]:
    """The values of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def _lines(record: Json) -> list[str]:
    """A record of a file of text: a line, or the lines of a block and an empty one."""
    if isinstance(record, list):
        return [*(one if isinstance(one, str) else json.dumps(one) for one in record), ""]
    return [record if isinstance(record, str) else json.dumps(record)]


def table(
    name: str,
    command: Sequence[str],
    seeds: Callable[[Path], Sequence[Json]],
    file: str,
    keep: int = 10,
    batch: int = 100,
    before: Callable[[Path, Path], None] = lambda *_: None,
    check: Callable[[Path, Path, Sequence[Json]], Iterator[Finding]] = lambda *_: iter(()),
    passes: Callable[[Json], bool] | None = None,
) -> Case:
    """A case of a file of rows or lines, some good ones first.

    Args:
      name: of the target.
      command: with its flags; ``{file}`` is the file.
      seeds: its good records.
      file: its name, which says the format: ``.csv``, ``.jsonl``, ``.json`` (a list), ``.txt`` (a record is a line).
      keep: how many good ones are first.
      batch: mutated records in a run.
      before: what else is written into the folder of the inputs.
      check: as of a case.
      passes: as of a case.
    """

    def write(folder: Path, shared: Path, texts: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shared").symlink_to(shared)
        before(folder, shared)
        good = seeds(shared)
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            path.write_bytes(csv_text(list(good[0]), [*good[:keep], *map(json.loads, texts)]))
        elif path.suffix == ".txt":
            lines = [line for record in [*good[:keep], *map(json.loads, texts)] for line in _lines(record)]
            path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + b"\n")
        else:
            every = [*map(json_text, good[:keep]), *(text.replace("\n", " ") for text in texts)]
            text = "\n".join(every) + "\n" if path.suffix == ".jsonl" else f"[{', '.join(every)}]"
            path.write_text(text, "utf-8", "surrogatepass")

    def flags(folder: Path) -> list[str]:
        places = {"{in}": str(folder), "{shared}": f"{folder}/shared", "{file}": f"{folder}/{file}"}
        given = list(command)
        for key, place in places.items():
            given = [part.replace(key, place) for part in given]
        return given

    return Case(name, flags, seeds, write, check, file, batch, passes)
