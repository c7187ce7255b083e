"""``parapet.perturb(corpus, "unseen_entities")`` gives what the command writes, and refuses what it cannot use."""

import pytest

import parapet
from parapet.schemas.layout import sample_root


def test_what_was_seen_must_be_known():
    sample = parapet.load_corpus()
    corpus = parapet.corpus_of({"test": sample.dialogues("test")}, {"test": sample.services("test")})
    message = (
        r"^it is not known which values occur in training, because there are no dialogues in 'train' "
        r".these splits have some: test.: give training ROOT"
    )
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(corpus, "unseen_entities")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "nowhere.csv"}, r"^nowhere.csv: values: cannot be read: No such file or directory$"),
        ({"categorical": "drop"}, r"^categorical: 'drop' must be one of keep, replace$"),
        ({"max_bad": 2}, r"^max_bad: 2 is not a number between 0 and 1$"),
        ({"training": 7}, r"^training: expected a corpus or a path, found int$"),
        ({"training": "nowhere"}, r"^nowhere: there is no such file or folder$"),
        ({"training": sample_root() / "translations.csv"}, r"translations.csv"),
        (
            {"splits": "test"},
            r"^unseen_entities has no option 'splits': its options are seed, values, categorical, training",
        ),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(parapet.InputError, match=message):
        parapet.perturb(parapet.load_corpus(), "unseen_entities", **options)
    assert capsys.readouterr() == ("", "")
