import pytest
from kit import write

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.rewrite_pages import dialogue_paths


@pytest.fixture
def corpus(tmp_path):
    for place in (
        "train/dialogues_002.json",
        "train/dialogues_001.json",
        "test/dialogues_001.json",
        "train/schema.json",
    ):
        path = tmp_path / "corpus" / place
        write(path, "[]")
    return tmp_path / "corpus"


def names(*args):
    return [path.name for path in dialogue_paths(*args)]


@pytest.mark.parametrize(
    ("place", "split", "reason"),
    [
        ("nowhere", None, "no such file"),
        ("dev", None, "no dialogues here"),
        ("", "dev", "no dialogues of 'dev'; there are in: train, test"),
        ("test/dialogues_001.json", "test", "--split takes one split"),
    ],
)
def test_what_is_not_there_is_told(corpus, place, split, reason):
    (corpus / "dev").mkdir()
    with pytest.raises(InputError, match=reason):
        dialogue_paths([corpus / place], split)


def test_a_file_given_twice_is_read_once(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    assert names(["test", "test/dialogues_001.json", corpus / "test/dialogues_001.json"]) == ["test/dialogues_001.json"]
