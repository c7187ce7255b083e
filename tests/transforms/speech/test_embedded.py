"""PocketSphinx: the same sound gives the same words whatever came before; models of sentences and of users."""

import pickle
import random
import re
import sys
from functools import cache

import numpy as np
import pytest

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")
pytest.importorskip("scipy")

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech import language_model
from parapet.transforms.perturbations.speech.embedded import Espeak, Sphinx, acoustic_model, library
from parapet.transforms.perturbations.speech.language_model import (
    PHONES,
    arpabet,
    given_model,
    read_dictionary,
    trained_model,
)
from parapet.transforms.perturbations.speech.sound import plain, through_noise

SENTENCES = ["a table for two", "in san jose please", "yes that sounds good", "no thank you", "a flight to seattle"]
SENTENCES += ["when does it start", "zorbleflax at seven"]
SMALL = "\\data\\\nngram 1=4\n\n\\1-grams:\n-0.6 </s>\n-99 <s>\n-0.6 hello\n-0.6 zorbleflax\n\n\\end\\\n"


@pytest.fixture(scope="module", autouse=True)
def _read_once():
    """The CMU dictionary takes a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_model, "read_dictionary", cache(read_dictionary))
        yield


def split(sentences):
    return [one.split() for one in sentences]


@pytest.fixture(scope="module")
def model():
    return trained_model(split(SENTENCES), general=False)


def opened(model, folder):
    """As it comes to a worker, pickled."""
    for name, data in model.files().items():
        (folder / name).write_bytes(data)
    engine = pickle.loads(pickle.dumps(Sphinx(str(folder), model.id)))
    engine.open()
    return engine


@pytest.fixture(scope="module")
def sounds():
    """Twenty, most of them not easily heard, and two in which nobody says a word."""
    speaker = Espeak()
    speaker.open()
    voices = [("klatt4", 15.0), ("adam", 6.0), ("f1", 2.0)]
    every = [(text, voice, snr) for text in SENTENCES for voice, snr in voices][:18]
    spoken = [through_noise(speaker.speak(text, voice), plain("pink"), snr, text) for text, voice, snr in every]
    return [*spoken, *(through_noise(np.zeros(900, np.int16), plain("pink"), snr, "") for snr in (40.0, 5.0))]


def test_what_has_no_words_in_it(model, sounds, tmp_path):
    engine = opened(model, tmp_path)
    before = engine.hear(sounds[0])
    for n in (0, 1, 100, 160, 1000, 16000):
        assert len(engine.hear(np.zeros(n, np.int16)).split()) <= n // 8000
    for loud in (np.full(4000, 32767, np.int16), np.full(4000, -32768, np.int16), sounds[0][:500]):
        assert isinstance(engine.hear(loud), str)
    assert engine.hear(sounds[0].astype(">i2")) == before
    engine.close()
    engine.close()
    engine.open()
    assert engine.hear(sounds[0]) == before
    assert engine.dollars_per_hour == 0


def test_a_model_of_the_users(tmp_path, sounds, model):
    path = tmp_path / "my.arpa"
    path.write_text(SMALL)
    found = given_model(str(path))
    assert found.arpa == SMALL
    assert found.unknown == ["zorbleflax"]
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    assert [line.split(" ", 1)[1] for line in found.words.splitlines()[:-1]] == known["hello"]
    heard = opened(found, tmp_path).hear(sounds[0])
    assert set(heard.split()) <= {"hello", "zorbleflax"}
    (tmp_path / "ours.arpa").write_text(model.arpa)
    assert given_model(str(tmp_path / "ours.arpa")) == model


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no language model in the ARPA format: there are no 1-grams"),
        (SMALL.encode()[:60], "is no language model in the ARPA format: '-0.' is no 1-gram"),
        (SMALL.encode().replace(b"hello", b"h\xe9llo"), "not UTF-8 at byte"),
        (SMALL.replace("1=4", "1=40").encode(), ""),
        (SMALL.replace("ngram 1=4\n", "").encode(), ""),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_model_is_told_with_its_path(data, said, tmp_path):
    path = tmp_path / "my.arpa"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(f"{path}: --language_model: {said}")):
        given_model(str(path))


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    for ask in (acoustic_model, lambda: given_model("x"), Sphinx("x", "y").open, lambda: trained_model([["a"]], False)):
        with pytest.raises(InputError, match="pocketsphinx is not installed: pip install"):
            ask()


CMU = acoustic_model().with_name("cmudict-en-us.dict")


@pytest.fixture(scope="module")
def known():
    return read_dictionary(CMU)


def test_only_phones_that_the_recogniser_knows(known):
    phones = {phone for line in CMU.read_text().splitlines() for phone in line.split()[1:]}
    assert {phone for said in PHONES.values() for phone in said.split()} == phones
    made_up = ["zorbleflax", "sushi", "coachella", "o'clock", "x", "qwxyz"]
    for word in [*made_up, *random.Random(0).sample(sorted(known), 300)]:
        ipa = library().phonemes(word)
        assert set(arpabet(ipa).split()) <= phones
        assert arpabet(ipa), word
        # Nothing but stress, length, blanks and the mark of a syllable is left out.
        left = ipa
        for phone in sorted(PHONES, key=len, reverse=True):
            left = left.replace(phone, "")
        assert not set(left) - set("ˈˌː \u0329"), (word, ipa)


@pytest.mark.parametrize(
    ("word", "said"), [("cheese", "CH IY Z"), ("house", "HH AW S"), ("vision", "V IH ZH AH N"), ("boy", "B OY")]
)
def test_words_as_everybody_says_them(word, said):
    assert arpabet(library().phonemes(word)) == said


def test_a_dictionary_is_read_line_by_line(tmp_path):
    path = tmp_path / "small.dict"
    path.write_text("a AH\na(2) EY\no'clock  AH K L AA K\nb\tB IY\n\ncafé K AE F EY\n", encoding="utf-8")
    assert read_dictionary(path) == {
        "a": ["AH", "EY"],
        "o'clock": ["AH K L AA K"],
        "b": ["B IY"],
        "café": ["K AE F EY"],
    }
