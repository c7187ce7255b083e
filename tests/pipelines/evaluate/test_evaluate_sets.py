"""``parapet evaluate --sets`` for every task, as run: the sample, with typos, and with out-of-domain turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parapet.pipelines.evaluate import run as run_evaluate
from parapet.pipelines.perturb import run as run_perturb
from parapet.schemas.layout import sample_root

SETS = ("original", "typos", "ood-20")
N_SYSTEM = {"original": 49, "typos": 49, "ood-20": 59}  # turns; ten are injected, each with an answer


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sets, as the commands write them."""
    folder = tmp_path_factory.mktemp("sets")
    assert run_perturb(["typos", "--quiet", "--output", str(folder / "varied")]) == 0
    assert run_perturb(["ood", "--rates", "0.2", "--quiet", "--output", str(folder / "foreign")]) == 0
    return {
        "original": sample_root(),
        "typos": folder / "varied" / "typos",
        "ood-20": folder / "foreign" / "ood-20",
    }


def named(roots: dict[str, Path]) -> list[str]:
    return ["--sets", *(f"{name}={root}" for name, root in roots.items() if name != "original")]


def turns_of(root: Path, speaker: str) -> list[tuple[str, int, dict[str, Any]]]:
    """(dialogue id, position, turn) of the test dialogues."""
    return [
        (dialogue["dialogue_id"], position, turn)
        for path in sorted((root / "test").glob("dialogues_*.json"))
        for dialogue in json.loads(path.read_bytes())
        for position, turn in enumerate(dialogue["turns"])
        if turn["speaker"] == speaker
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluate(task: str, out: Path, *flags: object) -> dict[str, Any]:
    """``metrics.json`` of a run."""
    assert run_evaluate(["--task", task, "--quiet", "--output", str(out), *map(str, flags)]) == 0
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_bytes())
    return metrics


Fails = Callable[..., str]


