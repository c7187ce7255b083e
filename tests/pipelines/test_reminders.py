"""``parapet reminders`` as a person runs it: a corpus that the other pipelines take, the same for any sharding."""

import pytest
from kit import cases, dialogues_of, json_of, refused_at_once, run

from parapet.schemas.dialogue import problems_of, read_dialogues
from parapet.schemas.layout import read_root, services_by_name

SIZES = ["--dialogues", "40,0,12"]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return run("reminders", *SIZES, per_file=16, output=tmp_path_factory.mktemp("output") / "out").folder


@cases(
    "flags message",
    (["--dialogues", "5,5"], "--dialogues: must be three numbers of dialogues, for train, dev and test"),
    (["--dialogues", "0,0,0"], "--dialogues: must be three numbers of dialogues"),
    (["--dialogues", "1,x,0"], "--dialogues: 'x' is not a whole number"),
    (["--per_file", "0"], "--per_file: 0: must be a number from 1 to 10,000"),
)
def test_mistakes(flags, message, tmp_path):
    assert message in refused_at_once("reminders", *flags, output=tmp_path / "out")


def test_the_corpus(output):
    assert {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()} == {
        *("README.md", "report.html", "run.json", "statistics.json"),
        *("train/schema.json", "train/dialogues_001.json", "train/dialogues_002.json", "train/dialogues_003.json"),
        *("test/schema.json", "test/dialogues_001.json"),
    }
    services = services_by_name(read_root(output))
    for split, n in (("train", 40), ("test", 12)):
        typed = [one for file in sorted((output / split).glob("d*.json")) for one in read_dialogues(file)]
        assert [one.dialogue_id for one in typed] == [f"{split}_{i:05}" for i in range(n)]
        assert not [problem for one in typed for problem in problems_of(one, services)]
    numbers = json_of(output / "statistics.json")
    train = list(dialogues_of(output / "train").values())
    of = numbers["splits"]["train"]
    utterances = [turn["utterance"] for one in train for turn in one["turns"]]
    assert (of["dialogues"], of["turns"], of["different_utterances"]) == (40, len(utterances), len(set(utterances)))
    frames = [turn["frames"][0] for one in train for turn in one["turns"]]
    assert of["calls"] == sum("service_call" in frame for frame in frames)
    assert of["failed_calls"] == sum("service_call" in frame and not frame["service_results"] for frame in frames)
    assert train[0]["turns"][0]["utterance"] in (output / "report.html").read_text()
    assert "| train | 40 |" in (output / "README.md").read_text()
    counts = json_of(output / "run.json")["counts"]
    assert (counts["dialogues//train"], counts["dialogues//test"]) == (40, 12)
    assert counts["turns//train"] == len(utterances)
