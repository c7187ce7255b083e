"""eSpeak as a synthesiser: the same samples whatever was said before, in any process and thread; bad voices told."""

import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("espeakng_loader")

from parapet.schemas.errors import InputError, install_line
from parapet.transforms.perturbations.speech.embedded import Espeak, library, parse_voice
from parapet.transforms.perturbations.speech.sound import digest
from parapet.transforms.running.fence import Refused

# In the original robosoft8 and f2 flutter, whisper breathes, Reed and anikaRobot echo; klatt4 does not.
VOICES = ["klatt4", "robosoft8", "f2", "whisper", "Reed:140", "anikaRobot", "plain", "plain:300", "adam:150"]
TEXTS = ["i want a table at seven", "thank you", "no"]
BOTH = [(text, voice) for text in TEXTS for voice in VOICES]
# What others say after these two depends on them ("intonation -25" of the first stays), and what antonio says on who
# spoke before.
UNSTEADY = ["robosoft2", "antonio"]


@pytest.fixture(scope="module")
def espeak():
    engine = Espeak()
    engine.open()
    return engine


def digests(engine: Espeak, asked: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    return {one: digest(engine.speak(*one)) for one in asked}


ELSEWHERE = """
import sys
from parapet.transforms.perturbations.speech.sound import digest
from parapet.transforms.perturbations.speech.embedded import Espeak
engine = Espeak()
engine.open()
for line in sys.stdin.read().splitlines():
    print(digest(engine.speak(*line.split("\\t"))))
"""


def elsewhere(asked: Iterable[tuple[str, str]]) -> list[str]:
    """The digests of the same in another process."""
    lines = "\n".join(map("\t".join, asked))
    run = subprocess.run([sys.executable, "-c", ELSEWHERE], input=lines, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_the_same_samples_in_any_order_and_in_another_process(espeak):
    found = digests(espeak, BOTH)
    assert len(set(found.values())) == len(BOTH)
    for seed in range(2):
        assert digests(espeak, random.Random(seed).sample(BOTH, len(BOTH))) == found
    asked = BOTH[::-1]
    assert dict(zip(asked, elsewhere(asked), strict=True)) == found


def test_every_voice_there_is_in_two_orders(espeak):
    voices = [voice for voice in library().variants if voice not in UNSTEADY]
    assert len(voices) > 90
    forth = digests(espeak, [("at two", voice) for voice in voices])
    assert digests(espeak, [("at two", voice) for voice in reversed(voices)]) == forth
    # A voice whose file was not found would be the language's own. "fast" is that at another speed, which we set.
    assert [voice for _, voice in forth if forth["at two", voice] == forth["at two", "plain"]] == ["plain", "fast"]


@pytest.mark.parametrize("voice", UNSTEADY)
def test_voices_that_cannot_be_made_steady_are_none(voice, espeak):
    with pytest.raises(InputError, match=f"'{voice}' is no voice of eSpeak"):
        espeak.speak("at", voice)


def test_what_was_said_last_leaves_no_trace(espeak):
    """In the filters of klatt4 it does: without the syllable before, these two differ by 64 samples."""
    after = []
    for last in ("i need a one way flight", "it's in oakland"):
        espeak.speak(last, "klatt4")
        after.append(espeak.speak("las vegas please", "klatt4"))
    assert np.array_equal(*after)


def test_what_it_says_is_sound_of_the_rate_and_kind_that_is_agreed(espeak):
    sound = espeak.speak(TEXTS[0], "klatt4")
    assert sound.dtype == np.int16
    assert sound.ndim == 1
    assert 1.0 < len(sound) / 16_000 < 3.0
    assert np.abs(sound.astype(int)).max() > 1000
    # A text of which twice as much is said lasts about twice as long.
    assert 1.7 < len(espeak.speak(f"{TEXTS[0]} {TEXTS[0]}", "klatt4")) / len(sound) < 2.2


def test_speed_shortens(espeak):
    lasts = [len(espeak.speak(TEXTS[0], f"klatt4:{speed}")) for speed in (80, 120, 175, 250, 400)]
    assert lasts == sorted(lasts, reverse=True)
    assert 1.5 < lasts[0] / lasts[2] < 3
    assert 1.5 < lasts[2] / lasts[4] < 3
    assert np.array_equal(espeak.speak("no", "klatt4:175"), espeak.speak("no", "klatt4"))


def test_threads_do_not_hear_one_another(espeak):
    found = digests(espeak, BOTH)
    asked = BOTH * 3
    random.Random(1).shuffle(asked)
    with ThreadPoolExecutor(6) as pool:
        sounds = list(pool.map(lambda one: digest(espeak.speak(*one)), asked))
        words = ["sushi", "hello"] * 20
        said = list(pool.map(library().phonemes, words))
    assert sounds == [found[one] for one in asked]
    assert said == ["sˈuːʃi", "həlˈoʊ"] * 20


def test_phonemes_do_not_depend_on_who_spoke_before(espeak):
    for voice in VOICES:
        espeak.speak("no", voice)
        assert library().phonemes("tomato") == "təmˈeɪɾoʊ"
        assert digest(espeak.speak("no", voice)) == digest(travelled().speak("no", voice))


def travelled() -> Espeak:
    """One that came here pickled, as to a worker."""
    engine = pickle.loads(pickle.dumps(Espeak()))
    engine.open()
    return engine


@pytest.mark.parametrize(
    "voice",
    [
        "",
        ":150",
        "klatt4:",
        "klatt4:79",
        "klatt4:401",
        "klatt4:9999",
        "klatt4:0",
        "klatt4:-150",
        "klatt4:1e2",
        "klatt4:150:150",
        "klatt4 ",
        "klatt4\n",
        "../x",
        "!v/klatt4",
        "/etc/passwd",
        "en-us+klatt4",
        "a\0b",
        "klatt\u0664",
        "kla\u00eftt",
        "\ud800",
    ],
)
def test_what_is_no_voice_of_any_kind(voice, espeak):
    for ask in (parse_voice, lambda one: espeak.check([one]), lambda one: espeak.speak("no", one)):
        with pytest.raises(InputError, match="--voices: ") as told:
            ask(voice)
        assert "is no voice: give a name such as klatt4, or klatt4:150" in told.value.reason


@pytest.mark.parametrize("voice", ["nobody", "Klatt4", "parapet-klatt4", "-", "klatt4-", "nobody:150"])
def test_names_that_nobody_has(voice, espeak):
    name = voice.partition(":")[0]
    with pytest.raises(InputError, match=f"--voices: '{name}' is no voice of eSpeak; there are .*adam.*klatt4.*plain"):
        espeak.check(["klatt4", voice])


def test_who_is_not_checked_does_not_speak_as_somebody_else(espeak):
    with pytest.raises(InputError, match="is no voice of eSpeak"):
        espeak.speak("no", "nobody")


def test_a_speed_of_very_many_digits():
    with pytest.raises(InputError):
        parse_voice("klatt4:" + "9" * 5000)


@settings(deadline=None)
@given(st.text(max_size=12) | st.from_regex(r"[a-z4-]{1,6}(:[0-9]{0,5})?", fullmatch=True))
def test_a_voice_is_a_name_and_a_speed(voice):
    name, colon, speed = voice.partition(":")
    good = re.fullmatch("[A-Za-z0-9_-]+", name) and (not colon or re.fullmatch("[0-9]{1,4}", speed))
    if good and 80 <= int(speed or 175) <= 400:
        assert parse_voice(voice) == (name, int(speed or 175))
    else:
        with pytest.raises(InputError, match="--voices"):
            parse_voice(voice)


def test_good_voices_are_not_complained_of(espeak):
    espeak.check(VOICES)
    espeak.check([])
    assert {voice.partition(":")[0] for voice in VOICES} <= set(library().variants)


def test_nothing_said_is_refused(espeak):
    with pytest.raises(Refused) as told:
        espeak.speak("", "klatt4")
    assert told.value.reason.partition(":")[0] == "empty_answer"


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(InputError, match=re.escape(f"espeakng-loader is not installed: {install_line('speech')}")):
        library.__wrapped__()


def test_it_opens_and_closes_more_than_once():
    engine = Espeak()
    engine.close()
    engine.open()
    engine.open()
    first = digest(engine.speak("no", "klatt4"))
    engine.close()
    engine.close()
    engine.open()
    assert digest(engine.speak("no", "klatt4")) == first
    assert engine.dollars_per_million == 0


def test_its_data_are_left_alone():
    """What is changed is in a folder of links of our own."""
    import espeakng_loader

    folder = f"{espeakng_loader.get_data_path()}/voices/!v"
    listed = subprocess.run(["ls", folder], capture_output=True, text=True, check=True).stdout.split("\n")
    assert not [name for name in listed if "parapet" in name]
