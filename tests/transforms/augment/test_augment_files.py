"""Files as training sets: what a bad dialogue costs, and that the rest of its file goes on."""

import copy
import json
import shutil

import pytest

from parapet.transforms.running.counts import CountKey
from parapet.transforms.splits.augment.augmenting import augment_file
from parapet.transforms.splits.augment.plan import CorruptionConfig, Rates, make_plan

LABELS = ["original", "replace", "order"]


def bad_slot(dialogue):
    next(f for t in dialogue["turns"] for f in t["frames"] if "state" in f)["state"]["slot_values"]["gone"] = ["x"]


def huge_span(dialogue):
    next(s for t in dialogue["turns"] for f in t["frames"] for s in f["slots"])["start"] = 2**40


@pytest.mark.parametrize(
    ("spoil", "name", "reason"),
    [
        (bad_slot, "1_00001", "unknown_slot: service '"),
        (lambda dialogue: dialogue["turns"][0].update(utterance=7), "1_00001", "not_sgd: Expected `str`, got `int`"),
        (lambda dialogue: dialogue.pop("dialogue_id"), "[1]", "not_sgd: Object missing required field `dialogue_id`"),
        (lambda dialogue: dialogue.update(services=["None_1"]), "1_00001", "unknown_service: no schema has a service"),
        (lambda dialogue: dialogue.update(mine=2**70), "1_00001", "not_parquet: holds what Parquet cannot: "),
        (lambda dialogue: dialogue.update(mine=float("nan")), "1_00001", "not_parquet: "),
        (huge_span, "1_00001", "not_parquet: "),
        (lambda dialogue: dialogue["turns"][0].update(utterance="\ud800"), "1_00001", "not_"),
    ],
)
def test_a_bad_dialogue_is_left_out_alone(spoil, name, reason, sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/train/dialogues_001.json"
    dialogues = json.loads(path.read_bytes())
    spoiled = copy.deepcopy(dialogues)
    spoil(spoiled[1])
    path.write_text(json.dumps(spoiled))
    plan = make_plan(
        tmp_path / "sgd", "train", {"x": ("corrupted",)}, {}, [], CorruptionConfig(["replace", "order"], Rates(), "0")
    )
    (file,) = (file for file in plan.files if file.name == path.name)
    result = augment_file(file, plan.augmentation, str(tmp_path / "out"))
    assert [letter.variant for letter in result.dead_letters] == LABELS
    assert {letter.dialogue_id for letter in result.dead_letters} == {name}
    assert all(letter.reason.startswith(reason) for letter in result.dead_letters), result.dead_letters
    kept = [dialogue for i, dialogue in enumerate(dialogues) if i != 1]
    written = json.loads((tmp_path / "out/.incomplete/x/train/dialogues_001.json").read_bytes())
    assert written[::3] == kept
    assert result.others["ids"] == [(file.relative, [dialogue["dialogue_id"] for dialogue in kept])]
    assert len(written) == result.counts.sum("versions") == result.counts[CountKey("dialogues", "x")] == 3 * len(kept)
    assert result.counts[CountKey("dialogues")] == len(dialogues)
    assert [key for key, _ in result.others["rows"]] == [("x", 0, 1)]
