"""Helpers of the tests: run commands in this process, make small corpora, read files, and set how thorough a run is."""

import contextlib
import csv
import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from parapet.schemas import layout
from parapet.schemas.decisions import COLUMNS, csv_bytes

# Thoroughness of a run.

THOROUGH = bool(os.environ.get("PARAPET_THOROUGH"))  # `make test-all`
# Two threads, each with its own worker, split the work like two processes and save a dozen seconds of startup. Only
# processes share nothing that was not sent, and order sets differently, so some tests always use processes.
TWO_PROCESSES = ["--workers=2"]
TWO_THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
TWO_WORKERS = TWO_PROCESSES if THOROUGH else TWO_THREADS

# The seed of everything that tests train or draw; results must not depend on it: `make test-machines`.
SEED = int(os.environ.get("PARAPET_TEST_SEED", "0"))
DRAW_NOTHING = ("rules", "tfidf", "nearest")

BUNDLED = layout.sample_root()
SAMPLE = {"root": BUNDLED}  # conftest.py replaces it by a part of the sample in the tests' process


# Commands.


@dataclass(frozen=True)
class Result:
    """The output of a command, and the files in its output folder."""

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
        """Reads the rows of all matching files, in the order of their names; without tables of results."""
        paths = (path for path in sorted(self.folder.glob(pattern)) if path.name != "results.parquet")
        return [row for path in paths for row in rows_of(path)]

    def dialogues(self, split: str = ".") -> dict[str, Any]:
        """Reads dialogues by their ids, below a folder such as ``typos/test``, or all."""
        return dialogues_of(self.folder / split)

    @property
    def manifest(self) -> dict[str, Any]:
        return self.json("run.json")

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        return rows_of(self.folder / "dead_letters.jsonl")


def argv_of(*argv: object, **flags: object) -> list[str]:
    """Makes a command line:

    ``max_bad="5%"`` becomes ``--max_bad 5%``, a list several values, True a flag without value.
    """
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
      argv: the command and its arguments.
      status: the expected exit status, or several; None for any.
      flags: see :func:`argv_of`; the result has the files of ``output``.
    """
    from parapet.pipelines.main import main

    line = _seeded(argv_of(*argv, **flags))
    output, errors = io.StringIO(), io.StringIO()
    root = logging.getLogger()  # commands configure it for their own process, so it is restored below
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
    """Runs a command that must fail with an error and without a traceback; returns its stderr."""
    said = run(*argv, status=status, **flags).errors
    assert "error: " in said or said.startswith("parapet "), said  # errors about flags begin with the program's name
    assert "Traceback" not in said, said
    return said


def raised(kind: type[Exception], call: Callable[..., Any], *args: Any, match: str | None = None, **named: Any) -> Any:
    """Returns the error that a call must raise; ``match`` is a regular expression for its message."""
    with pytest.raises(kind, match=match) as caught:
        call(*args, **named)
    return caught.value


def train(argv: Sequence[str]) -> int:
    """Runs ``parapet train`` with this run's seed; returns its exit status."""
    from parapet.pipelines import main

    return main.run("train", _seeded(["train", *argv])[1:])


def _seeded(line: list[str]) -> list[str]:
    """Adds this run's seed to a training that uses one."""
    draws = line[:1] == ["train"] and line[1:] and line[1] not in DRAW_NOTHING and "--help" not in line
    return [*line, "--seed", str(SEED)] if SEED and draws else line


def lacking(whole: Any, *parts: Any) -> list[Any]:
    """Lists the parts that ``whole`` does not contain, to assert several parts of a page or output at once."""
    return [part for part in parts if part not in whole]


def holding(whole: Any, *parts: Any) -> list[Any]:
    """Lists the parts that ``whole`` contains."""
    return [part for part in parts if part in whole]


