"""``parapet ood`` as a person runs it: exact, nested, disjoint, the same in any order; what is told of bad input."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from kit import TWO_WORKERS
from multiwoz_corpus import write_corpus

from parapet.pipelines.main import main
from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.layout import read_root
from parapet.schemas.rows import OOD_TURNS
from parapet.transforms.perturbations.ood.language import key_of
from parapet.transforms.perturbations.ood.plan import FALLBACKS

SETS = {"ood-10": 0.1, "ood-20": 0.2, "ood-50": 0.5}


def run(out: Path, *flags: str) -> int:
    split = [] if "--split" in flags else ["--split", "train,test"]
    return main(["ood", "--output", str(out), *split, *flags])


def dialogues_of(folder: Path, split: str) -> dict[str, Any]:
    files = sorted((folder / split).glob("dialogues_*.json"))
    return {one["dialogue_id"]: one for file in files for one in json.loads(file.read_bytes())}


def rows_of(out: Path, name: str, split: str) -> list[dict[str, Any]]:
    files = sorted((out / name / "turns" / split).glob("*.parquet"))
    assert all(pq.read_schema(file).equals(OOD_TURNS) for file in files)
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """150 foreign utterances, three of which are not."""
    path = tmp_path_factory.mktemp("talk") / "talk.jsonl"
    what = ["volcanoes", "penguins", "castles", "turbines", "haiku", "comets", "lynxes"]
    said = [f"please explain {thing} of century {n}" for n in range(21) for thing in what]
    lines = [json.dumps({"text": text}) for text in [*said, "Yes, please!", "Thanks.", "Wexcombe, PLEASE"]]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def made(talk, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    assert run(out, "--source", str(talk), "--quiet") == 0
    return out


def test_the_sets(made, sample):
    """Rates exact, sets nested, original turns as they were, labels right, the state kept."""
    numbers = json.loads((made / "statistics.json").read_bytes())
    texts: dict[str, set[str]] = {}
    before: dict[str, set[tuple[str, str]]] = {"train": set(), "test": set()}
    for name, rate in SETS.items():
        for split in ("train", "test"):
            originals, new = dialogues_of(sample, split), dialogues_of(made / name, split)
            rows = rows_of(made, name, split)
            count = Counter(row["label"] for row in rows)
            users = sum(turn["speaker"] == "USER" for one in originals.values() for turn in one["turns"])
            assert count == {"in_domain": users, "ood": int(rate * users + 0.5)}
            of = numbers["sets"][name]["splits"][split]
            assert (of["in_domain_turns"], of["ood_turns"]) == (users, count["ood"])
            assert list(new) == list(originals)
            check_dialogues(originals, new, rows)
            uses = {(row["dialogue_id"], row["utterance"]) for row in rows if row["label"] == "ood"}
            assert len({key_of(text) for _, text in uses}) == count["ood"]
            assert before[split] <= uses
            before[split] = uses
            texts[split] = {key_of(text) for _, text in uses}
        assert not texts["train"] & texts["test"]
        assert (made / name / "train" / "schema.json").read_bytes() == (sample / "train" / "schema.json").read_bytes()
    pool = numbers["pool"]
    assert {key: pool[key] for key in ("utterances", "different", "kept", "near_duplicate", "generic")} == {
        "utterances": 150,
        "different": 150,
        "kept": 147,
        "near_duplicate": 2,
        "generic": 1,
    }


def check_dialogues(originals: dict[str, Any], new: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    services = {of.service_name: of for split in read_root(sample_of(originals)) for of in split.services}
    by_turn = {(row["dialogue_id"], row["turn"]): row for row in rows}
    for name, one in new.items():
        kept = []
        state: list[Any] = []
        for t, turn in enumerate(one["turns"]):
            row = by_turn.get((name, t))
            if turn["speaker"] == "SYSTEM":
                assert row is None
                if by_turn[name, t - 1]["label"] == "in_domain":
                    kept.append(turn)
                else:
                    assert (turn["utterance"], turn["frames"]) == (by_turn[name, t - 1]["fallback"], [])
                    assert turn["utterance"] in FALLBACKS
                continue
            assert row is not None
            assert row["utterance"] == turn["utterance"]
            values = [(frame["service"], frame["state"]["slot_values"]) for frame in turn["frames"]]
            if row["label"] == "in_domain":
                assert originals[name]["turns"][row["original_turn"]] == turn
                kept.append(turn)
                state = values
            else:
                assert (row["original_turn"], values) == (None, state)
                assert all(frame["slots"] == frame["actions"] == [] for frame in turn["frames"])
        assert {**one, "turns": kept} == originals[name]
        assert [turn["speaker"] for turn in one["turns"]] == ["USER", "SYSTEM"] * (len(one["turns"]) // 2)
        assert list(problems_of(msgspec.convert(one, Dialogue), services)) == []


def sample_of(_: object) -> Path:
    from parapet.schemas.layout import sample_root

    return sample_root()


def test_card_and_page(made):
    card = (made / "README.md").read_text()
    assert "| ood-50 | train | 50.0% | 150 | 75 | 33.3% |" in card
    assert "talk.jsonl (JSON lines)" in card
    page = (made / "report.html").read_text()
    assert "please explain" in page
    assert any(fallback.split("'")[0] in page for fallback in FALLBACKS)
    assert json.loads((made / "statistics.json").read_bytes())["overlapping"] == 0


def write_in_other_files(sample: Path, root: Path) -> None:
    """Dialogues in other files and another order."""
    for split in ("train", "test"):
        every = list(dialogues_of(sample, split).values())[::-1]
        (root / split).mkdir(parents=True)
        for n, part in enumerate((every[:3], every[3:]), 1):
            (root / split / f"dialogues_00{n}.json").write_text(json.dumps(part))
    for split in ("train", "test", "dev"):
        (root / split).mkdir(exist_ok=True)
        (root / split / "schema.json").write_bytes((sample / split / "schema.json").read_bytes())
    (root / "dev" / "dialogues_001.json").write_bytes((sample / "dev" / "dialogues_001.json").read_bytes())


def test_in_any_order_on_two_workers(made, sample, talk, tmp_path):
    """The source shuffled, dialogues in other files and another order: the same dialogues and numbers."""
    write_in_other_files(sample, tmp_path / "sgd")
    shuffled = tmp_path / "talk.jsonl"
    shuffled.write_text("\n".join(talk.read_text().split("\n")[::-1]))
    flags = ["--sgd", str(tmp_path / "sgd"), "--source", str(shuffled), "--quiet"]
    assert run(tmp_path / "out", *flags, *TWO_WORKERS) == 0
    for name in SETS:
        for split in ("train", "test"):
            assert dialogues_of(tmp_path / "out" / name, split) == dialogues_of(made / name, split)
    for name in ("statistics.json", "README.md"):
        assert (tmp_path / "out" / name).read_bytes() == (made / name).read_bytes()


def test_sets_are_exact_and_nested_in_whatever_files_dialogues_are(sample, talk, tmp_path):
    write_in_other_files(sample, tmp_path / "sgd")
    rates = {"ood-10": 0.1, "ood-20": 0.2}
    for name, root in (("a", sample), ("b", tmp_path / "sgd")):
        assert run(tmp_path / name, "--sgd", str(root), "--source", str(talk), "--rates", "0.1,0.2", "--quiet") == 0
    for split in ("train", "test"):
        lower: set[tuple[str, str]] = set()
        for name, rate in rates.items():
            assert dialogues_of(tmp_path / "a" / name, split) == dialogues_of(tmp_path / "b" / name, split)
            rows = rows_of(tmp_path / "a", name, split)
            count = Counter(row["label"] for row in rows)
            assert count["ood"] == int(rate * count["in_domain"] + 0.5)
            uses = {(row["dialogue_id"], row["utterance"]) for row in rows if row["label"] == "ood"}
            assert len(uses) == count["ood"]
            assert lower <= uses
            lower = uses
    assert (tmp_path / "a" / "statistics.json").read_bytes() == (tmp_path / "b" / "statistics.json").read_bytes()


def test_too_few_utterances(sample, tmp_path, capsys):
    source = tmp_path / "few.txt"
    source.write_text("\n".join(f"please explain volcanoes of century {n}" for n in range(20)))
    assert run(tmp_path / "out", "--sgd", str(sample), "--source", str(source), "--rates", "0.3", "--quiet") == 1
    said = capsys.readouterr().err
    missing = sum(int(n) for n in re.findall(r"(\d+) of (?:test|train)", said))
    assert 60 - 20 <= missing < 60
    assert ", 60 are needed in all (there are 20;" in said


def test_own_other_domains(sample, tmp_path):
    """Each utterance stands in a dialogue of the same split, or of one not written, that shares no domain."""
    from parapet.transforms.perturbation.corpora import domains_of

    assert run(tmp_path / "a", "--rates", "0.2", "--place", "append", "--seed", "x", "--quiet") == 0
    found = 0
    domains = {
        (split, name): set(domains_of(msgspec.convert(one, Dialogue)))
        for split in ("train", "dev", "test")
        for name, one in dialogues_of(sample, split).items()
    }
    for split in ("train", "test"):
        new = dialogues_of(tmp_path / "a" / "ood-20", split)
        for row in rows_of(tmp_path / "a", "ood-20", split):
            if row["label"] == "ood":
                file, source, turn = row["source"].split(":")
                of = file.split("/")[0]
                assert of in (split, "dev")
                assert not domains[of, source] & domains[split, row["dialogue_id"]]
                assert dialogues_of(sample, of)[source]["turns"][int(turn)]["utterance"] == row["utterance"]
                length = len(new[row["dialogue_id"]]["turns"])
                rest = rows_of_dialogue(tmp_path / "a", split, row["dialogue_id"], row["turn"])
                assert row["turn"] < length
                assert set(rest) == {"ood"}  # nothing of the original comes after it
                found += 1
    assert found == 40


def test_own_of_a_corpus_with_frames_of_every_service(tmp_path):
    """As MultiWOZ 2.2 is: a frame does not make a dialogue's domains, nor does its own list."""
    parts = [["hotel"], ["train"], ["attraction"], ["hotel", "restaurant"], ["police"]] * 6
    root = write_corpus(tmp_path / "mw", {"train": parts, "test": parts}, lists_all=True)
    assert run(tmp_path / "out", "--sgd", str(root), "--rates", "0.1,0.4", "--quiet") == 0
    domains = {f"MUL{n:04d}.json": set(parts[n % 30]) for n in range(60)}
    for split in ("train", "test"):
        rows = [row for row in rows_of(tmp_path / "out", "ood-40", split) if row["label"] == "ood"]
        assert len(rows) > 40
        for row in rows:
            assert not domains[row["source"].split(":")[1]] & domains[row["dialogue_id"]]
            assert "phone number" not in row["utterance"]
        check_uses(tmp_path / "out", "ood-40", split, rows, 3)


