"""Which sets a list names, and files as training sets: what a bad dialogue costs."""

import copy
import json
import re
import shutil

from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import CountKey
from parapet.transforms.splits import augment as planning
from parapet.transforms.splits.augment import augment_file

LABELS = ["original", "replace", "order"]


def bad_slot(dialogue):
    next(f for t in dialogue["turns"] for f in t["frames"] if "state" in f)["state"]["slot_values"]["gone"] = ["x"]


def huge_span(dialogue):
    next(s for t in dialogue["turns"] for f in t["frames"] for s in f["slots"])["start"] = 2**40


@cases(
    "spoil name reason",
    (bad_slot, "1_00001", "unknown_slot: service '"),
    (lambda dialogue: dialogue.pop("dialogue_id"), "[1]", "not_sgd: Object missing required field `dialogue_id`"),
    (lambda dialogue: dialogue.update(services=["None_1"]), "1_00001", "unknown_service: no schema has a service"),
    (huge_span, "1_00001", "not_parquet: contains a value that Parquet cannot store: "),
    (lambda dialogue: dialogue["turns"][0].update(utterance="\ud800"), "[1]", "not_"),
)
def test_a_bad_dialogue_is_left_out_alone(spoil, name, reason, sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/train/dialogues_001.json"
    dialogues = json.loads(path.read_bytes())
    spoiled = copy.deepcopy(dialogues)
    spoil(spoiled[1])
    path.write_text(json.dumps(spoiled))
    plan = planning.make_plan(
        tmp_path / "sgd",
        "train",
        {"x": ("corrupted",)},
        {},
        [],
        planning.CorruptionConfig(["replace", "order"], planning.Rates(), "0"),
    )
    (file,) = (file for file in plan.files if file.name == path.name)
    result = augment_file(file, plan.augmentation, str(tmp_path / "out"))
    assert [(letter.variant, letter.dialogue_id) for letter in result.dead_letters] == [(of, name) for of in LABELS]
    assert all(letter.reason.startswith(reason) for letter in result.dead_letters), result.dead_letters
    kept = [dialogue for i, dialogue in enumerate(dialogues) if i != 1]
    written = json.loads((tmp_path / "out/.incomplete/x/train/dialogues_001.json").read_bytes())
    assert written[::3] == kept
    assert len(written) == result.counts.sum("versions") == result.counts[CountKey("dialogues", "x")] == 3 * len(kept)
    assert result.counts[CountKey("dialogues")] == len(dialogues)
    assert result.counts[CountKey("rows", "x")] == len(written)


@cases(
    "text said",
    ("oracle+", "'oracle+' is not a set"),
    ("oracle+oracle", "'oracle+oracle' is not a set"),
    ("backtrans+oracle,oracle+backtrans", "'oracle+backtrans' appears twice"),
    ("none+oracle", "'none+oracle' is not a set"),
)
def test_lists_that_are_not_of_sets(text, said):
    raised(InputError, planning.parse_sets, text.split(","), match=re.escape(f"--sets: {said}"))
