"""eSpeak as a synthesiser: the same samples whatever was said before, in any process and thread; bad voices told."""

import re
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("espeakng_loader")

from parapet.schemas.errors import InputError, install_line
from parapet.transforms.perturbations.speech.embedded import Espeak, library, parse_voice


@pytest.fixture(scope="module")
def espeak():
    engine = Espeak()
    engine.open()
    return engine


def test_what_was_said_last_leaves_no_trace(espeak):
    """In the filters of klatt4 it does: without the syllable before, these two differ by 64 samples."""
    after = []
    for last in ("i need a one way flight", "it's in oakland"):
        espeak.speak(last, "klatt4")
        after.append(espeak.speak("las vegas please", "klatt4"))
    assert np.array_equal(*after)


@settings(deadline=None)
@given(st.text(max_size=12) | st.from_regex(r"[a-z4-]{1,6}(:[0-9]{0,5})?", fullmatch=True))
@example("klatt4:79")
@example("klatt4:401")
@example("klatt4\n")
@example("klatt4:" + "9" * 5000)
def test_a_voice_is_a_name_and_a_speed(voice):
    name, colon, speed = voice.partition(":")
    good = re.fullmatch("[A-Za-z0-9_-]+", name) and (not colon or re.fullmatch("[0-9]{1,4}", speed))
    if good and 80 <= int(speed or 175) <= 400:
        assert parse_voice(voice) == (name, int(speed or 175))
    else:
        with pytest.raises(InputError, match="--voices"):
            parse_voice(voice)


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(InputError, match=re.escape(f"espeakng-loader is not installed: {install_line('speech')}")):
        library.__wrapped__()