def check_uses(out: Path, name: str, split: str, rows: list[dict[str, Any]], most: int) -> None:
    """Numbers, page and card say how often utterances are used; none is twice in a dialogue, or too often."""
    uses = Counter(key_of(row["utterance"]) for row in rows)
    assert max(uses.values()) <= most
    assert max(Counter((row["dialogue_id"], key_of(row["utterance"])) for row in rows).values()) == 1
    numbers = json.loads((out / "statistics.json").read_bytes())
    told = numbers["sets"][name]["splits"][split]["uses"]
    assert told == {str(n): times for n, times in sorted(Counter(uses.values()).items())}
    manifest = json.loads((out / "run.json").read_bytes())
    assert manifest["options"]["uses"] == {"at_most": 10, "user_turns_each": 25}
    shown = ", ".join(f"{n}: {times:,}" for n, times in told.items())
    assert f'<td class="n">{shown}</td>' in (out / "report.html").read_text()
    assert f"| {shown} |" in (out / "README.md").read_text()


def rows_of_dialogue(out: Path, split: str, name: str, turn: int) -> list[str]:
    rows = rows_of(out, "ood-20", split)
    return [row["label"] for row in rows if row["dialogue_id"] == name and row["turn"] >= turn]


def test_what_cannot_be_read(sample, talk, tmp_path, capsys):
    root = tmp_path / "sgd" / "test"
    root.mkdir(parents=True)
    (root / "schema.json").write_bytes((sample / "test" / "schema.json").read_bytes())
    good = list(dialogues_of(sample, "test").values())
    bad = [{"dialogue_id": "../../x", "services": [], "turns": 3}, {**good[0], "dialogue_id": "half \ud800"}]
    (root / "dialogues_001.json").write_text(json.dumps([good[0], *bad, good[1]]))
    (root / "dialogues_002.json").write_text("[{}")
    source = tmp_path / "talk.jsonl"
    source.write_text(talk.read_text() + "\n{\n")
    flags = ["--sgd", str(tmp_path / "sgd"), "--split", "test", "--source", str(source), "--rates", "0.5"]
    assert run(tmp_path / "out", *flags, "--quiet") == 1
    told = capsys.readouterr().err
    assert "1 of 2 files and 2 of 4 dialogues could not be used, over --max_bad 1%, so nothing was published" in told
    assert not (tmp_path / "out" / "run.json").exists()
    assert run(tmp_path / "out", *flags, "--max_bad", "100%") == 0
    assert "left out: 1 of 2 files, 2 of 4 dialogues and 1 of 151 source rows (" in capsys.readouterr().err
    letters = [json.loads(line) for line in (tmp_path / "out" / "dead_letters.jsonl").read_text().splitlines()]
    assert [(one["file"], one["where"], one["reason"].split(":")[0]) for one in letters] == [
        ("talk.jsonl", "line 151", "not_json"),
        ("dialogues_001.json", "turns", "not_sgd"),
        ("dialogues_001.json", "", "not_unicode"),
        ("dialogues_002.json", "line 1 column 4", "broken_file"),
    ]
    assert list(dialogues_of(tmp_path / "out" / "ood-50", "test")) == [good[0]["dialogue_id"], good[1]["dialogue_id"]]


