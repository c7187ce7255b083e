"""The metrics of dialogue state tracking, written plainly, as a reference for ``parapet.evaluation.dst``.

Every slot of a schema gets its score in a list, every frame its metrics in a dict, every aggregate all of its values,
as described in section 5.2 of Rastogi et al. (2020). Nothing is cached, and files are read with ``json``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Indel


def words(text: str) -> str:
    """Normalises a text to its sorted words in lower case."""
    plain = "".join(c for c in text if not 128 <= ord(c) < 256)
    return " ".join(sorted(re.sub(r"\W", " ", plain).lower().split()))


def match(first: str, second: str, fuzzy: bool) -> float:
    """1 for equal texts; else the similarity in whole per cent."""
    if not fuzzy or first == second:
        return float(first == second)
    left, right = words(first), words(second)
    return round(100 * Indel.normalized_similarity(left, right)) / 100 if left and right else 0.0


def f1(reference: list[Any], predicted: list[Any]) -> tuple[float, float, float]:
    """F1, precision, recall."""
    both = sum((Counter(reference) & Counter(predicted)).values())
    precision = both / len(predicted) if predicted else 1.0
    recall = both / len(reference) if reference else 1.0
    return (2 * precision * recall / (precision + recall) if precision + recall else 0.0), precision, recall


def frame_metrics(
    reference: dict[str, Any], predicted: dict[str, Any], utterance: str, service: dict[str, Any], fuzzy: bool
) -> dict[str, float]:
    """Computes the metrics of a frame; undefined metrics are absent."""
    wanted, given = reference["state"], predicted["state"]
    found = {"active_intent_accuracy": float(wanted["active_intent"] == given["active_intent"])}
    of = f1(wanted["requested_slots"], given["requested_slots"])
    found |= dict(zip((f"requested_slots_{name}" for name in ("f1", "precision", "recall")), of, strict=True))
    if "slots" in predicted:
        free = {slot["name"] for slot in service["slots"] if not slot.get("is_categorical")}
        texts = [
            [
                (span["slot"], utterance[span["start"] : span["exclusive_end"]])
                for span in frame.get("slots", [])
                if span["slot"] in free and "start" in span
            ]
            for frame in (reference, predicted)
        ]
        of = f1(*texts)
        found |= dict(zip((f"slot_tagging_{name}" for name in ("f1", "precision", "recall")), of, strict=True))
    scores, active, categorical = [], [], []
    for slot in service["slots"]:
        name, is_categorical = slot["name"], bool(slot.get("is_categorical"))
        right, said = wanted["slot_values"].get(name), given["slot_values"].get(name)
        if right is None or said is None:
            scores.append(float(right is None and said is None))
        elif is_categorical:
            scores.append(float(right[0] == said[0]))
        else:
            scores.append(max(match(text, said[0], fuzzy) for text in right))
        active.append(right is not None)
        categorical.append(is_categorical)
    kinds = {"goal": [True] * len(scores), "cat": categorical, "noncat": [not is_cat for is_cat in categorical]}
    for kind, chosen in kinds.items():
        of_kind = [score for score, is_of in zip(scores, chosen, strict=True) if is_of]
        on = [score for score, is_of, is_on in zip(scores, chosen, active, strict=True) if is_of and is_on]
        if of_kind:
            found[f"joint_{kind}_accuracy"] = float(np.prod(of_kind))
        if on:
            found[f"average_{kind}_accuracy"] = float(np.mean(on))
    return found


def evaluate(
    pairs: Iterable[tuple[Path, Path]],
    services: dict[str, Any],
    seen: set[str],
    fuzzy: bool = True,
    across_turn: bool = False,
) -> dict[str, dict[str, float]]:
    """Computes the metrics of each aggregate.

    Args:
      pairs: files of the reference, each with that of the predictions.
      services: the raw schemas, by name.
      seen: the services of train.
      fuzzy: whether free slots are matched fuzzily.
      across_turn: whether joint accuracies are products over a turn's frames.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for reference, predictions in pairs:
        predicted = {dialogue["dialogue_id"]: dialogue for dialogue in json.loads(predictions.read_bytes())}
        for dialogue in json.loads(reference.read_bytes()):
            for turn, other in zip(dialogue["turns"], predicted[dialogue["dialogue_id"]]["turns"], strict=True):
                if turn["speaker"] != "USER":
                    continue
                frames = {frame["service"]: frame for frame in other["frames"]}
                products: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
                for frame in turn["frames"]:
                    name = frame["service"]
                    found = frame_metrics(frame, frames[name], turn["utterance"], services[name], fuzzy)
                    known = "#SEEN_SERVICES" if name in seen else "#UNSEEN_SERVICES"
                    for key in {"#ALL_SERVICES", known, name, name.split("_")[0]}:
                        for metric, value in found.items():
                            if across_turn and metric.startswith("joint"):
                                products[key, metric] *= value
                            else:
                                values[key][metric].append(value)
                for (key, metric), value in products.items():
                    values[key][metric].append(value)
    return {key: {metric: float(np.mean(one)) for metric, one in of.items()} for key, of in values.items()}


def of_folders(reference: Path, split: str, predictions: Path) -> dict[str, dict[str, float]]:
    """Computes the metrics of a split, with predictions in files of the same names."""
    services = {
        service["service_name"]: service for service in json.loads((reference / split / "schema.json").read_bytes())
    }
    seen = {service["service_name"] for service in json.loads((reference / "train" / "schema.json").read_bytes())}
    files = sorted((reference / split).glob("dialogues_*.json"))
    return evaluate([(path, predictions / path.name) for path in files], services, seen)


if __name__ == "__main__":
    print(json.dumps(of_folders(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])), indent=1, sort_keys=True))
