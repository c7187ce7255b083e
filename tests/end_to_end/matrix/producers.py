"""What each command writes, on the bundled sample: the rows of the matrix."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from commands import ONE_PROCESS, ended, lines, nets, write_checkpoints, write_inputs
from kit import write

from parapet.local_mturk.server import LocalMTurk
from parapet.pipelines.main import main


def write_predictions(place: Path) -> None:
    """Predictions of intents and of verdicts for sets that have the sample's dialogues; a submission to the release."""
    rows = [
        json.loads(line)
        for path in sorted((place / "out/predict classifier/predictions").rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    verdicts = [{**{key: row[key] for key in ("dialogue_id", "turn")}, "predicted": "in_domain"} for row in rows]
    for kind, found in (("intents_of_sets", rows), ("verdicts", verdicts)):
        for name in ("original", "tried", "v1", "v2", "v3", "v4", "v5"):
            write(place / kind / name / "all.jsonl", "".join(json.dumps(row) + "\n" for row in found))
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
        write_checkpoints(place)
    out = f"{place}/out"
    for name, argv in {**lines(str(place), out), **nets(str(place), out)}.items():
        if only(name) and not (place / "out" / name).exists():
            yield name, main([*ended(argv, f"{out}/{name}"), *workers_of(argv)])
    write_predictions(place)


def workers_of(argv: list[str]) -> list[str]:
    """One local process, for the commands that have the flag."""
    takes = argv[0] not in (*ONE_PROCESS, "mturk") and argv[:2] not in (["release", "show"], ["release", "diff"])
    return ["--workers", "1"] if takes and "--workers" not in argv else []