@pytest.fixture
def fails(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Fails:
    """Runs what must fail before anything is written; gives its one line."""

    def run(task: str, *flags: object) -> str:
        assert run_evaluate(["--task", task, "--output", str(tmp_path / "no"), *map(str, flags)]) == 2
        assert not (tmp_path / "no").exists()
        message = capfd.readouterr().err
        assert message.count("\n") == 1, message
        return message

    return run


def rows_of(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "rows.parquet").to_pylist()  # type: ignore[no-any-return]


def sets_of(out: Path) -> set[str]:
    return {row["set"] for row in rows_of(out)}


def responses(root: Path, silent: str = "") -> list[dict[str, Any]]:
    """The reference's own responses, but for one dialogue in which nothing is said."""
    return [
        {"dialogue_id": id_, "turn": turn, "response": "Hm." if id_ == silent else of["utterance"]}
        for id_, turn, of in turns_of(root, "SYSTEM")
    ]


def test_responses(roots: dict[str, Path], tmp_path: Path) -> None:
    """In one of eight dialogues with typos nothing is offered."""
    silent = responses(roots["original"])[0]["dialogue_id"]
    for name, root in roots.items():
        rows = responses(root, silent if name == "typos" else "")
        assert len(rows) == N_SYSTEM[name]
        write(tmp_path / "said" / name / "test" / "responses.jsonl", rows)
    metrics = evaluate("response", tmp_path / "out", *named(roots), "--predictions", tmp_path / "said")
    shares = {name: (of["inform"], of["success"]) for name, of in metrics.items() if "inform" in of}
    whole = (1.0, 1.0)
    assert shares == {
        "original": whole, "typos": (7 / 8, 7 / 8), "ood-20": whole, "#ALL": (23 / 24, 23 / 24),
        "#MEAN": (pytest.approx(23 / 24), pytest.approx(23 / 24)),
    }  # fmt: skip
    assert metrics["original"]["combined"] == pytest.approx(200)
    assert metrics["typos"]["combined"] == pytest.approx(87.5 + metrics["typos"]["bleu"])
    assert metrics["typos"]["bleu"] < metrics["#ALL"]["bleu"] < 100
    rows = rows_of(tmp_path / "out")
    assert [(row["set"], row["success"]) for row in rows if row["success"] != 1] == [("typos", 0.0)]
    assert len(rows) == 24
    details = json.loads((tmp_path / "out" / "details.json").read_bytes())
    assert (details["dialogues"], details["sets"]["ood-20"]["dialogues"]) == (24, 8)
    manifest = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert manifest["options"]["sets"] == list(SETS)
    assert manifest["counts"] == {"dialogues": 24, "responses": 49 + 49 + 59}


def test_responses_in_one_file_and_those_of_the_reference(roots: dict[str, Path], tmp_path: Path) -> None:
    rows = [{**row, "set": name} for name, root in roots.items() for row in responses(root)]
    said = write(tmp_path / "said.jsonl", rows[::-1])
    one = evaluate("response", tmp_path / "one", *named(roots), "--predictions", said)
    own = evaluate("response", tmp_path / "own", *named(roots), "--predictions", "reference")
    assert one == own
    assert {name: own[name]["combined"] for name in SETS} == pytest.approx(dict.fromkeys(SETS, 200.0))


def test_variants_are_scored_as_the_original(roots: dict[str, Path], tmp_path: Path) -> None:
    """Whatever the schema is called: a release has its variants with it."""
    release = tmp_path / "release"
    (release / "sgd" / "v1").mkdir(parents=True)
    (release / "MANIFEST.json").write_text("{}")
    (release / "sgd" / "original").symlink_to(roots["original"])
    (release / "sgd" / "v1" / "schema.json").write_bytes((roots["original"] / "test" / "schema.json").read_bytes())
    for name, root in (("original", roots["original"]), ("v1", roots["original"])):
        write(tmp_path / "said" / f"{name}.jsonl", responses(root))
    metrics = evaluate("response", tmp_path / "out", "--reference", release, "--predictions", tmp_path / "said")
    assert sets_of(tmp_path / "out") == {"original", "v1"}
    assert metrics["v1"] == metrics["original"]


def test_sets_that_cannot_be_scored(roots: dict[str, Path], tmp_path: Path, fails: Fails) -> None:
    write(tmp_path / "said" / "original" / "test" / "r.jsonl", responses(roots["original"]))
    said = ["--predictions", tmp_path / "said"]
    typos = f"typos={roots['typos']}"
    assert f"no predictions of typos: expected .jsonl files in {tmp_path}/said/typos/test" in fails(
        "response", *said, "--sets", typos
    )
    assert "'typos' appears twice" in fails("response", *said, "--sets", typos, typos)
    assert "there is a set of the name 'original' already" in fails(
        "response", *said, "--sets", f"original={roots['typos']}"
    )
    assert f"{tmp_path}/none: --sets: there is no such file or folder" in fails(
        "response", *said, "--sets", f"typos={tmp_path}/none"
    )
    assert "expected NAME=ROOT" in fails("response", *said, "--sets", f"#typos={roots['typos']}")
    other = write(tmp_path / "said.jsonl", [{**row, "set": "heard"} for row in responses(roots["original"])])
    assert "line 1: there is no set 'heard', only original" in fails("response", "--predictions", other)
    assert "line 1: has no 'set', and there are several: original, typos" in fails(
        "response", "--sets", typos, "--predictions", write(tmp_path / "bare.jsonl", responses(roots["original"]))
    )
    fewer = tmp_path / "said" / "typos" / "r.jsonl"
    write(fewer, responses(roots["typos"])[1:])
    assert "there is no response for dialogue" in (message := fails("response", *said, "--sets", typos))
    assert "turn 1 of typos\n" in message
    write(fewer, [{**row, "set": "original"} for row in responses(roots["typos"])])
    assert f"{fewer}: line 1: is of set 'original', in the files of 'typos'" in fails(
        "response", *said, "--sets", typos
    )
