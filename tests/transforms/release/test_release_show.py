"""``show``: what a release says of itself, and a dataset of its versions."""

import pytest
import release_folder as folder
from kit import cases, lacking

from parapet.schemas.release import Changes, Parent
from parapet.transforms.release.card import dataset_report, release_report
from parapet.transforms.release.diff import size
from parapet.transforms.release.reading import read_manifest
from parapet.transforms.reports.report import card


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    output = tmp_path_factory.mktemp("shown")
    corpora = folder.sample_corpora(1)
    folder.write_release(output, corpora, version="1.10.0", parent=Parent("1.9.0", ""), changes=Changes("minor", []))
    folder.write_release(output, corpora, version="1.9.0", known_problems={"span": 2}, created="")
    (output / "little" / ".2.0.0.incomplete").mkdir()
    (output / "little" / "2.0.0").mkdir()  # without a manifest it is no release yet
    return output / "little"


def test_a_release_at_a_glance(dataset):
    first, second = (card(release_report(read_manifest(dataset / version))) for version in ("1.9.0", "1.10.0"))
    assert "The same rows as 1.9.0." in second
    assert "| Span | a span that is not inside its utterance | 2 |" in first
    assert not lacking(second, "| original | original dialogues | dialogue |", "- SGD. ")


@cases(
    "n told",
    (999, "999 bytes"),
    (1500, "1.5 kB"),
    (2_340_000, "2.3 MB"),
    (5_000_000_000_000, "5,000.0 GB"),
)
def test_sizes(n, told):
    assert size(n) == told


def test_versions_stand_in_their_order(dataset):
    told, text = dataset_report(dataset)
    lines = text.splitlines()
    assert (lines[0], lines[2]) == ("little, latest 1.9.0", "| version | created | licence | rows | size |")
    assert lines[4].startswith("| 1.9.0 | – | CC-BY-SA-4.0 |")
    assert lines[5].startswith("| 1.10.0 | 2026-01-02 | CC-BY-SA-4.0 |")
    assert (told["name"], told["latest"]) == ("little", "1.9.0")
    assert [one["version"] for one in told["versions"]] == ["1.9.0", "1.10.0"]
