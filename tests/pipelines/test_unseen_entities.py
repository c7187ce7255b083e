"""``parapet unseen_entities`` as a person runs it: leaks and spans by plain search, processes, bad input."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from multiwoz_corpus import write_corpus

from parapet.pipelines.main import main


def run(out: Path, *flags: str) -> int:
    return main(["unseen_entities", "--output", str(out), *flags])


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def rows_of(out: Path, split: str = "test") -> list[dict[str, Any]]:
    return [row for path in sorted((out / "replacements" / split).iterdir()) for row in pq.read_table(path).to_pylist()]


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in below for text in strings_of(one)]


def plain_words(text: str) -> list[str]:
    """Words as the plain reference has them: separated by blanks and dashes, with no mark but those inside numbers."""
    rough = [
        word.strip(".,:;!?()\"'’$&#")
        for word in re.split(r"[\s–-]+(?!\d)|-(?=\D)", text.casefold().replace("'s", " s"))
    ]
    return [word.replace(",", "").replace("'", "") for word in rough if word]


def check(original: Path, out: Path, training: Path, split: str) -> None:
    """Spans, leaks and structure of a set, by plain search."""
    said = [strings_of(read(path)) for path in sorted(training.glob("dialogues_*.json"))]
    said += [strings_of([[slot["possible_values"] for slot in one["slots"]] for one in read(training / "schema.json")])]
    seen = " | ".join(" ".join(plain_words(text)) for text in {text for texts in said for text in texts})
    seen = f" {seen} "
    for path in sorted((original / split).glob("dialogues_*.json")):
        for old, new in zip(read(path), read(out / split / path.name), strict=True):
            assert old["dialogue_id"] == new["dialogue_id"]
            values: dict[tuple[str, str], set[str]] = {}
            for turn in new["turns"]:
                for frame in turn["frames"]:
                    pairs = [
                        (a["slot"], v) for a in frame.get("actions", []) for v in [*a["values"], *a["canonical_values"]]
                    ]
                    pairs += [(s, v) for s, vs in frame.get("state", {}).get("slot_values", {}).items() for v in vs]
                    for slot, value in pairs:
                        values.setdefault((frame["service"], slot), set()).add(value)
            for before, after in zip(old["turns"], new["turns"], strict=True):
                for was, frame in zip(before["frames"], after["frames"], strict=True):
                    for span in frame["slots"]:
                        text = after["utterance"][span["start"] : span["exclusive_end"]]
                        assert text in values[frame["service"], span["slot"]]
                    assert [one["slot"] for one in was["slots"]] == [one["slot"] for one in frame["slots"]]
                    assert was.keys() == frame.keys()
    for row in rows_of(out, split):
        for value in [*row["replacement"], row["canonical_replacement"]] if row["unseen"] else []:
            found = plain_words(value)
            least = min(2, len(found))
            for i in range(len(found)):
                for j in range(i + least, len(found) + 1):
                    assert f" {' '.join(found[i:j])} " not in seen, value


def test_the_sample(sample, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(out) == 0
    told = capsys.readouterr().out
    assert told.startswith("8 dialogues changed, ")
    assert told.endswith(" values kept, 0 leaks\n")
    check(sample, out, sample / "train", "test")
    assert (out / "test" / "schema.json").read_bytes() == (sample / "test" / "schema.json").read_bytes()
    numbers = read(out / "statistics.json")
    rows = rows_of(out)
    for status in ("replaced", "kept"):
        assert numbers["values"][status] == sum(row["status"] == status for row in rows)
        assert sum(kind[status] for kind in numbers["kinds"].values()) == numbers["values"][status]
    assert sum(numbers["kept"].values()) == numbers["values"]["kept"]
    for place, n in numbers["places"].items():
        assert n == sum(row[place] for row in rows)
    counts = read(out / "run.json")["counts"]
    assert [counts[f"{name}/unseen_entities/test"] for name in ("dialogues", "open_changed")] == [8, 8]
    assert numbers["leaks"] == 0
    # A replaced value is nowhere in its dialogue any more.
    for one in read(out / "test" / "dialogues_001.json"):
        text = " | ".join(strings_of(one)).casefold()
        for row in rows:
            if row["dialogue_id"] == one["dialogue_id"] and row["status"] == "replaced" and row["kind"] == "city":
                assert row["canonical"].casefold() not in text


def test_a_corpus_shaped_as_multiwoz(tmp_path):
    """Slots have their domain before them: what replaces a value has its form, and what has no kind stays."""
    parts = [["hotel", "restaurant", "taxi"], ["train"], ["attraction", "hotel"], ["police"], ["hospital"]] * 4
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts})
    assert run(tmp_path / "out", "--sgd", str(root), "--quiet") == 0
    forms = {
        "hotel-ref": r"[A-Z0-9]{8}",
        "train-ref": r"[A-Z0-9]{8}",
        "train-trainid": r"TR\d{4}",
        "hotel-postcode": r"cb[1-5]\d[a-z]{2}|CB[1-5] \d[A-Z]{2}",
        "hotel-phone": r"01223\d{6}",
        "taxi-phone": r"01223\d{6}",
        "train-price": r"\d+\.\d0 pounds",
        "restaurant-booktime": r"\d\d:(00|15|30|45)|\d\d?:(00|15|30|45) [ap]m",
        "hotel-name": r"[a-z' &]+",
        "attraction-address": r"\d+ [a-z]+ [a-z]+",
    }
    rows = rows_of(tmp_path / "out")
    for slot, form in forms.items():
        new = [value for row in rows if row["slot"] == slot for value in row["replacement"]]
        assert new, slot
        assert all(re.fullmatch(form, value) for value in new), (slot, new)
    for slot in ("police-name", "taxi-type", "hospital-department", "train-duration"):
        assert {(row["status"], row["reason"]) for row in rows if row["slot"] == slot} == {("kept", "no_generator")}
    for old, new in zip(read(root / "test" / "dialogues_001.json"), read_set(tmp_path / "out"), strict=True):
        assert old["services"] == new["services"]
        for one in new["turns"]:
            for span in (span for frame in one["frames"] for span in frame["slots"]):
                assert one["utterance"][span["start"] : span["exclusive_end"]] == span["value"]


def read_set(out: Path) -> Any:
    return read(out / "test" / "dialogues_001.json")


def test_in_other_files_and_another_order(sample, tmp_path):
    dialogues = read(sample / "test" / "dialogues_001.json")
    root = tmp_path / "sgd"
    (root / "test").mkdir(parents=True)
    (root / "test" / "schema.json").write_bytes((sample / "test" / "schema.json").read_bytes())
    (root / "test" / "dialogues_001.json").write_text(json.dumps(dialogues[5:]))
    (root / "test" / "dialogues_002.json").write_text(json.dumps(dialogues[4::-1]))
    train = ["--training", str(sample)]
    assert run(tmp_path / "one", "--sgd", str(root), *train, "--quiet") == 0
    assert run(tmp_path / "ordered", "--quiet") == 0
    made = {
        one["dialogue_id"]: one for n in (1, 2) for one in read(tmp_path / "one" / "test" / f"dialogues_00{n}.json")
    }
    assert made == {one["dialogue_id"]: one for one in read(tmp_path / "ordered" / "test" / "dialogues_001.json")}


def test_a_gazetteer(tmp_path, capsys):
    path = tmp_path / "towns.csv"
    towns = ["Quorndon", "Wexcombe", "Zelah", "Ystrad", "Xanten", "Vaduz"]
    path.write_text("slot_or_kind,value\n" + "".join(f"city,{town}\n" for town in towns))
    assert run(tmp_path / "out", "--values", str(path)) == 0
    rows = rows_of(tmp_path / "out")
    new = {row["canonical_replacement"] for row in rows if row["kind"] == "city"}
    assert new <= set(towns)
    assert {row["reason"] for row in rows if row["kind"] == "time"} == {"not_in_file"}
    path.write_text("slot_or_kind,value\ncity,Quorndon\n")
    capsys.readouterr()
    assert run(tmp_path / "few", "--values", str(path)) == 1
    told = capsys.readouterr().err
    assert re.search(
        r"towns\.csv: --values: too few values; .*: city: \d missing \(a dialogue needs \d, there are 1\)", told
    )
    assert not (tmp_path / "few" / "run.json").exists()
    assert run(tmp_path / "few", "--values", str(path), "--max_bad", "100%", "--least_changed", "0") == 0
    assert "warning: too few values, what finds none is kept: city: " in capsys.readouterr().err
    assert "no_unseen_value" in {row["reason"] for row in rows_of(tmp_path / "few")}


def test_an_unchanged_set_fails(tmp_path, capsys):
    path = tmp_path / "values.csv"
    path.write_text("slot_or_kind,value\nairport,Quorndon Airfield\n")
    assert run(tmp_path / "out", "--values", str(path)) == 1
    assert "only 0 of 8 dialogues with open slots have changed" in capsys.readouterr().err
    assert not (tmp_path / "out" / "run.json").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--split", "validation"], "there are no dialogues in 'validation'"),
        (["--split", ","], "--split: give one or more of train, dev, test"),
        (["--least_changed", "2"], "--least_changed: 2 is no share: give 0 to 1"),
        (["--values", "nowhere.csv"], "nowhere.csv: --values: cannot be read"),
        (["--training", "nowhere"], "nowhere: --training: there is no such file or folder"),
        (["--sgd", "nowhere"], "nowhere: --sgd: there is no such file or folder"),
    ],
)
def test_mistakes(flags, told, tmp_path, capsys):
    assert run(tmp_path / "out", *flags) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_real_data(real_dialogues, tmp_path):
    """The real dialogues, checked by plain search."""
    root = real_dialogues
    assert run(tmp_path / "out", "--sgd", str(root), "--split", "train,dev", "--quiet") == 0
    for split in ("train", "dev"):
        check(root, tmp_path / "out", root / "train", split)
    there = sum(len(read(path)) for path in root.glob("*/dialogues_*.json"))
    assert there >= 128
    numbers = read(tmp_path / "out" / "statistics.json")
    assert (numbers["dialogues"], numbers["left_out"], numbers["leaks"]) == (there, 0, 0)
    assert numbers["open_changed"] == numbers["open"] > 0
