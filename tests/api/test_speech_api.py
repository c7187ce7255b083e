"""``parapet.perturb(corpus, "speech_errors")`` gives what the command writes: calibrated over the whole corpus."""

import gc
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("espeakng_loader")
pytest.importorskip("pocketsphinx")

from heard_sets import run, three_dialogues, write_corpus
from test_same_as_commands import data_of

import parapet

QUICK: dict[str, Any] = {"wer": (0.1, 0.3), "language_model": "own", "snr": (14, 9, 6, 3), "sample": 4}
FLAGS = ["--wer", "0.1,0.3", "--language_model", "own", "--snr", "14,9,6,3", "--sample", "4"]


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Three dialogues of the sample in two files, the dialogues, and their schema."""
    return three_dialogues(tmp_path_factory)


@pytest.fixture(scope="module")
def heard(some, tmp_path_factory):
    """What the command writes of them."""
    out = tmp_path_factory.mktemp("heard") / "out"
    assert run(out, "--sgd", str(some[0]), "--split", "test", *FLAGS, "--quiet") == 0
    return out


@pytest.fixture(scope="module")
def short(some, tmp_path_factory):
    """A corpus of three user turns, for tests that transcribe anew: decoding is what takes time."""
    return write_corpus(tmp_path_factory.mktemp("short") / "sgd", some[2], some[1][:1])


def test_it_is_what_the_command_writes(heard, some, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests have caches of their own meanwhile
    sets = parapet.perturb_sets(some[0], "speech_errors", **QUICK)
    assert list(sets) == ["SR-10", "SR-30"]
    for name, corpus in sets.items():
        corpus.save(tmp_path / name)
        assert data_of(tmp_path / name) == data_of(heard / name)
        assert {row["status"] for row in corpus.rows.to_pylist()} == {"heard"}
    assert len(list(tmp_path.glob("parapet-speech-*"))) == 1
    del sets, corpus
    gc.collect()
    assert not list(tmp_path.glob("parapet-speech-*"))


@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])  # a shrink would take minutes
@given(
    form=st.sampled_from(["heard", "restored"]),
    noise=st.sampled_from(["pink", "babble"]),
    seed=st.sampled_from(["0", "another"]),
    longest=st.sampled_from([1000, 60]),
)
def test_options(short, tmp_path_factory, form, noise, seed, longest):
    """The transcripts of the command are found in its cache: nothing is transcribed twice."""
    out = tmp_path_factory.mktemp("options")
    flags = ["--form", form, "--noise", noise, "--seed", seed, "--longest", str(longest), "--language_model", "own"]
    assert run(out / "c", "--sgd", str(short), *flags, "--wer", "0.2", "--snr", "14,3", "--sample", "2", "--quiet") == 0
    cache = shutil.copytree(out / "c" / ".heard", out / "cache")
    kept = {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}
    options = {**QUICK, "form": form, "noise": noise, "seed": seed, "longest": longest}
    options |= {"wer": 0.2, "snr": (14, 3), "sample": 2}
    corpus = parapet.perturb(short, "speech_errors", cache=cache, **options)
    corpus.save(out / "a")
    assert data_of(out / "a") == data_of(out / "c" / "SR-20")
    assert {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()} == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^speech_errors makes 3 sets: give set_name, one of SR-10, SR-20, SR-30$"),
        ({"wer": 20}, r"^wer: 20 is no word error rate"),
        ({"wer": 0.2, "snr": 5}, r"^snr: give two or more"),
        ({"wer": 0.2, "longest": "1"}, r"^longest: 1 is too few"),
        ({"wer": 0.2, "form": "sung"}, r"^form: 'sung' is none of heard, restored"),
        ({"wer": 0.2, "noise": "nowhere"}, r"^nowhere: noise: "),
        ({"wer": 0.2, "engine": "parrot"}, r"^speaker: there is no speech engine 'parrot'"),
        ({"wer": 0.2, "voices": []}, r"^voices: give one or more voices"),
        ({"wer": 0.2, "language_model": "train"}, r"^the language model needs a split train"),
        ({"wer": 0.2, "calibration": "nowhere"}, r"^nowhere: calibration: cannot be read"),
        ({"wer": 0.2, "calibration": "x", "snr": "9,5"}, r"^calibration: has its own ratios"),
        ({"wer": 0.2, "max_bad": 7}, r"^max_bad: 7 is no share"),
    ],
)
def test_bad_options(some, options, message, capfd):
    services = parapet.load_corpus(some[0]).services()
    corpus = parapet.corpus_of({"dev": some[1]}, {"dev": services})
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(corpus, "speech_errors", **options)
    assert capfd.readouterr() == ("", "")
