"""``parapet unseen_entities`` as a person runs it: leaks and spans by plain search, processes, bad input."""

import re
import shutil

from kit import json_of, rows_of, run, write

from parapet.schemas.layout import sample_root
from parapet.transforms.perturb.entities.mentions import GENERIC


def replace(out, **flags):
    return run("unseen_entities", output=out, **flags)


def replaced(out, split="test"):
    return [row for path in sorted((out / "replacements" / split).iterdir()) for row in rows_of(path)]


def strings_of(value):
    if isinstance(value, str):
        return [value]
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in below for text in strings_of(one)]


def plain_words(text):
    """Words as the plain reference has them: separated by blanks and dashes, with no mark but those inside numbers."""
    said = re.split(r"[\s–-]+(?!\d)|-(?=\D)", text.casefold().replace("'s", " s"))
    return [word.replace(",", "").replace("'", "") for word in [word.strip(".,:;!?()\"'’$&#") for word in said] if word]


def check(original, out, training, split):
    """Spans, leaks and structure of a set, by plain search."""
    said = {text for path in training.glob("dialogues_*.json") for text in strings_of(json_of(path))}
    slots = [slot for one in json_of(training / "schema.json") for slot in one["slots"]]
    said |= {text for slot in slots for text in strings_of(slot["possible_values"])}
    seen = f" {' | '.join(' '.join(plain_words(text)) for text in said)} "
    for path in sorted((original / split).glob("dialogues_*.json")):
        for old, new in zip(json_of(path), json_of(out / split / path.name), strict=True):
            assert old["dialogue_id"] == new["dialogue_id"]
            values = {}
            for frame in (frame for turn in new["turns"] for frame in turn["frames"]):
                named = [(act["slot"], [*act["values"], *act["canonical_values"]]) for act in frame.get("actions", [])]
                for slot, found in (*named, *frame.get("state", {}).get("slot_values", {}).items()):
                    values.setdefault((frame["service"], slot), set()).update(found)
            for before, after in zip(old["turns"], new["turns"], strict=True):
                for was, frame in zip(before["frames"], after["frames"], strict=True):
                    for span in frame["slots"]:
                        text = after["utterance"][span["start"] : span["exclusive_end"]]
                        assert text in values[frame["service"], span["slot"]]
                    assert [one["slot"] for one in was["slots"]] == [one["slot"] for one in frame["slots"]]
                    assert was.keys() == frame.keys()
    for row in replaced(out, split):
        for value in [*row["replacement"], row["canonical_replacement"]] if row["unseen"] else []:
            found = plain_words(value)
            least = min(2, len(found))
            for i in range(len(found)):
                for j in range(i + least, len(found) + 1):
                    if j - i < len(found) and all(word in GENERIC or word[0].isdecimal() for word in found[i:j]):
                        continue  # "restaurant bar"
                    assert f" {' '.join(found[i:j])} " not in seen, value


def test_a_gazetteer(tmp_path):
    path = tmp_path / "towns.csv"
    towns = ["Quorndon", "Wexcombe", "Zelah", "Ystrad", "Xanten", "Vaduz"]
    write(path, [{"slot_or_kind": "city", "value": town} for town in towns])
    rows = replaced(replace(tmp_path / "out", values=path).folder)
    assert {row["canonical_replacement"] for row in rows if row["kind"] == "city"} <= set(towns)
    write(path, "slot_or_kind,value\ncity,Quorndon\n")
    replace(tmp_path / "few", values=path, least_changed="0")
    assert "no_unseen_value" in {row["reason"] for row in replaced(tmp_path / "few")}


def test_without_a_training_split_nothing_of_the_corpus_is_used(tmp_path):
    for split in ("dev", "test"):
        shutil.copytree(sample_root() / split, tmp_path / "corpus" / split)
    told = replace(tmp_path / "out", sgd=tmp_path / "corpus", split="test")
    assert "0 leaks" in told.output
    for split in ("dev", "test"):
        check(tmp_path / "corpus", told.folder, tmp_path / "corpus" / split, "test")


def test_real_data(real_dialogues, tmp_path):
    """The real dialogues, checked by plain search."""
    root = real_dialogues
    replace(tmp_path / "out", sgd=root, split="train,dev")
    for split in ("train", "dev"):
        check(root, tmp_path / "out", root / "train", split)
    there = sum(len(json_of(path)) for path in root.glob("*/dialogues_*.json"))
    assert there >= 128
    statistics = json_of(tmp_path / "out" / "statistics.json")
    numbers = statistics["sets"]["unseen_entities"]
    assert (statistics["dialogues"], statistics["left_out"], numbers["leaks"]) == (there, 0, 0)
    assert numbers["open_changed"] == numbers["open"] > 0
