import pytest
from kit import raised, write

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.rewrite_pages import dialogue_paths


@pytest.fixture
def corpus(tmp_path):
    places = ("train/dialogues_002.json", "train/dialogues_001.json", "test/dialogues_001.json", "train/schema.json")
    for place in places:
        write(tmp_path / "corpus" / place, "[]")
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
    raised(InputError, dialogue_paths, [corpus / place], split, match=reason)
