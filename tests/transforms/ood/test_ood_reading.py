"""Dialogues read for the plan: the same as those that are written, and the same errors."""

import pytest

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbations.ood.plan import check_unicode
from parapet.transforms.perturbations.ood.planning import sound_dialogues

TURN = b'{"speaker": "USER", "utterance": "%s", "frames": []}'
GOOD = b'{"dialogue_id": "1", "services": [], "turns": [%s]}' % (TURN % b"Hello")
MORE = b'{"dialogue_id": "2", "services": [], "turns": [], "more": %s}'


def outcomes(dialogues):
    """Positions and dialogues or errors, as text; the error that ends a file last."""
    found = []
    try:
        found += [(position, repr(dialogue)) for position, dialogue in dialogues]
    except InputError as error:
        found = [(-1, str(error))]  # what came before it is not used
    return found


@pytest.mark.parametrize(
    "items",
    [
        [GOOD, GOOD],
        [GOOD, b"{}", GOOD],
        [GOOD, MORE % b'"\\ud800"', GOOD],
        [GOOD, MORE % b"1e999", MORE % b"NaN", GOOD],
        [GOOD, MORE % b'"\x80"'],  # not UTF-8, where nothing looks at it
        [GOOD, MORE % (b"[" * 2000 + b"]" * 2000), GOOD],
        [GOOD, GOOD.replace(b"Hello", b"\\ud800"), GOOD],
        [GOOD, GOOD.replace(b"Hello", "grüß".encode()), b"1"],
        [GOOD, b"{"],
        [],
    ],
)
def test_the_same_as_of_a_file_that_is_written(items):
    data = b"[" + b",".join(items) + b"]"
    file = DialogueFile("train", "dialogues_001.json", "a.json", len(data), data)
    written = (
        (at, (check_unicode(raw) if not isinstance(one, InputError) and not plain else None) or one)
        for at, raw, plain, one in dialogues_of(file)
    )
    assert outcomes((at, one) for at, _, one in sound_dialogues(file)) == outcomes(written)
