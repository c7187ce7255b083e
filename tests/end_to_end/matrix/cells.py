"""Tries one output, or a part of one, as the value of one flag."""

import contextlib
import functools
import io
import json
import logging
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from commands import RELEASE

from matrix.inputs import VALUE, Key
from matrix.producers import workers_of
from parapet.pipelines.main import main
from parapet.schemas.layout import is_root

LONGEST = 120  # seconds
OF_FAMILIES = ("tiny_dst", "ft_t5", "classifier", "damd", "nearest")
_NUMBER = re.compile(r"[0-9]+")


class Part(NamedTuple):
    """An output, or a part of it: ``relative`` is empty, or its path below."""

    producer: str
    relative: str
    path: Path


class Cell(NamedTuple):
    """What became of it."""

    producer: str
    relative: str
    command: str
    action: str
    flag: str
    status: int | None
    message: str
    fault: str
    seconds: float


def parts_of(place: Path, producer: str) -> Iterator[Part]:
    """The output as a whole, and one of each kind of folder and file in it."""
    root = place / "out" / producer
    yield Part(producer, "", root)
    seen: set[tuple[Any, ...]] = set()
    for path in sorted(root.rglob("*")):
        below = path.relative_to(root)
        kind = tuple(_kind(root / Path(*below.parts[: n + 1])) for n in range(len(below.parts)))
        if kind not in seen and not any(name.startswith(".") for name in below.parts):
            seen.add(kind)
            yield Part(producer, below.as_posix(), path)


@functools.cache
def _kind(path: Path) -> Any:
    """Equal for files that differ in a number, and folders with the same in them: variants, domains, splits."""
    if path.is_dir():
        return frozenset(_NUMBER.sub("N", one.relative_to(path).as_posix()) for one in path.rglob("*"))
    return _NUMBER.sub("N", re.sub(r"^.*(?=\.(names|descriptions|html|xml))", "", path.name))


def tried(parts: Sequence[Part], key: Key) -> Iterator[Part]:
    """The parts that are tried: all outputs as a whole, corpora wherever they are, and one file of each name.

    Models share what reads corpora: of one of each family one part of each name is tried, of the others none.
    """
    names = set()
    is_model = key[0] in ("train", "predict")
    if is_model and key[1] not in OF_FAMILIES:
        parts = [part for part in parts if not part.relative]
    for part in parts:
        is_corpus = part.path.is_dir() or part.path.name == "schema.json"
        if part.relative and (is_model or not is_corpus):
            kind = _NUMBER.sub("N", part.path.name)
            if kind in names:
                continue
            names.add(kind)
        yield part


def ranked(parts: Sequence[Part]) -> dict[Part, int]:
    """When each is tried: 0 for a whole output, 1 for the first folder in it that has schemas or dialogues, else 2."""
    ranks, seen = {}, set()
    for part in parts:
        is_first = is_root(part.path) and part.producer not in seen
        ranks[part] = 0 if not part.relative else 1 if is_first else 2
        if part.relative and is_first:
            seen.add(part.producer)
    return ranks


def run_cell(place: Path, key: Key, line: Sequence[str], part: Part, scratch: Path) -> Cell:
    """Runs the command line; the scratch folder is its own."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    value, out = str(part.path), scratch / "out"
    argv = [_filled(text, value, scratch, place) for text in line]
    if key[:2] == ("mturk", "publish"):
        argv += ["--batch", str(scratch / "batch"), "--endpoint_url", "http://127.0.0.1:9"]
    elif key[:2] == ("mturk", "pay"):
        argv += ["--batch", str(place / "batch")]
    elif key[:2] == ("mturk", "site-csv"):
        argv += ["--output", str(scratch / "site.csv")]
    elif key[0] != "release" or key[1] == "build":
        argv += ["--output", str(out)]
    if key[0] != "release":
        argv += ["--quiet", *workers_of(argv)]
    started = time.monotonic()
    status, text = run(argv)
    seconds = round(time.monotonic() - started, 2)
    fault = fault_of(status, text, out if "--output" in argv else None, part)
    return Cell(part.producer, part.relative, *key, status, text[-2000:], fault, seconds)


def _filled(text: str, value: str, scratch: Path, place: Path) -> str:
    if text in ("{corpora}", "{tables}"):
        config = RELEASE if text == "{tables}" else RELEASE.replace('path = "sgd"', f"path = {json.dumps(value)}")
        config = config.replace('path = "sgd"', f"path = {json.dumps(str(place / 'sgd'))}")
        if text == "{tables}":
            config += f'\n[[tables]]\npath = {json.dumps(value)}\nname = "tried"\nkind = "rows"\n'
        (scratch / "release.toml").write_text(config)
        return str(scratch / "release.toml")
    if text in ("{suite corpus}", "{suite variants}"):
        sgd = value if text == "{suite corpus}" else str(place / "sgd")
        config = f"[corpus]\nsgd = {json.dumps(sgd)}\n"
        if text == "{suite variants}":
            config += f"[variants]\npath = {json.dumps(value)}\n"
        config += '[[systems]]\nname = "keywords"\nmodel = "parapet.evaluation.dst.baseline:Keywords"\n'
        (scratch / "suite.toml").write_text(config)
        return str(scratch / "suite.toml")
    return text.replace(VALUE, value)


class TooLong(BaseException):
    """A cell took too long."""


def run(argv: Sequence[str]) -> tuple[int | None, str]:
    """(exit status, what it said); None where it raised or hung."""

    def stop(*_: object) -> None:
        raise TooLong

    shown = io.StringIO()
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            return main(list(argv)), shown.getvalue()
    except SystemExit as stopped:
        return int(stopped.code or 0), shown.getvalue()
    except TooLong:
        return None, f"{shown.getvalue()}took more than {LONGEST} s"
    except BaseException as error:
        return None, f"{shown.getvalue()}raised {error!r}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        logging.getLogger().handlers.clear()


def fault_of(status: int | None, text: str, out: Path | None, part: Part) -> str:
    """What is wrong whatever the cell: no status, a traceback, no reason, an output without content; else nothing."""
    if status is None:
        return "raised or hung"
    if "Traceback" in text or "PARAPET_DEBUG" in text:
        return "traceback"
    if status == 0:
        return "" if out is None else empty(out)
    errors = [line for line in text.splitlines() if line.strip()]
    if not errors:
        return "no reason"
    if not any(mark in text for mark in (part.path.name, "--", part.producer, "/", "HF_TOKEN")):
        return "names neither file nor flag"
    if len(text) > 1500:
        return "more than a line"
    return ""


def empty(out: Path) -> str:
    """Whether an output has a manifest whose counts are all 0, or dialogue files without a dialogue."""
    if out.is_dir() and not any(out.rglob("*")):
        return "empty output"
    manifest = out / "run.json"
    if manifest.is_file():
        counts = json.loads(manifest.read_text()).get("counts")
        if counts and not any(_numbers(counts)):
            return "all counts are 0"
    return ""


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from _numbers(one)
