"""The engine ``embedded``."""

import threading

import pytest

from parapet.transforms.core.fence import Refused
from parapet.transforms.translate.embedded import Embedded


def test_the_embedded_engine_in_any_thread():
    """Its library crashes once the thread that loaded it has ended: each text here has a thread of its own."""
    answers = []
    for text in ("Good morning", "I need a taxi", "Good morning"):
        task = threading.Thread(target=lambda text=text: answers.extend(Embedded().translate([text, " "], "en", "pt")))
        task.start()
        task.join()
    assert answers == ["Bom dia", "", "Eu preciso de um táxi", "", "Bom dia", ""]
    with pytest.raises(Refused, match="pair: en to de: the engine only translates between en and pt"):
        Embedded().translate(["x"], "en", "de")
