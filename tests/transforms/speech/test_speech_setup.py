"""What a run is told on the command line, and what it reads before anything is said."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import read_corpus
from parapet.transforms.perturbations.speech import sound
from parapet.transforms.perturbations.speech.alignment import Calibration, Setting, read_calibration
from parapet.transforms.perturbations.speech.setup import parse_ratios, parse_targets
from parapet.transforms.perturbations.speech.sound import make_noise
from parapet.transforms.perturbations.speech.spoken import Speakers, load_normalisation, occurrences_of, size_of

SPEAKERS = Speakers(("klatt4", "adam"), "0", load_normalisation(), 1000)
MADE_WITH = {"synthesiser": "espeak-ng", "noise": "pink", "voices": ["klatt4"]}


def test_targets_and_ratios():
    assert parse_targets("0.3, 0.1,.2,") == [0.1, 0.2, 0.3]
    assert parse_targets("0.125") == [0.125]
    assert parse_ratios("5,20, 12.5,-3") == [20, 12.5, 5, -3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "give each word error rate once"),
        (",", "give each word error rate once"),
        ("ten", "'ten' is no rate"),
        ("10%", "'10%' is no rate"),
        ("0.1;0.2", "'0.1;0.2' is no rate"),
        ("0", "0 is no word error rate"),
        ("1", "1 is no word error rate"),
        ("10", "10 is no word error rate: give shares between 0 and 1"),
        ("-0.1", "-0.1 is no word error rate"),
        ("nan", "nan is no word error rate"),
        ("inf", "inf is no word error rate"),
        ("0.1,0.10", "give each word error rate once"),
        ("0.2,0.20000000000001", "give each word error rate once"),
    ],
)
def test_targets_that_are_none(given, said):
    with pytest.raises(InputError, match=re.escape(f"--wer: {said}")):
        parse_targets(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "give two or more different ratios"),
        ("10", "give two or more different ratios"),
        ("10,10.0", "give two or more different ratios"),
        ("10,5,10", "give two or more different ratios"),
        ("10dB,5", "'10dB' is no ratio in dB"),
        ("61,5", "give two or more different ratios from -20 to 60 dB"),
        ("5,-21", "give two or more different ratios from -20 to 60 dB"),
        ("5,nan", "give two or more different ratios from -20 to 60 dB"),
        ("5,inf", "give two or more different ratios from -20 to 60 dB"),
    ],
)
def test_ratios_that_are_none(given, said):
    with pytest.raises(InputError, match=re.escape(f"--snr: {said}")):
        parse_ratios(given)


@given(st.lists(st.integers(1, 999), min_size=1, max_size=6, unique=True))
def test_every_list_of_rates_is_read_back(thousandths):
    assert parse_targets(",".join(str(n / 1000) for n in thousandths)) == sorted(n / 1000 for n in thousandths)


def calibration(place: Path, *settings: Setting, **more: Any) -> str:
    path = place / "calibration.json"
    every = msgspec.to_builtins(Calibration((12.0, 5.0), 12.0, settings))
    path.write_text(json.dumps({**every, "made_with": MADE_WITH, **more}))
    return str(path)


def test_a_calibration_is_read_back(tmp_path):
    every = [Setting(0.1, 0), Setting(0.2, 10000), Setting(0.3, 17)]
    path = calibration(tmp_path, *every)
    assert read_calibration(path, [0.1, 0.3], MADE_WITH) == (Calibration((12.0, 5.0), 12.0, (every[0], every[2])), [])
    now = {**MADE_WITH, "noise": "white", "recogniser": "azure"}
    assert read_calibration(path, [0.2], now) == (
        Calibration((12.0, 5.0), 12.0, (every[1],)),
        ["calibrated with noise 'pink', this run has 'white'", "calibrated with recogniser None, this run has 'azure'"],
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (Setting(0.1, 4), "has no SR-20; it has SR-10"),
        (Setting(0.2), "has no SR-20; it has SR-20"),
        (Setting(0.2, -1), "has no SR-20"),
        (Setting(0.2, 10001), "has no SR-20"),
    ],
)
def test_a_calibration_without_what_is_wanted(setting, said, tmp_path):
    path = calibration(tmp_path, setting)
    with pytest.raises(InputError, match=re.escape(f"{path}: --calibration: {said}")):
        read_calibration(path, [0.2], MADE_WITH)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"settings": []}',
        '{"settings": 7, "made_with": {}}',
        '{"settings": [{}], "made_with": {}}',
        '{"settings": [{"target": 0.2, "quiet": 9, "loud": 5, "threshold": 15}], "made_with": {}}',
        '{"ratios": [9, 5], "start": 9, "settings": [{"target": "0.2"}], "made_with": {}}',
        '{"ratios": [9, 5], "start": 9, "settings": [{"target": 0.2, "level": 1.5}], "made_with": {}}',
        '{"ratios": [9, 5], "start": 9, "settings": [], "made_with": "x"}',
        '{"ratios": [9, 5], "start": 9, "settings": [], "made_with": null}',
        '{"ratios": [9, 5], "start": 7, "settings": [{"target": 0.2, "level": 1}], "made_with": {}}',
        '{"ratios": [], "start": 7, "settings": [{"target": 0.2, "level": 1}], "made_with": {}}',
        '{"ratios": [99, 7], "start": 7, "settings": [{"target": 0.2, "level": 1}], "made_with": {}}',
    ],
)
def test_what_is_no_calibration(text, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(text)
    said = f"{path}: --calibration: is no calibration.json of speech_errors: "
    with pytest.raises(InputError, match=re.escape(said)):
        read_calibration(str(path), [0.2], MADE_WITH)


def test_a_calibration_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"gone\.json: --calibration: cannot be read: No such file"):
        read_calibration(str(tmp_path / "gone.json"), [0.2], MADE_WITH)
    with pytest.raises(InputError, match="--calibration: cannot be read: Is a directory"):
        read_calibration(str(tmp_path), [0.2], MADE_WITH)
    (tmp_path / "x").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"--calibration: is no calibration\.json"):
        read_calibration(str(tmp_path / "x"), [0.2], MADE_WITH)


def test_ratios_of_a_calibration_are_numbers(tmp_path):
    with pytest.raises(InputError):
        read_calibration(calibration(tmp_path, Setting(0.2, 17), ratios=[float("nan"), 12.0]), [0.2], MADE_WITH)


def test_the_corpus_of_some_splits(sample):
    found = read_corpus(sample, ["train", "test"])
    assert sorted(file.relative for file in found.files) == [
        "test/dialogues_001.json",
        "train/dialogues_001.json",
        "train/dialogues_002.json",
    ]
    assert [file.size for file in found.files] == sorted((file.size for file in found.files), reverse=True)
    assert found.schemas == [
        (f"{split}/schema.json", (sample / split / "schema.json").read_bytes()) for split in ("test", "train")
    ]
    assert found.problems == []
    again = read_corpus(str(sample), ["test", "test"])
    assert (again.files, again.schemas) == (read_corpus(sample, ["test"]).files, found.schemas[:1])


def test_a_folder_that_is_a_split_of_its_own(sample, tmp_path):
    shutil.copytree(sample / "test", tmp_path / "one")
    found = read_corpus(tmp_path / "one", ["test"])
    assert [file.relative for file in found.files] == ["dialogues_001.json"]
    assert [path for path, _ in found.schemas] == ["schema.json"]
    again = read_corpus(tmp_path / "one", ["train"])
    assert (again.files, again.schemas) == (found.files, found.schemas)


def test_a_split_that_is_not_there(sample, tmp_path):
    with pytest.raises(InputError, match="--split: there are no dialogues in 'tset'; there are in: ") as told:
        read_corpus(sample, ["test", "tset"])
    assert all(split in told.value.reason for split in ("train", "dev", "test"))
    shutil.copytree(sample, tmp_path / "sgd")
    shutil.rmtree(tmp_path / "sgd/train")
    with pytest.raises(InputError, match="there are no dialogues in 'train'; there are in: dev, test"):
        read_corpus(tmp_path / "sgd", ["train"])
    with pytest.raises(InputError, match="gone"):
        read_corpus(tmp_path / "gone", ["test"])
    with pytest.raises(InputError):
        read_corpus(sample, [])


def test_a_service_that_breaks_a_rule_is_told_and_no_hindrance(sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/test/schema.json"
    services = json.loads(path.read_bytes())
    del services[0]["slots"]
    path.write_text(json.dumps(services))
    found = read_corpus(tmp_path / "sgd", ["test"])
    assert len(found.problems) == 1
    assert str(path) in found.problems[0]
    assert found.schemas == [("test/schema.json", path.read_bytes())]
    assert read_corpus(tmp_path / "sgd", ["dev"]).problems == []


def test_noises_by_their_names(tmp_path):
    assert make_noise("pink", ["a"]) == sound.plain("pink")
    assert make_noise("babble", ["b", "a"]) == sound.babble(["a", "b"])
    with pytest.raises(InputError, match="purple: --noise: is neither a kind of noise"):
        make_noise("purple", [])


def test_how_much_there_is_to_say(sample):
    files = read_corpus(sample, ["train", "test"]).files * 2
    said = [utterance for file in files for utterance, _ in occurrences_of(file, SPEAKERS)]
    size = size_of(files, SPEAKERS)
    assert size.turns == len(said) > 100
    assert size.texts == len(set(said)) < len(said)
    assert size.characters == sum(len(one.text) for one in set(said))
    words = sum(len(one.text.split()) for one in set(said))
    assert size.seconds == pytest.approx(0.3 * words + 0.8 * size.texts)
    assert size_of([], SPEAKERS).seconds == 0
