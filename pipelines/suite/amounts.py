"""How much there is in a folder: bytes as listed, dialogues and turns as counted in the text, services of schemas.

Only schemas and the beginning of one file of each folder are parsed. What a step has not written yet has amounts, too:
those that are predicted from its inputs.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, dialogue_bytes
from parapet.schemas.limits import open_file, read_whole

_MOST_READ = 200_000_000  # bytes of the dialogue files of a folder; the others are taken to be like those
_PARSED = 1_000_000  # bytes of a file that are parsed
_DIALOGUE_FILE = re.compile(r"dialogues_.*\.json")
_DIALOGUE, _USER, _ANSWER = b'"dialogue_id"', b'"USER"', b"<QuestionIdentifier>"
_NUMBER = re.compile(r"_\d+$")  # of a service, after the name of its domain
_LOOKED_AT = 40  # dialogues that are parsed
_DEEPEST = 3  # folders below the one that is counted


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is directly in a folder. Numbers that are predicted need not be whole.

    Attributes:
      files: dialogue files.
      megabytes: of dialogues, indented as in SGD.
      dialogues: in these files.
      turns: of users, in these dialogues.
      touched: services of a dialogue, on average.
      services: of the schema.
      domains: of the schema: different names of services without their numbers.
      elements: slots and intents of the schema.
      answers: of crowdworkers, in other files.
      others: megabytes of other files.
    """

    files: float = 0.0
    megabytes: float = 0.0
    dialogues: float = 0.0
    turns: float = 0.0
    touched: float = 0.0
    services: float = 0.0
    domains: float = 0.0
    elements: float = 0.0
    answers: float = 0.0
    others: float = 0.0

    def times(self, factor: float) -> Amounts:
        """As many times the dialogues, under the same schema."""
        names = ("megabytes", "dialogues", "turns")
        return msgspec.structs.replace(self, **{name: getattr(self, name) * factor for name in names})

    def under(self, schema: Amounts) -> Amounts:
        """The same dialogues under another schema."""
        names = ("services", "domains", "elements")
        return msgspec.structs.replace(self, **{name: getattr(schema, name) for name in names})


# Of a folder and those below it, by the path relative to it: "" is the folder itself.
Contents = Mapping[str, Amounts]


def below(contents: Contents, path: str) -> dict[str, Amounts]:
    """The contents of a folder, or of the folder of a file."""
    if not path:
        return dict(contents)
    found = {
        name.removeprefix(path).lstrip("/"): amounts
        for name, amounts in contents.items()
        if name == path or name.startswith(f"{path}/")
    }
    parent = path.rpartition("/")[0]
    return found or ({"": contents[parent]} if parent in contents else {})


def splits(contents: Contents, names: Collection[str] = SPLITS) -> dict[str, Amounts]:
    """Some splits of a corpus. A folder without splits is itself one of them."""
    found = {name: amounts for name, amounts in contents.items() if name in SPLITS}
    if not found and "" in contents and (contents[""].dialogues or contents[""].services):
        return {"": contents[""]}
    return {name: amounts for name, amounts in found.items() if name in names}


def variants(contents: Contents) -> dict[str, dict[str, Amounts]]:
    """The variants in a folder, by name, each with its splits. A folder may be a variant itself."""
    if found := splits(contents):
        return {"": found}
    heads = dict.fromkeys(name.partition("/")[0] for name in contents if "/" in name)
    return {head: found for head in heads if (found := splits(below(contents, head)))}


def total(every: Iterable[Amounts]) -> Amounts:
    """All together. The schema is that of the folder with most services, which splits share."""
    every = list(every)
    if not every:
        return Amounts()
    dialogues = sum(one.dialogues for one in every)
    added = {
        name: sum(getattr(one, name) for one in every)
        for name in ("files", "megabytes", "dialogues", "turns", "answers", "others")
    }
    touched = sum(one.touched * one.dialogues for one in every) / dialogues if dialogues else 0.0
    return Amounts(**added, touched=touched).under(max(every, key=lambda one: one.services))


