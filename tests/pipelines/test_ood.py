"""``parapet ood`` as a person runs it: exact, nested, disjoint, the same in any order; what is told of bad input."""

from collections import Counter

import msgspec
import pyarrow.parquet as pq
import pytest
from kit import cases, dialogues_of, json_of, lacking, refused, rows_of, run, write

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.layout import read_root
from parapet.schemas.rows import OOD_TURNS
from parapet.transforms.perturb.ood.plan import FALLBACKS
from parapet.transforms.perturb.ood.utterances import key_of

SETS = {"ood-10": 0.1, "ood-20": 0.2, "ood-50": 0.5}


def ood(out, *flags, split="train,test", **more):
    return run("ood", *flags, split=split, output=out, **more)


def turns_of(out, name, split):
    files = sorted((out / name / "turns" / split).glob("*.parquet"))
    assert all(pq.read_schema(file).equals(OOD_TURNS) for file in files)
    return [row for file in files for row in rows_of(file)]


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """147 foreign utterances, and two that could be said in any dialogue."""
    what = ["volcanoes", "penguins", "castles", "turbines", "haiku", "comets", "lynxes"]
    said = [f"please explain {thing} of century {n}" for n in range(21) for thing in what]
    return write(tmp_path_factory.mktemp("talk") / "talk.txt", "\n".join([*said, "Yes, please!", "Thanks."]))


@pytest.fixture(scope="module")
def made(talk, tmp_path_factory):
    return ood(tmp_path_factory.mktemp("made") / "out", source=talk).folder


def test_card_and_page(made):
    card = (made / "README.md").read_text()
    sets = "| ood-50 | train | 50.0% | 150 | 75 | 75 | 1 | 24 |"
    assert not lacking(card, sets, "| ood-50 | talk.txt | 100 | 100 |")
    page = (made / "report.html").read_text()
    assert "please explain" in page
    assert any(fallback.split("'")[0] in page for fallback in FALLBACKS)


def test_requests_to_other_services_and_small_talk(tmp_path):
    """By default, both; the numbers are those of the rows."""
    out = ood(tmp_path / "out").folder
    statistics = json_of(out / "statistics.json")["sets"]["ood-50"]
    uses, every = {}, []
    for split, numbers in statistics["splits"].items():
        rows = [row for row in turns_of(out, "ood-50", split) if row["label"] == "ood"]
        uses[split] = Counter(key_of(row["utterance"]) for row in rows)
        assert (len(uses[split]), max(uses[split].values())) == (numbers["distinct"], numbers["most_uses"])
        every += rows
    by_source = Counter("chat" if row["source"].startswith("chat:") else "own" for row in every)
    assert {name: numbers["turns"] for name, numbers in statistics["sources"].items()} == by_source
    assert min(by_source.values()) > 5
    assert max(Counter((row["dialogue_id"], key_of(row["utterance"])) for row in every).values()) == 1
    assert not uses["train"] & uses["test"]


def test_it_tells_of_utterances_that_are_used_often(tmp_path):
    source = write(tmp_path / "few.txt", "\n".join(f"Why do {animal} sleep?" for animal in ("wolves", "cats", "owls")))
    assert "up to" not in ood(tmp_path / "out", source=f"{source},chat", split="test", rates="0.8").errors
    said = ood(tmp_path / "more", source=source, split="test", rates="0.1,0.2").errors
    assert "ood-20 has foreign utterances up to" in said


def test_a_row_of_a_source_that_cannot_be_read(talk, tmp_path):
    source = write(tmp_path / "talk.txt", talk.read_bytes() + b"\n\xff\n")
    made = ood(tmp_path / "out", split="test", source=source, rates=0.5)
    assert "left out: 1 of 150 source rows (" in made.errors
    (letter,) = made.dead_letters
    assert [letter["file"], letter["where"], letter["reason"].split(":")[0]] == ["talk.txt", "line 150", "not_utf8"]


@cases(
    "flags status told",
    (["--rates", "10"], 2, "--rates: '10' must be different numbers above 0 and up to 1"),
    (["--rates", "0.1,0.1"], 2, "--rates: '0.1,0.1' must be different numbers"),
    (["--split", "validation"], 2, "there are no dialogues in 'validation'; these splits have some: train, dev, test"),
    (["--rates", "0.9"], 1, "lower --rates to 0.836 or less, the highest possible rate"),
    (["--source", "own,talk"], 2, "talk: --source: there is no such file or folder; give own, chat, text (.txt)"),
)
def test_mistakes(flags, status, told, tmp_path):
    said = refused("ood", "--split", "train,test", *flags, output=tmp_path / "out", status=status)
    assert (told in said, said.count("\n"), (tmp_path / "out" / "run.json").exists()) == (True, 1, False)


def check_annotation(root, dialogues):
    """The annotation is sound, and DST states follow the turn before."""
    services = {service.service_name: service for split in read_root(root) for service in split.services}
    for dialogue in dialogues.values():
        assert list(problems_of(msgspec.convert(dialogue, Dialogue), services)) == []
        assert {turn["speaker"] for turn in dialogue["turns"][::2]} == {"USER"}
        for turn in dialogue["turns"][::2]:
            assert all("active_intent" in frame["state"] for frame in turn["frames"])


def test_the_annotation_is_sound(made, sample):
    check_annotation(sample, dialogues_of(made / "ood-20"))


@pytest.mark.thorough
@cases("split", "train", "dev")
def test_real_dialogues(split, real_data, tmp_path):
    """RADDLE's three rates; train has one domain, so that its utterances come from dev."""
    out = ood(tmp_path / "out", sgd=real_data / "sgd", split=split).folder
    for name, rate in SETS.items():
        counts = Counter(row["label"] for row in turns_of(out, name, split))
        assert counts["ood"] == int(rate * counts["in_domain"] + 0.5)
    check_annotation(real_data / "sgd", dialogues_of(out / "ood-20" / split))
