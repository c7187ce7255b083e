"""What tests share: commands as a person runs them, small corpora, files as they are, and how thorough a run is."""

import contextlib
import csv
import io
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parapet.schemas import layout

# How thorough a run is.

THOROUGH = bool(os.environ.get("PARAPET_THOROUGH"))  # `make test-all`
# Two threads, each a worker of its own, divide the work as two processes do, and cost no dozen seconds to start. In
# processes nothing is shared that was not sent, and sets have another order: some tests always run there.
TWO_PROCESSES = ["--workers=2"]
TWO_THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
TWO_WORKERS = TWO_PROCESSES if THOROUGH else TWO_THREADS

# The seed of whatever tests train or draw moves all of them at once, and no test may mind: `make test-machines`.
SEED = int(os.environ.get("PARAPET_TEST_SEED", "0"))
DRAW_NOTHING = ("rules", "tfidf", "nearest")

BUNDLED = layout.sample_root()
SAMPLE = {"root": BUNDLED}  # in the process of the tests a part of it: conftest.py


# Commands.


@dataclass(frozen=True)
class Result:
    """What a command said, and what it left in its output folder."""

    status: int
    output: str
    errors: str
    folder: Path

    @property
    def files(self) -> dict[str, bytes]:
        return files_of(self.folder)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8")

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_bytes())

    def rows(self, pattern: str = "**/*.parquet") -> list[dict[str, Any]]:
        """The rows of all files that match, in the order of their names."""
        return [row for path in sorted(self.folder.glob(pattern)) for row in rows_of(path)]

    def dialogues(self, split: str = ".") -> dict[str, Any]:
        """Dialogues by their ids: ``typos/test``, or all below the folder."""
        return dialogues_of(self.folder / split)

    @property
    def manifest(self) -> dict[str, Any]:
        return self.json("run.json")

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        return rows_of(self.folder / "dead_letters.jsonl")


def argv_of(*argv: object, **flags: object) -> list[str]:
    """A command line: ``max_bad="5%"`` becomes ``--max_bad 5%``, a list several values, True a flag alone."""
    line = [str(part) for part in argv]
    for name, value in flags.items():
        if value is True:
            line.append(f"--{name}")
        elif value is not None and value is not False:
            values = value if isinstance(value, list | tuple) else [value]
            line += [f"--{name}", *map(str, values)]
    return line


def run(*argv: object, status: int | tuple[int, ...] | None = 0, **flags: object) -> Result:
    """Runs ``parapet`` in this process.

    Args:
      argv: the command and what follows it.
      status: how it must end, or one of several ways; None for any way.
      flags: see :func:`argv_of`; the result has the files of ``output``.
    """
    from parapet.pipelines.main import main

    line = _seeded(argv_of(*argv, **flags))
    output, errors = io.StringIO(), io.StringIO()
    root = logging.getLogger()  # which a command sets up for its own process: the tests' comes back
    handlers, level = root.handlers[:], root.level
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            ended = main(line)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    folder = line[line.index("--output") + 1] if "--output" in line else ""
    result = Result(ended, output.getvalue(), errors.getvalue(), Path(folder))
    assert status is None or ended in (status if isinstance(status, tuple) else (status,)), (
        f"{line} ended with {ended}: {result.output}{result.errors}"
    )
    return result


def refused(*argv: object, status: int | tuple[int, ...] = 2, **flags: object) -> str:
    """What a command says that must not run: an error, and no traceback."""
    said = run(*argv, status=status, **flags).errors
    assert "error: " in said or said.startswith("parapet "), said  # of flags it says how the command is called
    assert "Traceback" not in said, said
    return said


def raised(kind: type[Exception], call: Callable[..., Any], *args: Any, match: str | None = None, **named: Any) -> Any:
    """The error that a call must end with; ``match`` is searched in what it says, as a regular expression."""
    with pytest.raises(kind, match=match) as caught:
        call(*args, **named)
    return caught.value


def train(argv: Sequence[str]) -> int:
    """``parapet train`` with this run's seed; its exit status."""
    from parapet.pipelines.train import run as train_command

    return train_command(_seeded(["train", *argv])[1:])


def _seeded(line: list[str]) -> list[str]:
    """A training gets this run's seed, if it draws anything."""
    draws = line[:1] == ["train"] and line[1:] and line[1] not in DRAW_NOTHING and "--help" not in line
    return [*line, "--seed", str(SEED)] if SEED and draws else line


def lacking(whole: Any, *parts: Any) -> list[Any]:
    """Those of the parts that something does not hold: what a page says, or a command, is asserted of all at once."""
    return [part for part in parts if part not in whole]


