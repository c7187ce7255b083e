"""What each command writes, on the bundled sample: the rows of the matrix."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from dataflow.commands import every, write_inputs
from tiny_bert import save_bert
from tiny_gpt2 import save_gpt2
from tiny_t5 import save_t5

from parapet.local_mturk.server import LocalMTurk
from parapet.pipelines.main import main

SUITE = """
[corpus]
sgd = "sgd"

[[sets]]
perturbation = "typos"
env = [0.5]

[[systems]]
name = "keywords"
model = "parapet.evaluation.dst.baseline:Keywords"
"""


def checkpoints(place: Path) -> None:
    """Tiny random nets to start training from."""
    texts = [path.read_text() for path in sorted((place / "sgd").glob("*/dialogues_*.json"))]
    save_t5(place / "t5", texts, vocabulary=200)
    save_gpt2(place / "gpt2", texts, positions=640)
    save_bert(place / "bert", texts, positions=256)


def others(place: str, out: str) -> dict[str, list[str]]:
    """Command lines besides those of the tests of Dataflow, by the name of the row; in an order that works."""
    sgd = f"{place}/sgd"
    typos = f"{out}/language_variations/typos"
    trackers = ["--train", sgd, "--max_length", "64", "--steps", "1", "--dev_frames", "4"]
    babi = [f"{out}/restaurants/dialog-babi-{name}.txt" for name in ("task1-API-calls-trn", "task1-API-calls-dev")]
    candidates = f"{out}/restaurants/dialog-babi-candidates.txt"
    return {
        "hits names": ["hits", "--schemas", sgd],
        "hits validity": ["hits", "--task", "validity", "--sets", f"typos={typos}", "--pairs", "2"],
        "evaluate generation": ["evaluate", "--task", "generation", "--predictions", "reference"],
        "hits ratings": ["hits", "--task", "ratings", "--scores", f"{out}/evaluate generation", "--faithful", "2"],
        "evaluate response": ["evaluate", "--task", "response", "--predictions", "reference"],
        "evaluate validity": ["evaluate", "--task", "validity", "--sets", f"typos={typos}"],
        "compare": ["compare", "--systems", f"a={out}/evaluate", f"b={out}/evaluate", "--replicates", "10"],
        "train rules": ["train", "rules", "--train", babi[0], "--match", f"{out}/restaurants/dialog-babi-kb-all.txt"],
        "train nearest": ["train", "nearest", "--train", babi[0]],
        "train tiny_dst": ["train", "tiny_dst", "--train", sgd, "--steps", "1"],
        "train classifier": ["train", "classifier", "--train", sgd, "--steps", "2", "--buckets", "64"],
        "train soloist": [
            "train",
            "soloist",
            "--train",
            sgd,
            "--checkpoint",
            f"{place}/gpt2",
            "--steps",
            "1",
            "--max_length",
            "320",
        ],
        "train ft_t5": [
            "train",
            "ft_t5",
            "--train",
            sgd,
            "--checkpoint",
            f"{place}/t5",
            "--steps",
            "1",
            "--max_input",
            "32",
        ],
        "train t5dst": ["train", "t5dst", *trackers, "--checkpoint", f"{place}/t5"],
        "train sgp_dst": [
            "train",
            "sgp_dst",
            "--train",
            sgd,
            "--steps",
            "1",
            "--dev_frames",
            "4",
            "--checkpoint",
            f"{place}/bert",
        ],
        "train pt_t5": [
            "train",
            "pt_t5",
            "--train",
            sgd,
            "--checkpoint",
            f"{place}/t5",
            "--steps",
            "1",
            "--max_input",
            "32",
        ],
        "train damd": ["train", "damd", "--train", sgd, "--steps", "1"],
        "train tfidf": ["train", "tfidf", "--train", babi[0], "--candidates", candidates],
        **{
            f"train {model}": [
                "train",
                model,
                "--train",
                babi[0],
                "--dev",
                babi[1],
                "--candidates",
                candidates,
                "--steps",
                "1",
            ]
            for model in ("embeddings", "memn2n")
        },
        "predict tiny_dst": ["predict", "tiny_dst", "--model", f"{out}/train tiny_dst", "--reference", sgd],
        "predict classifier": ["predict", "classifier", "--model", f"{out}/train classifier", "--reference", sgd],
        "evaluate intent": [
            "evaluate",
            "--task",
            "intent",
            "--reference",
            sgd,
            "--predictions",
            f"{out}/predict classifier/predictions",
        ],
        "evaluate ranking": [
            "evaluate",
            "--task",
            "ranking",
            "--reference",
            f"{place}/tasks/dialog-babi-task1-API-calls-tst.txt",
            "--predictions",
            f"{out}/predict/predictions",
        ],
        "leaderboard": ["leaderboard", "--release", f"{out}/release/sample/1.0.0", "--template"],
        "suite": ["suite", f"{place}/suite.toml"],
    }


def write_predictions(place: Path) -> None:
    """Predictions of intents and of verdicts for sets that have the sample's dialogues; a submission to the release."""
    rows = [
        json.loads(line)
        for path in sorted((place / "out/predict classifier/predictions").rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    verdicts = [{**{key: row[key] for key in ("dialogue_id", "turn")}, "predicted": "in_domain"} for row in rows]
    for kind, found in (("intents", rows), ("verdicts", verdicts)):
        for name in ("original", "tried", "v1", "v2", "v3", "v4", "v5"):
            (place / kind / name).mkdir(parents=True, exist_ok=True)
            (place / kind / name / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    submission = place / "submissions/ours"
    if not submission.exists():
        shutil.copytree(place / "out/leaderboard", submission)
        shutil.copytree(place / "sgd/test", submission / "predictions/original/test")


def play_batch(place: Path, server: LocalMTurk) -> None:
    """A batch that was published, answered and collected."""
    if (place / "batch").exists():
        return
    batch = ["--batch", f"{place}/batch", "--quiet"]
    hits = ["--hits", f"{place}/out/hits validity", "--endpoint_url", server.url]
    assert main(["mturk", "publish", *batch, *hits]) == 0
    assert main(["mturk", "sandbox-workers", "--url", server.url, "--workers", "3", "--quiet"]) == 0
    assert main(["mturk", "collect", *batch]) == 0


def produce(place: Path, only: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, int]]:
    """Runs each; gives its name and exit status."""
    if not (place / "sgd").exists():
        place.mkdir(parents=True, exist_ok=True)
        write_inputs(place)
        (place / "suite.toml").write_text(SUITE)
        checkpoints(place)
    out = f"{place}/out"
    lines = every(str(place), out)
    lines |= {name: [*argv, "--output", f"{out}/{name}", "--quiet"] for name, argv in others(str(place), out).items()}
    for name, argv in lines.items():
        if only(name) and not (place / "out" / name).exists():
            yield name, main([*argv, *workers_of(argv)])
    write_predictions(place)


def workers_of(argv: list[str]) -> list[str]:
    """One local process, for the commands that have the flag."""
    takes = argv[0] not in ("evaluate", "train", "compare", "leaderboard", "suite", "mturk") and argv[:2] not in (
        ["release", "show"],
        ["release", "diff"],
    )
    return ["--workers", "1"] if takes and "--workers" not in argv else []