def count(path: Path) -> dict[str, Amounts]:
    """Counts what is in a folder and those below it, or in a file. A schema file stands for its folder."""
    if path.is_file():
        return {"": _count(sorted(map(str, path.parent.iterdir())) if path.name == "schema.json" else [str(path)])}
    found = {}
    for root, folders, names in os.walk(path, followlinks=True):
        relative = os.path.relpath(root, path)
        depth = 0 if relative == "." else relative.count(os.sep) + 1
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < _DEEPEST)
        files = [os.path.join(root, name) for name in sorted(names) if not name.startswith(".")]
        if files:
            found["" if depth == 0 else relative] = _count(files)
    return found


def _count(paths: Iterable[str]) -> Amounts:
    dialogues, others, schema = list[str](), list[str](), {}
    for path in paths:
        name = os.path.basename(path)
        if _DIALOGUE_FILE.fullmatch(name):
            dialogues.append(path)
        elif name == "schema.json":
            schema = _of_schema(path)
        else:
            others.append(path)
    answers = sum(map(_answers, others))
    return Amounts(**_of_dialogues(dialogues), **schema, answers=answers, others=sum(map(_size, others)) / 1e6)


def _of_dialogues(paths: list[str]) -> dict[str, float]:
    if not paths:
        return {}
    size = sum(map(_size, paths))
    every = -(-size // _MOST_READ) or 1  # each file, or each second, third, ...
    read = sum(map(_size, paths[::every]))
    counts = [_occurrences(path, _DIALOGUE, _USER) for path in paths[::every]]
    scale = size / read if read else 0.0
    touched, indented = _of_beginning(paths[0])
    return {
        "files": len(paths),
        "megabytes": size * indented / 1e6,
        "dialogues": sum(dialogues for dialogues, _ in counts) * scale,
        "turns": sum(turns for _, turns in counts) * scale,
        "touched": touched,
    }


def _occurrences(path: str, *texts: bytes) -> list[int]:
    found, ends = [0] * len(texts), [b""] * len(texts)
    with suppress(OSError, InputError), open_file(path) as file:  # the step will say that it cannot be read
        while chunk := file.read(2**20):
            for i, text in enumerate(texts):
                data = ends[i] + chunk
                found[i] += data.count(text)
                ends[i] = data[len(data) - len(text) + 1 :]
    return found


def _of_beginning(path: str) -> tuple[float, float]:
    """Of the first dialogues of a file: how many services they have; how many times as long they are when indented."""
    with suppress(OSError, InputError, ValueError, TypeError, AttributeError, RecursionError):
        with TextIOWrapper(open_file(path), encoding="utf-8") as file:
            text = file.read(_PARSED)
        decoder, dialogues, place = json.JSONDecoder(), list[Any](), text.index("[") + 1
        with suppress(ValueError):  # the last one is cut off
            while len(dialogues) < _LOOKED_AT:
                dialogue, end = decoder.raw_decode(text, text.index("{", place))
                dialogues.append(dialogue)
                place = end
        length = max(place - text.index("["), 1)
        touched = sum(len(one["services"]) for one in dialogues) / max(len(dialogues), 1)
        return touched, len(dialogue_bytes(dialogues)) / length if dialogues else 1.0
    return 0.0, 1.0


def _of_schema(path: str) -> dict[str, float]:
    with suppress(InputError, ValueError, TypeError, KeyError, AttributeError, RecursionError, msgspec.MsgspecError):
        services: list[dict[str, Any]] = msgspec.json.decode(read_whole(path))
        names = {str(one["service_name"]) for one in services}
        elements = sum(len(one.get("slots", [])) + len(one.get("intents", [])) for one in services)
        return {
            "services": len(names),
            "domains": len({_NUMBER.sub("", name) for name in names}),
            "elements": elements,
        }
    return {}


def _answers(path: str) -> float:
    """Answers of crowdworkers: in CSV the cells of such columns, from the beginning of the file; else in XML."""
    if path.endswith(".jsonl"):
        return _occurrences(path, _ANSWER)[0]
    if not path.endswith(".csv"):
        return 0.0
    with (
        suppress(OSError, InputError, csv.Error),
        TextIOWrapper(open_file(path), encoding="utf-8", errors="replace", newline="") as file,
    ):
        text = file.read(_PARSED)
        rows = list(csv.reader(io.StringIO(text)))
        columns = [i for i, name in enumerate(rows[0]) if name.startswith("Answer.")] if rows else []
        found = sum(bool(row[i].strip()) for row in rows[1:] for i in columns if i < len(row))
        return found * max(_size(path) / len(text.encode()), 1.0) if text else 0.0
    return 0.0


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0
