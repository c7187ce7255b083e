"""Predicted dialogue states of the sample, right and wrong, and what ``parapet evaluate --task dst`` says of them."""

import copy
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kit import json_of

import parapet
from parapet.pipelines.evaluate import run as evaluate

BASELINE = "parapet.evaluation.dst.trackers:Names"
CORPUS = parapet.load_corpus()
DIALOGUES = list(CORPUS.dialogues("test"))
ALL = "#ALL_SERVICES"
JGA = "joint_goal_accuracy"


def by_command(output: Path, *flags: object) -> Path:
    assert evaluate(["--task", "dst", "--quiet", "--replicates", "0", "--output", str(output), *map(str, flags)]) == 0
    return output


def metrics_of(output: Path) -> dict[str, Any]:
    return json_of(output / "metrics.json")


def wrong(dialogues: Sequence[Any], seed: int, share: float = 0.3) -> list[dict[str, Any]]:
    """Predictions: the dialogues with some values replaced, some missing, some too many, and other intents."""
    draw = random.Random(seed)
    predicted = copy.deepcopy(list(dialogues))
    for dialogue in predicted:
        for turn in dialogue["turns"]:
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                values = frame["state"]["slot_values"]
                for slot in sorted(values):
                    if draw.random() < share:
                        values[slot] = [values[slot][0] + draw.choice(["", " or so", "x"])]
                    elif draw.random() < share / 3:
                        del values[slot]
                if draw.random() < share / 2:
                    frame["state"]["active_intent"] = "NONE"
    return predicted


PREDICTIONS = wrong(DIALOGUES, 1)


def lines_of(dialogues: Sequence[Any], *keys: str) -> list[dict[str, Any]]:
    """The same, a dict for each frame of a user turn: with its state and its spans, or with some keys of it."""
    return [
        {"dialogue_id": dialogue["dialogue_id"], "turn": i, "service": frame["service"]}
        | {key: frame[key] for key in keys or ("state", "slots")}
        for dialogue in dialogues
        for i, turn in enumerate(dialogue["turns"])
        if turn["speaker"] == "USER"
        for frame in turn["frames"]
    ]
