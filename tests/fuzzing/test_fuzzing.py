"""A short part of ``make fuzz``: every target once on a few mutated records, every finding of before again.

And the harness itself: it must notice what it looks for, mutate in the same way every time, and miss no target.
"""

from __future__ import annotations

import ast
import json
import os
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parapet
from fuzzing import cases, mutations, of_rows, readers, running, seeds, targets, watching
from fuzzing.cases import Case
from parapet.pipelines.dispatch import PIPELINES
from parapet.pipelines.evaluate import TASKS
from parapet.schemas.errors import InputError
from parapet.transforms.running.seeding import stable_hash

ROOT = Path(__file__).parents[2]

# Commands that read no records, or that only hand over to others.
WITHOUT = {
    "completion": "reads nothing",
    "doctor": "reads nothing",
    "reminders": "reads nothing: its flags are those of every command",
    "compare": "its readers are targets: evaluation.compare",
    "leaderboard": "its readers are targets: evaluation.board, and the predictions are those of evaluate",
    "mturk": "its readers are targets: transforms.crowd.mturk; the rest is tests/transforms/mturk",
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> running.Workshop:
    return running.Workshop(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def short(found: list[running.Found]) -> list[tuple[str, str, str]]:
    return [(one.target, one.finding.kind, one.finding.details[-2_000:]) for one in found]


# What readers are called, and their first argument.
READS = ("read_", "parse_", "load", "open_")
READ = ("path", "data", "folder", "root", "place", "text", "predictions", "given")

SHARES = 4
NAMES = [target.name for target in targets.ALL]


@pytest.mark.parametrize("share", range(SHARES))
def test_mutated_records_end_in_an_output_a_dead_letter_or_an_error(
    share: int, workshop: running.Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many targets as a few seconds allow, the same in every run; PARAPET_FUZZ_DAY=1 and so on begins elsewhere."""
    day = int(os.environ.get("PARAPET_FUZZ_DAY", "0"))
    chosen = sorted(targets.ALL, key=lambda target: stable_hash("fuzz", target.name))[share::SHARES]
    known: set[str] = set()
    found = []
    monkeypatch.setattr(workshop, "patience", 0.0)
    monkeypatch.setattr(workshop, "part", 0.2)
    end = time.process_time() + 6
    for i in range(len(chosen)):
        target = chosen[(i + day * 7) % len(chosen)]
        if time.process_time() > end:
            break
        found += target.round(workshop, Random(f"{day}:{target.name}"), known)[1]
    assert not short(found)


@pytest.mark.parametrize("path", sorted(seeds.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_before_is_found_no_more(path: Path, workshop: running.Workshop) -> None:
    found = seeds.read(path)
    (target,) = (target for target in targets.ALL if target.name == found.target)
    assert [(one.kind, one.details[-2_000:]) for one in target.again(workshop, found)] == []


def test_every_command_is_a_target() -> None:
    commands = {target.command for target in targets.ALL}
    assert set(PIPELINES) - commands == set(WITHOUT) - commands
    perturbations = {target.name.split()[1] for target in targets.ALL if target.command == "perturb"}
    assert set(parapet.perturbations()) <= perturbations | {"shout"}
    tasks = {target.name.split()[1] for target in targets.ALL if target.command == "evaluate"}
    assert set(TASKS) <= tasks | {"ratings"}


def test_every_reader_is_a_target_or_says_why_not() -> None:
    """Functions of a path or of bytes that are called read, parse, load or open."""
    found = set()
    for folder in ("schemas", "transforms", "evaluation"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for function in ast.parse(path.read_text()).body:
                if not isinstance(function, ast.FunctionDef) or not function.name.startswith(READS):
                    continue
                if [arg.arg for arg in function.args.args][:1] in [[name] for name in READ]:
                    found.add(f"{module}.{function.name}")
    called = {reader.name.split()[0] for reader in readers.READERS}
    missing = sorted(name for name in found - called if not name.startswith(tuple(readers.ELSEWHERE)))
    assert not missing
    stale = [name for name in readers.ELSEWHERE if not any(one.startswith(name) for one in found)]
    assert not stale


@given(st.integers(0, 2**32))
def test_mutations_are_json_and_of_the_seed(seed: int) -> None:
    record = cases.good_dialogues("test")[seed % 6]
    before = json.dumps(record)
    one, two = (mutations.mutated(record, Random(seed), [record]) for _ in range(2))
    assert json.dumps(one) == json.dumps(two)
    assert json.dumps(record) == before
    json.loads(mutations.json_text(one, Random(seed)))
    data = before.encode()
    assert mutations.mutated_bytes(data, Random(seed), [data]) == mutations.mutated_bytes(data, Random(seed), [data])


def test_half_of_the_mutated_dialogues_are_still_dialogues() -> None:
    """What every reader refuses would test nothing behind the readers."""
    rng = Random(0)
    whole = cases.dialogue_seeds(Path())
    passed = [cases.is_dialogue(mutations.mutated(rng.choice(whole), rng, whole[:3])) for _ in range(400)]
    assert 0.3 < sum(passed) / len(passed) < 0.9


def planted(reason: str) -> Case:
    """A case whose command is replaced by a fault that appears with some records."""
    case = next(case for case in targets.CASES if case.name == "perturb simple")
    return case._replace(name=f"planted {reason}")


def test_a_planted_fault_is_found_and_traced_to_its_record(
    workshop: running.Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = json.dumps({**cases.good_dialogues("test")[0], "dialogue_id": "bad", "fuzz": [1, 2]})
    good = [json.dumps({**one, "dialogue_id": f"1_{i}"}) for i, one in enumerate(cases.good_dialogues("test") * 3)]
    from parapet.transforms.perturbation import files

    monkeypatch.setattr(workshop, "patience", 2.0)
    real_text = files.dialogue_text

    def text(dialogue: dict[str, object], plain: bool = True) -> bytes:
        return real_text({**dialogue, "x": {}["planted"]} if "fuzz" in dialogue else dialogue, plain)

    monkeypatch.setattr(files, "dialogue_text", text)
    found = list(running._traced(workshop, planted("fault"), [*good[:3], bad, *good[3:6]], set()))
    assert [one.finding.kind.split(" ")[0].rstrip(":") for one in found] in (["KeyError"], ["internal_error"])
    (record,) = found[0].records
    assert "fuzz" in json.loads(record)


def test_a_dialogue_that_is_lost_is_found(workshop: running.Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from parapet.transforms.storage.set_files import SetFiles

    real = SetFiles.add
    monkeypatch.setattr(
        SetFiles, "add", lambda self, folder, text, *one: None if b"fuzz-me" in text else real(self, folder, text, *one)
    )
    record = json.dumps({**cases.good_dialogues("test")[0], "dialogue_id": "fuzz-me"})
    kinds = [one.kind for one in workshop.findings(planted("loss"), [record])]
    assert kinds  # the frame notices it itself, or the harness does


def test_what_hangs_and_what_is_no_input_error_are_found() -> None:
    def endless() -> None:
        while True:
            pass

    def refused() -> None:
        raise InputError("no")

    found = watching.call(endless, 0.05)
    assert found is not None
    assert found.kind.startswith(watching.HANGS)
    assert watching.call(refused) is None
    found = watching.call(lambda: {}["a"])
    assert found is not None
    assert found.kind.startswith("KeyError")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", b"{", "JSONDecodeError"),
        ("a.html", b"<p><img src=x onerror=fuzz()></p>", "markup of the input"),
        ("a.csv", b"a,b\n1\n", "rows of several widths"),
        ("a.parquet", b"PAR1", "Arrow"),
        ("a.xml", b"<a>", "ParseError"),
        ("dead_letters.jsonl", b'{"reason": "internal_error: KeyError at a/b.py:3"}\n', "internal_error"),
    ],
)
def test_output_that_nobody_can_read_is_found(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    (found,) = watching.output_findings(tmp_path)
    assert problem in found.kind


def test_a_seed_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "FOLDER", tmp_path)
    found = running.Found("anonymise", watching.Finding("a kind", ""), ['{"a": "\\ud800", "b": NaN}'], b"\xff\x00")
    assert seeds.read(seeds.write(found)) == found


def test_of_the_tables_good_records_alone_make_an_output(workshop: running.Workshop) -> None:
    """A case whose command refuses even good input would test nothing."""
    refused = []
    for case in [*of_rows.TABLES[:2], *of_rows.TABLES[3:5], *of_rows.SERVICES[:2]]:
        before = workshop.statuses[case.name, 0]
        assert not workshop.findings(case, [])
        if workshop.statuses[case.name, 0] == before:
            refused.append((case.name, workshop.last_errors.get(case.name)))
    assert not refused
