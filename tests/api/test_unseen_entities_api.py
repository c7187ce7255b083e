"""``parapet.perturb(corpus, "unseen_entities")`` gives what the command writes, and refuses what it cannot use."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_same_as_commands import SPLITS, data_of, run

import parapet
from parapet.schemas.layout import sample_root


@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])  # a shrink would take minutes
@given(
    seed=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=4),
    values=st.sampled_from(["generated", "corpus"]),
    categorical=st.sampled_from(["keep", "replace"]),
    split=st.booleans(),
)
def test_it_is_what_the_command_writes(seed, values, categorical, split):
    root = sample_root() / "test" if split else sample_root()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--values", values, "--categorical", categorical, "--seed", seed, "--least_changed", "0"]
        flags += ["--max_bad", "100%", "--split", SPLITS, "--sgd", str(root), "--training", str(sample_root())]
        run("unseen_entities", *flags, "--output", f"{folder}/c")
        options = {"values": values, "categorical": categorical, "seed": seed, "training": sample_root(), "max_bad": 1}
        corpus = parapet.perturb(parapet.load_corpus(root), "unseen_entities", **options)
        corpus.save(f"{folder}/a")
        expected = data_of(Path(folder, "c"))
        expected.pop("statistics.json")
        assert data_of(Path(folder, "a")) == expected
        assert any(row["status"] == "replaced" for row in corpus.rows.to_pylist()) or values == "corpus"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "nowhere.csv"}, r"^nowhere.csv: values: cannot be read: No such file or directory$"),
        ({"categorical": "drop"}, r"^categorical: 'drop' is none of keep, replace$"),
        ({"max_bad": 2}, r"^max_bad: 2 is no share: give 0 to 1$"),
        ({"training": 7}, r"^training: expected a corpus or a place, found int$"),
        ({"training": "nowhere"}, r"^nowhere: there is no such file or folder$"),
        ({"training": sample_root() / "translations.csv"}, r"translations.csv"),
        ({"splits": "test"}, r"^unseen_entities has no option 'splits': it has seed, values, categorical, training"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(parapet.load_corpus(), "unseen_entities", **options)
    assert capsys.readouterr() == ("", "")


def test_what_was_seen_must_be_known():
    sample = parapet.load_corpus()
    corpus = parapet.corpus_of({"test": sample.dialogues("test")}, {"test": sample.services("test")})
    message = r"^nobody knows what was seen .there are no dialogues in 'train'; there are in: test.; give training ROOT"
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(corpus, "unseen_entities")
