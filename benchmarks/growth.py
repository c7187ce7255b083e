"""Corpora that grow in dialogues or in services; ``benchmarks.corpus`` has those that grow in crowd answers.

They are made from the bundled sample, whose licence allows it, and resemble a larger collection: ids are unique, names
differ between the copies of a dialogue, and user turns have an additional sentence with words drawn by their frequency
in English. Two calls with the same arguments write the same bytes.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from wordfreq import top_n_list, word_frequency

from parapet.schemas import layout

PER_FILE = 128  # dialogues, as in SGD's files

_NUMBERED = ("Main", "Hill", "Harbour", "Old", "New", "North", "South", "Upper", "Lower", "Royal", "Garden", "Mill")


def name_of_copy(service: str, c: int) -> str:
    """Names a copy: ``Ferries_103`` is a copy of ``Ferries_1``, in the same domain."""
    return f"{service}{c:02}"


def make_corpus(root: Path, dialogues: Mapping[str, int], services: int = 1, seed: str = "0") -> None:
    """Writes a corpus in the SGD layout, unless it exists.

    Args:
      root: the folder.
      dialogues: split to its number of dialogues: ``{"train": 1000, "test": 200}``.
      services: copies of each of the sample's services. A dialogue uses the services of one copy.
      seed: determines names and sentences.
    """
    done = root / "done"
    if done.exists():
        return
    for split in layout.read_root(layout.sample_root()):
        if not (wanted := dialogues.get(split.split, 0)):
            continue
        folder = root / split.split
        folder.mkdir(parents=True, exist_ok=True)
        schema = [
            {**raw, "service_name": name_of_copy(raw["service_name"], c)} for c in range(services) for raw in split.raw
        ]
        (folder / "schema.json").write_bytes(layout.schema_bytes(schema if services > 1 else split.raw))
        known = [one for path in layout.dialogue_files(layout.sample_root(), split.split) for one in _read(path)]
        for first in range(0, wanted, PER_FILE):
            texts = [
                _copy_of_dialogue(known[i % len(known)], split.split, i, services, seed)
                for i in range(first, min(first + PER_FILE, wanted))
            ]
            number = first // PER_FILE + 1
            (folder / f"dialogues_{number:03}.json").write_bytes(layout.dialogue_bytes(texts))
    done.touch()


def make_variants(corpus: Path, root: Path, variants: int = 5) -> None:
    """Writes schema variants ``v1``, ``v2``, ... of a corpus, with a word before the name of each slot and intent."""
    from parapet.transforms.variants.matching import compose_variant

    for split in layout.read_root(corpus):
        for k in range(1, variants + 1):
            word = _words()[40 + k]
            schema = []
            for raw in split.raw:
                names = {f"slot_{i}": f"{word}_{slot['name']}" for i, slot in enumerate(raw["slots"])}
                names |= {f"intent_{i}": f"{word.title()}{one['name']}" for i, one in enumerate(raw["intents"])}
                schema.append(compose_variant(raw, k, names, dict.fromkeys((*names, "service"), f"the {word} thing")))
            place = root / f"v{k}" / split.split
            place.mkdir(parents=True, exist_ok=True)
            (place / "schema.json").write_bytes(layout.schema_bytes(schema))


def _read(path: Path) -> Iterator[dict[str, Any]]:
    yield from json.loads(path.read_bytes())


def _copy_of_dialogue(dialogue: dict[str, Any], split: str, i: int, services: int, seed: str) -> dict[str, Any]:
    """Copies a dialogue under the ``i``-th id, with other names and an additional sentence in each user turn."""
    drawn = random.Random(f"{seed} {split} {i}")
    names: dict[str, str] = {}
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            for action in frame["actions"]:
                if action["slot"].endswith(("name", "city", "address")) or "location" in action["slot"]:
                    for value in action["values"]:
                        names.setdefault(value, f"{value} {drawn.choice(_NUMBERED)} {drawn.choice(_words()[200:3000])}")
    copy = i % services
    turns = [_copy_of_turn(turn, names, copy if services > 1 else None, drawn) for turn in dialogue["turns"]]
    about = [name_of_copy(name, copy) if services > 1 else name for name in dialogue["services"]]
    return {"dialogue_id": f"{split}_{i:07}", "services": about, "turns": turns}


def _copy_of_turn(
    turn: dict[str, Any], names: Mapping[str, str], copy: int | None, drawn: random.Random
) -> dict[str, Any]:
    text = turn["utterance"]
    spans = sorted(
        {
            (span["start"], span["exclusive_end"])
            for frame in turn["frames"]
            for span in frame["slots"]
            if "start" in span
        }
    )
    written, end, moved = "", 0, {}
    for start, stop in spans:
        if start < end:
            continue
        written += text[end:start]
        value = names.get(text[start:stop], text[start:stop])
        moved[start, stop] = (len(written), len(written) + len(value))
        written, end = written + value, stop
    written += text[end:]
    if turn["speaker"] == "USER":
        written += f" {' '.join(_drawn(drawn, drawn.randint(2, 9))).capitalize()}."
    frames = []
    for frame in turn["frames"]:
        frame = _renamed(frame, names)
        slots = []
        for span in frame["slots"]:
            if "start" in span:
                place = moved.get((span["start"], span["exclusive_end"]))
                if place is None:
                    continue
                span = {**span, "start": place[0], "exclusive_end": place[1]}
            slots.append(span)
        if copy is not None:
            frame["service"] = name_of_copy(frame["service"], copy)
        frames.append({**frame, "slots": slots})
    return {**turn, "frames": frames, "utterance": written}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return {key: _renamed(item, names) for key, item in value.items()} if isinstance(value, dict) else value


def _drawn(drawn: random.Random, n: int) -> list[str]:
    words, weights = _vocabulary()
    return drawn.choices(words, cum_weights=weights, k=n)


@cache
def _words() -> list[str]:
    return [word for word in top_n_list("en", 20_000) if word.isalpha() and word.isascii()]


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    words = _words()
    return words, list(accumulate(word_frequency(word, "en") for word in words))


def make_rewritings(path: Path, workers: int) -> None:
    """Writes crowd rewritings of the sample's user turns, in other words for each of the workers."""
    source = layout.sample_root() / "crowd" / "rewrites.csv"
    rows = list(csv.DictReader(source.read_text(encoding="utf-8").splitlines(keepends=True)))
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        for w in range(workers):
            for row in rows:
                drawn = random.Random(f"{row['AssignmentId']} {w}")
                copy = {**row, "AssignmentId": f"{row['AssignmentId']}W{w}", "WorkerId": f"{row['WorkerId']}W{w}"}
                for column, text in row.items() if w else ():
                    if column.startswith("Answer.") and text.strip():
                        copy[column] = f"{text} {' '.join(_drawn(drawn, 1))}"
                writer.writerow(copy)


def make_chats(path: Path, chats: int) -> None:
    """Repeats the sample's chats under new ids, each with an additional sentence."""
    known = (layout.sample_root() / "chats.jsonl").read_text(encoding="utf-8").splitlines()
    with path.open("w", encoding="utf-8") as handle:
        for i in range(chats):
            drawn = random.Random(f"chat {i}")
            chat = json.loads(known[i % len(known)])
            for turn in chat["turns"]:
                turn["text"] += f" {' '.join(_drawn(drawn, 6))}."
            handle.write(json.dumps({**chat, "chat_id": f"chat {i}"}) + "\n")