def as_nobody(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Replaces the AWS credentials of whoever runs the tests by invalid ones."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "practice")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, str(folder / "none"))


def without_waiting(patch: pytest.MonkeyPatch, module: Any) -> None:
    """Lets a module not wait between retries; everything else in the process, such as servers, sleeps as before."""
    patch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": lambda _: None}))


def cases(names: str, *rows: Any, **more: Any) -> Any:
    """Wraps ``pytest.mark.parametrize``, with names separated by spaces, and the values of each case."""
    return pytest.mark.parametrize(",".join(names.split()), rows, **more)


# Files.


def files_of(folder: Path) -> dict[str, bytes]:
    """Reads the files below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Reads the rows of a Parquet, CSV or JSON lines file."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text("utf-8-sig")
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def json_of(path: Path) -> Any:
    """Reads a JSON file."""
    return json.loads(path.read_bytes())


def write(path: Path, content: Any) -> Path:
    """Writes text or bytes as they are, rows as CSV or JSON lines by the file's suffix, and other values as JSON."""
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
    """Formats rows like the requester site's exports: every cell is quoted."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    return out.getvalue()


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Changes the value of a JSON file: in place, or by the result of ``change``."""
    value = json.loads(path.read_bytes())
    changed = change(value)
    path.write_text(json.dumps(value if changed is None else changed))


def dialogues_of(folder: Path) -> dict[str, Any]:
    """Reads the dialogues below a folder by their ids, in the order of files."""
    files = sorted(folder.rglob("dialogues_*.json"))
    return {dialogue["dialogue_id"]: dialogue for file in files for dialogue in json.loads(file.read_bytes())}


# Corpora.

Json = dict[str, Any]


def act(name: str, slot: str = "", *values: str, **more: Any) -> Json:
    """Makes an action; its canonical values are its values, unless ``more`` has others."""
    canonical = {"canonical_values": list(values)} if values else {}
    return {"act": name, "slot": slot, "values": list(values), **canonical, **more}


def span(slot: str, utterance: str, value: str, **more: Any) -> Json:
    """Makes the span of a value's first occurrence in an utterance."""
    start = utterance.index(value)
    return {"slot": slot, "start": start, "exclusive_end": start + len(value), **more}


def state(intent: str = "NONE", requested: Sequence[str] = (), /, **values: list[str]) -> Json:
    return {"active_intent": intent, "requested_slots": list(requested), "slot_values": values}


def frame(service: str, *actions: Json, slots: Sequence[Json] = (), **more: Any) -> Json:
    return {"service": service, "slots": list(slots), "actions": list(actions), **more}


def turn(speaker: str, utterance: str, *frames: Json) -> Json:
    return {"speaker": speaker, "utterance": utterance, "frames": list(frames)}


def dialogue(name: str, *turns: Json) -> Json:
    """Makes a dialogue about the services of its frames."""
    services = dict.fromkeys(of["service"] for turn in turns for of in turn["frames"])
    return {"dialogue_id": name, "services": list(services), "turns": list(turns)}


def slot(name: str, description: str = "", *values: str) -> Json:
    """Makes a slot of a schema, categorical if it has values."""
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
    """Writes a corpus. Each split is a list of dialogues, or a list of such lists for several files.

    Args:
      root: its folder.
      schema: the services of every split; by default those of the sample's split.
      splits: the dialogues of each split.
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
    """Reads the sample's dialogues in the first file of a split."""
    dialogues: list[Json] = json.loads((layout.sample_root() / split / "dialogues_001.json").read_bytes())
    return dialogues


@contextlib.contextmanager
def opened(engine: Any) -> Iterator[Any]:
    """Opens an engine for a block; it may be closed twice."""
    engine.open()
    try:
        yield engine
    finally:
        engine.close()
        engine.close()


def refused_at_once(*argv: object, output: Path, **flags: object) -> str:
    """Returns the line with which a command refuses its flags or inputs before it writes anything."""
    line = refused(*argv, output=output, **flags).partition("\n  'parapet ")[0].rstrip()  # without the hint to --help
    assert ("\n" in line, output.exists()) == (False, False), line
    return line


# Trainings.

# The settings of a training of one epoch, whatever is trained.
ONE_EPOCH: dict[str, Any] = {"epochs": 1, "patience": 1, "seed": str(SEED), "device": "cpu"}


def decisions_csv(decisions: Sequence[Any]) -> bytes:
    """A reviewer's decisions as a file."""
    return csv_bytes(COLUMNS, ([getattr(decision, name) for name in COLUMNS] for decision in decisions))
