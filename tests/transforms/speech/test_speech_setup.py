"""What a run is told on the command line, and what it reads before anything is said."""

import re

import msgspec
import pytest
from kit import cases, raised, write

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech.alignment import Calibration, Setting, read_calibration
from parapet.transforms.perturbations.speech.setup import parse_ratios, parse_targets
from parapet.transforms.perturbations.speech.spoken import Speakers

SPEAKERS = Speakers(("heart", "fenrir"), "0", 1000)
MADE_WITH = {"synthesiser": "hibari", "noise": "pink", "voices": ["heart"]}


BAD = ["0", "1", "10", "-0.1", "nan"]
RATIOS = ["", "10", "10,10.0", "61,5", "5,-21", "5,nan"]


@cases(
    "parse given said",
    *((parse_targets, given, f"--wer: {given} is no") for given in BAD),
    (parse_targets, "0.1;0.2", "--wer: '0.1;0.2'"),
    *(
        (parse_targets, given, "--wer: each word error rate must appear once")
        for given in ("", ",", "0.1,0.10", "0.2,0.20000000000001")
    ),
    *((parse_ratios, given, "--snr: must be two or more different ratios") for given in RATIOS),
    (parse_ratios, "10dB,5", "--snr: '10dB'"),
)
def test_targets_and_ratios_that_are_none(parse, given, said):
    raised(InputError, parse, given, match=re.escape(said))


def calibration(place, *settings):
    every = msgspec.to_builtins(Calibration((12.0, 5.0), 12.0, settings))
    return str(write(place / "calibration.json", {**every, "made_with": MADE_WITH}))


@cases("setting", Setting(0.1, 4), Setting(0.2), Setting(0.2, -1), Setting(0.2, 10001))
def test_a_calibration_without_what_is_wanted(setting, tmp_path):
    path = calibration(tmp_path, setting)
    lacks = re.escape(f"{path}: --calibration: does not contain SR-20, only {setting.name}")
    raised(InputError, read_calibration, path, [0.2], MADE_WITH, match=lacks)


KEPT = {"ratios": [9, 5], "start": 9, "settings": [{"target": 0.2, "level": 1}], "made_with": {}}


@cases(
    "change",
    *({"settings": settings} for settings in (7, [{}], [{"target": "0.2"}], [{"target": 0.2, "level": 1.5}])),
    *({"made_with": made_with} for made_with in ("x", None)),
    *({"ratios": ratios} for ratios in ([], [99, 9], [float("nan"), 9], [8, 7])),
)
def test_what_is_no_calibration(change, tmp_path):
    path = write(tmp_path / "mine.json", {**KEPT, **change})
    with pytest.raises(InputError, match=re.escape(f"{path}: --calibration: is not a calibration.json")):
        read_calibration(str(path), [0.2], {})
