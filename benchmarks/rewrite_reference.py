"""Does what ``parapet rewrite`` does like the published SGD-X generator: in memory, with a deep copy for each variant.

Written for the benchmark and the tests, it shares no code with the pipeline. Names are replaced all at once, so that
swapped names are handled correctly.
"""

from __future__ import annotations

import copy
import json
import shutil
import sys
from pathlib import Path
from typing import Any

SPLITS = ("train", "dev", "test")


def rewrite(sgd: Path, variants: Path, output: Path) -> None:
    """Writes every dialogue file below ``sgd`` with the names of every variant, and copies the variants' schemas."""
    splits = [name for name in SPLITS if (sgd / name / "schema.json").exists()]
    schemas = {name: load(sgd / name / "schema.json") for name in splits}
    dialogues = {(name, path.name): load(path) for name in splits for path in sgd.glob(f"{name}/dialogues_*.json")}
    for variant in sorted(path for path in variants.iterdir() if path.is_dir() and not path.name.startswith(".")):
        names = names_of(schemas, {name: load(variant / name / "schema.json") for name in splits})
        renamed = copy.deepcopy(dialogues)
        for of_file in renamed.values():
            for dialogue in of_file:
                rename(dialogue, names)
        for (name, file), of_file in renamed.items():
            path = output / variant.name / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w") as handle:
                json.dump(of_file, handle, indent=2, sort_keys=True)
                handle.write("\n")
        for name in splits:
            (output / variant.name / name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(variant / name / "schema.json", output / variant.name / name / "schema.json")


def load(path: Path) -> Any:
    """Reads a JSON file."""
    with path.open() as handle:
        return json.load(handle)


def names_of(schemas: dict[str, Any], variant: dict[str, Any]) -> dict[str, tuple[str, dict, dict]]:
    """Maps services to (new name, new names of slots, new names of intents), by position."""
    names = {}
    for split, services in schemas.items():
        for old, new in zip(services, variant[split], strict=True):
            slots, intents = (
                {a["name"]: b["name"] for a, b in zip(old[key], new[key], strict=True)} for key in ("slots", "intents")
            )
            names[old["service_name"]] = (new["service_name"], slots, intents)
    return names


def rename(dialogue: dict[str, Any], names: dict[str, tuple[str, dict, dict]]) -> None:
    """Replaces the names in a dialogue."""
    dialogue["services"] = [names[service][0] for service in dialogue["services"]]
    for turn in dialogue["turns"]:
        for frame in turn["frames"]:
            frame["service"], slots, intents = names[frame["service"]]
            for span in frame["slots"]:
                span["slot"] = slots[span["slot"]]
            for action in frame.get("actions", []):
                act, slot = action.get("act"), action["slot"]
                if slot == "intent" and act in ("INFORM_INTENT", "OFFER_INTENT"):
                    for key in ("values", "canonical_values"):
                        action[key] = [intents.get(value, value) for value in action.get(key, [])]
                elif (act, slot) != ("INFORM_COUNT", "count"):
                    action["slot"] = slots.get(action["slot"], action["slot"])
            if "state" in frame:
                state = frame["state"]
                state["active_intent"] = intents.get(state["active_intent"], state["active_intent"])
                state["requested_slots"] = [slots[slot] for slot in state["requested_slots"]]
                state["slot_values"] = {slots[slot]: value for slot, value in state["slot_values"].items()}
            if "service_call" in frame:
                call = frame["service_call"]
                call["method"] = intents[call["method"]]
                call["parameters"] = {slots[slot]: value for slot, value in call["parameters"].items()}
            if "service_results" in frame:
                frame["service_results"] = [
                    {slots[slot]: value for slot, value in result.items()} for result in frame["service_results"]
                ]


if __name__ == "__main__":
    rewrite(*map(Path, sys.argv[1:]))
