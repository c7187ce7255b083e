"""The matrix of outputs and inputs agrees with the commands; some of it is tried here, all by make test-matrix."""

import json
from pathlib import Path

import pytest
from commands import registered

from matrix.cells import Part, run_cell
from matrix.inputs import MORE, SERVICES, command_lines
from matrix.picture import is_shown, label_of, table_of
from parapet.pipelines.main import main

ROOT = Path(__file__).parents[3]


def test_every_input_of_every_command_is_in_the_matrix():
    """A new flag that reads needs a line in ``inputs.py``."""
    lines = command_lines("place")
    assert set(lines) == {key for key in registered() if key[:2] not in SERVICES} | set(MORE)


def test_the_documentation_has_every_input():
    """As of the last ``make test-matrix``: a new one has not been tried, or the page is old."""
    shown = json.loads((ROOT / "docs/inputs_outputs.json").read_text())["inputs"]
    picture = (ROOT / "docs/images/inputs_outputs.svg").read_text()
    labels = {label_of(key) for key in command_lines("place") if is_shown(key)}
    assert set(shown) == labels
    assert all(label in picture for label in labels)


@pytest.fixture(scope="module")
def place(tmp_path_factory, sample):
    """Two outputs: sets of dialogues, and task pages."""
    place = tmp_path_factory.mktemp("matrix")
    (place / "sgd").symlink_to(sample)
    for name, argv in {
        "perturb": ["perturb", "typos"],
        "hits names": ["hits", "--schemas", str(sample / "test")],
    }.items():
        assert main([*argv, "--output", str(place / "out" / name), "--workers", "1", "--quiet"]) == 0
    return place


def test_what_does_not_fit_is_refused_with_a_reason(place, tmp_path):
    """The two outputs as a whole, at every input whose command needs nothing but the sample besides."""
    ran = set()
    faults = []
    for key, line in command_lines(str(place)).items():
        elsewhere = any(str(place) in text and not text.startswith(str(place / "sgd")) for text in line)
        if key[0] in ("train", "predict", "mturk") or elsewhere or "{" in "".join(line).replace("{value}", ""):
            continue
        for producer in ("perturb", "hits names"):
            cell = run_cell(place, key, line, Part(producer, "", place / "out" / producer), tmp_path / "scratch")
            faults += [cell] if cell.fault else []
            ran |= {(producer, label_of(key))} if cell.status == 0 else set()
    assert faults == []
    assert ran == set()  # one of the sets of 'perturb' fits, the folder of all does not
    assert table_of([cell]) == {key: {"hits names": "refused"}}
