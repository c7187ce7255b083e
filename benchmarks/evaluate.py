"""Times the metrics of ``parapet evaluate --task dst`` against a plain reference on the same files.

    python -m benchmarks.evaluate [--frames 26802] [--sgd ROOT] [--split NAME] [--folder bench-output]

The dialogues of a split of ROOT (by default, the bundled sample's dev split) are repeated under new ids until there are
enough frames: the official scoring takes 8 CPU seconds for 26,802. Predictions are derived from them: every eighth slot
has another value, every sixteenth none. Times include reading. Then the command runs on files of three sizes, to
measure its memory. CPU seconds are user and system time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.evaluate_reference import of_folders
from benchmarks.measuring import measure
from parapet.evaluation.dst import frames
from parapet.evaluation.dst.frames import slots_of
from parapet.schemas import layout

DIALOGUES_A_FILE = 128
OFFICIAL = 8.0  # CPU seconds of the official scoring for 26,802 frames


def main() -> int:
    """Prints the table; returns 1 if the two results differ."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--frames", type=int, default=26_802)
    flags.add_argument("--sgd", type=Path, default=layout.sample_root())
    flags.add_argument("--split", default="dev")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    root = args.folder / "evaluate"
    shutil.rmtree(root, ignore_errors=True)
    frames = make(args.sgd, args.split, root, args.frames)
    print(f"{frames:,} frames in {len(list((root / args.split).glob('dialogues_*')))} files")
    started = time.process_time()
    plain = of_folders(root, args.split, root / "predictions")
    reference = time.process_time() - started
    started = time.process_time()
    found = ours(root, args.split)
    cpu = time.process_time() - started
    print(f"{'':32}{'CPU':>9}{'frames/CPU s':>14}{'ratio':>7}")
    for what, seconds in (("plain reference", reference), ("parapet.evaluation.dst, reading included", cpu)):
        print(f"{what:32}{seconds:7.2f} s{frames / seconds:14,.0f}{reference / seconds:7.2f}")
    print(f"the official scoring takes {OFFICIAL:g} s for 26,802: this is {cpu / frames * 26_802 / OFFICIAL:.2f} of it")
    for part in (1, 4):
        less = root / f"of-{part}"
        make(args.sgd, args.split, less, args.frames * part // 4)
        command = [sys.executable, "-m", "parapet", "evaluate", "--task", "dst", "--quiet", "--reference", str(less)]
        command += ["--split", args.split, "--predictions", str(less / "predictions"), "--output", str(less / "out")]
        seconds, _, peak, _ = measure(command)
        print(f"the command, {part}/4 of them: {seconds:.2f} CPU s, {peak:.0f} MB")
    worst = max(abs(found[key][name] - value) for key, of in plain.items() for name, value in of.items())
    print(f"largest difference: {worst:.1e}")
    return int(worst > 1e-12)


def ours(root: Path, split: str) -> dict[str, dict[str, float]]:
    """Computes the metrics, file by file."""
    schemas = {schemas.split: schemas.services for schemas in layout.read_root(root)}
    services = {service.service_name: slots_of(service) for service in schemas[split]}
    seen = frozenset(service.service_name for service in schemas["train"])
    found = []
    for path in layout.dialogue_files(root, split):
        predictions = root / "predictions" / path.name
        predicted = {
            dialogue.dialogue_id: dialogue for dialogue in frames.parse_dialogues(predictions.read_bytes(), predictions)
        }
        reference = frames.parse_dialogues(path.read_bytes(), path)
        scored = frames.score_dialogues(reference, predicted, services, frames.ScoreConfig())
        found.append(frames.add_up(scored, seen))
    return frames.means(frames.merged(found))


def make(source: Path, split: str, root: Path, wanted: int) -> int:
    """Writes a corpus with at least this number of frames, and predictions for it. Returns the number of frames."""
    found = [dialogue for path in layout.dialogue_files(source, split) for dialogue in json.loads(path.read_bytes())]
    frames, written = 0, 0
    reference: list[Any] = []
    predicted: list[Any] = []
    for name in ("train", split):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "schema.json").write_bytes((source / name / "schema.json").read_bytes())
    (root / "predictions").mkdir()
    while frames < wanted:
        dialogue = {**found[written % len(found)], "dialogue_id": f"1_{written:05}"}
        written += 1
        frames += sum(len(turn["frames"]) for turn in dialogue["turns"] if turn["speaker"] == "USER")
        reference.append(dialogue)
        predicted.append(guessed(dialogue))
        if len(reference) == DIALOGUES_A_FILE or frames >= wanted:
            name = f"dialogues_{(written - 1) // DIALOGUES_A_FILE + 1:03}.json"
            (root / split / name).write_bytes(layout.dialogue_bytes(reference))
            (root / "predictions" / name).write_bytes(layout.dialogue_bytes(predicted))
            reference, predicted = [], []
    return frames


def guessed(dialogue: dict[str, Any]) -> dict[str, Any]:
    """Makes some states of a dialogue wrong, always the same ones."""
    made: dict[str, Any] = json.loads(json.dumps(dialogue))
    for i, turn in enumerate(made["turns"]):
        for frame in turn["frames"] if turn["speaker"] == "USER" else ():
            values = frame["state"]["slot_values"]
            for slot in sorted(values):
                drawn = hashlib.sha256(f"{dialogue['dialogue_id']} {i} {slot}".encode()).digest()[0]
                if drawn < 32:
                    values[slot] = [f"the {values[slot][0]} one"]
                elif drawn < 48:
                    del values[slot]
    return made


if __name__ == "__main__":
    sys.exit(main())