@pytest.mark.parametrize(
    ("flags", "status", "told"),
    [
        (["--rates", "10"], 2, "--rates: 10 is no rate: give shares above 0, up to 1"),
        (["--rates", "0.1,0.1"], 2, "--rates: give each rate once"),
        (["--split", "validation"], 2, "there are no dialogues in 'validation'; there are in: train, dev, test"),
        (["--split", ","], 2, "--split: give one or more of train, dev, test"),
        (
            ["--rates", "0.9"],
            1,
            "have 41 to between, and 44 are needed, 3 more; give rates up to 0.836, the highest possible here",
        ),
        (["--source", "nowhere"], 2, "nowhere: --source: there is no such file or folder"),
        (["--source", "SAMPLE"], 1, "--source: is in-domain: 100% of its 248 different utterances are near-duplicates"),
    ],
)
def test_mistakes(flags, status, told, sample, tmp_path, capsys):
    flags = [str(sample) if flag == "SAMPLE" else flag for flag in flags]
    assert run(tmp_path / "out", "--quiet", *flags) == status
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out" / "run.json").exists()


def test_it_tells_of_a_source_that_sounds_alike(tmp_path, capsys):
    source = tmp_path / "alike.txt"
    source.write_text("\n".join(f"yoga ferries {'laptop ' * (n % 7)} museums {n} tickets room" for n in range(400)))
    assert run(tmp_path / "out", "--source", str(source), "--rates", "0.01") == 0
    assert "have only content words that in-domain turns have, too: are they foreign?" in capsys.readouterr().err