def holding(whole: Any, *parts: Any) -> list[Any]:
    """Those of the parts that something holds."""
    return [part for part in parts if part in whole]


def as_nobody(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Credentials for AWS of nobody, and none of those of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "practice")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, str(folder / "none"))


def cases(names: str, *rows: Any, **more: Any) -> Any:
    """``pytest.mark.parametrize``, of names apart by spaces and the values of each case."""
    return pytest.mark.parametrize(",".join(names.split()), rows, **more)


# Files.


def files_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by their paths in it, with their contents."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet, CSV or JSON lines file."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text("utf-8-sig")
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def json_of(path: Path) -> Any:
    """The value of a JSON file."""
    return json.loads(path.read_bytes())


def write(path: Path, content: Any) -> Path:
    """Writes text or bytes as they are, rows as CSV or JSON lines by the name of the file, other values as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, "utf-8")
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(content[0]))
            table.writeheader()
            table.writerows(content)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content), "utf-8")
    else:
        path.write_text(json.dumps(content), "utf-8")
    return path


def quoted(rows: Sequence[Sequence[str]]) -> str:
    """Rows as the requester site exports them: every cell in quotes."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    return out.getvalue()


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Changes the value of a JSON file: in place, or by what the change returns."""
    value = json.loads(path.read_bytes())
    changed = change(value)
    path.write_text(json.dumps(value if changed is None else changed))


def dialogues_of(folder: Path) -> dict[str, Any]:
    """The dialogues below a folder by their ids, in the order of files."""
    files = sorted(folder.rglob("dialogues_*.json"))
    return {dialogue["dialogue_id"]: dialogue for file in files for dialogue in json.loads(file.read_bytes())}


# Corpora.

Json = dict[str, Any]


def act(name: str, slot: str = "", *values: str, **more: Any) -> Json:
    """An action; its values are canonical unless it is said otherwise."""
    canonical = {"canonical_values": list(values)} if values else {}
    return {"act": name, "slot": slot, "values": list(values), **canonical, **more}


def span(slot: str, utterance: str, value: str, **more: Any) -> Json:
    """Where a value first stands in an utterance."""
    start = utterance.index(value)
    return {"slot": slot, "start": start, "exclusive_end": start + len(value), **more}


def state(intent: str = "NONE", requested: Sequence[str] = (), /, **values: list[str]) -> Json:
    return {"active_intent": intent, "requested_slots": list(requested), "slot_values": values}


def frame(service: str, *actions: Json, slots: Sequence[Json] = (), **more: Any) -> Json:
    return {"service": service, "slots": list(slots), "actions": list(actions), **more}


def turn(speaker: str, utterance: str, *frames: Json) -> Json:
    return {"speaker": speaker, "utterance": utterance, "frames": list(frames)}


def dialogue(name: str, *turns: Json) -> Json:
    """A dialogue of the services of its frames."""
    services = dict.fromkeys(of["service"] for turn in turns for of in turn["frames"])
    return {"dialogue_id": name, "services": list(services), "turns": list(turns)}


def slot(name: str, description: str = "", *values: str) -> Json:
    """A slot of a schema, categorical where it has values."""
    return {"name": name, "description": description, "is_categorical": bool(values), "possible_values": list(values)}


def intent(
    name: str,
    description: str = "",
    *required: str,
    transactional: bool = False,
    results: Sequence[str] = (),
    **optional: str,
) -> Json:
    return {
        "name": name,
        "description": description,
        "is_transactional": transactional,
        "required_slots": list(required),
        "optional_slots": optional,
        "result_slots": list(results),
    }


def service(name: str, slots: Sequence[Json], intents: Sequence[Json] = (), description: str = "") -> Json:
    return {"service_name": name, "description": description, "slots": list(slots), "intents": list(intents)}


def corpus(root: Path, schema: Sequence[Json] | None = None, **splits: Sequence[Any]) -> Path:
    """Writes a corpus: of each split its dialogues, or a list of dialogues for each of its files.

    Args:
      root: its folder.
      schema: the services of every split; by default those of the sample's split.
    """
    for split, dialogues in splits.items():
        data = (
            (layout.sample_root() / split / "schema.json").read_bytes()
            if schema is None
            else json.dumps(schema).encode()
        )
        write(root / split / "schema.json", data)
        files = dialogues if dialogues and isinstance(dialogues[0], list) else [dialogues]
        for number, content in enumerate(files, 1):
            write(root / split / f"dialogues_{number:03}.json", list(content))
    return root


def sample_dialogues(split: str = "test") -> list[Json]:
    """The sample's dialogues of a split, of its first file."""
    dialogues: list[Json] = json.loads((layout.sample_root() / split / "dialogues_001.json").read_bytes())
    return dialogues