def test_real_dialogues(real_data, tmp_path):
    """Train from the other domains of dev; the annotation is sound, and DST states follow the turn before."""
    root = real_data / "sgd"
    assert run(tmp_path / "out", "--sgd", str(root), "--split", "train", "--rates", "0.2", "--quiet") == 0
    counts = Counter(row["label"] for row in rows_of(tmp_path / "out", "ood-20", "train"))
    assert counts == {"in_domain": 1233, "ood": 247}
    services = {of.service_name: of for split in read_root(root) for of in split.services}
    for one in dialogues_of(tmp_path / "out" / "ood-20", "train").values():
        assert list(problems_of(msgspec.convert(one, Dialogue), services)) == []
        assert {turn["speaker"] for turn in one["turns"][::2]} == {"USER"}
        for turn in one["turns"][::2]:
            assert all("active_intent" in frame["state"] for frame in turn["frames"])


def test_all_rates_on_real_dialogues(real_data, tmp_path):
    """RADDLE's three rates from a corpus's own turns, on dialogues of ten services."""
    root = real_data / "sgd"
    assert run(tmp_path / "out", "--sgd", str(root), "--split", "dev", "--quiet") == 0
    for name, rate in SETS.items():
        rows = rows_of(tmp_path / "out", name, "dev")
        foreign = [row for row in rows if row["label"] == "ood"]
        assert len(foreign) == int(rate * (len(rows) - len(foreign)) + 0.5)
        check_uses(tmp_path / "out", name, "dev", foreign, 10)
        assert not [row for row in foreign if row["utterance"] == "What is their phone number?"]
