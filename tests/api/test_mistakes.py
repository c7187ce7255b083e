"""Mistakes that people make with the API are InputErrors that say what to do; nothing is printed, nothing exits."""

from pathlib import Path

import pytest

import parapet
from parapet.schemas.layout import sample_root

SAMPLE = parapet.load_corpus()


MISTAKES = [
    (lambda: parapet.perturb(SAMPLE, "typo"), r"no perturbation 'typo': did you mean 'typos'\?"),
    (lambda: parapet.perturb(SAMPLE, "xyz"), r"no perturbation 'xyz': must be one of .*typos"),
    (
        lambda: parapet.perturb(SAMPLE, "typos", sed=1),
        r"typos got an unexpected keyword argument 'sed': its options are seed, ",
    ),
    (
        lambda: parapet.perturb(SAMPLE, "typos", rates={"wrod": 1}),
        r"^rates: there is no rate 'wrod': did you mean 'word'\?",
    ),
    (lambda: parapet.perturb(SAMPLE, "typos", rates=0.5), r"^rates: there is no rate '0.5'"),
    (lambda: parapet.perturb(SAMPLE, "typos", at_least="two"), r"^at_least: 'two' is not a number"),
    (lambda: parapet.perturb(SAMPLE, "typos", env=[0.1, 2]), r"^env: 2 is not a number above 0"),
    (
        lambda: parapet.perturb(SAMPLE, "typos", env=0.1),
        r"typos makes 2 sets: set_name is required and must be one of typos, typos-env1",
    ),
    (lambda: parapet.perturb(SAMPLE, "typos", set_name="typo"), r"typos makes no set 'typo': must be one of typos"),
    (lambda: parapet.perturb(SAMPLE, "paraphrase", memory="nowhere.csv"), "nowhere.csv"),
    (lambda: parapet.perturb(SAMPLE, "verbose", rewritten="nowhere.jsonl"), "nowhere.jsonl: .*cannot be read"),
    (lambda: parapet.perturb(SAMPLE, int), "a subclass of Perturbation or an object of one, found type"),
    (lambda: parapet.perturb([], "typos"), "corpus: expected a corpus from parapet.load_corpus .* found list"),
    (lambda: parapet.perturb("nowhere", "typos"), "nowhere: there is no such file or folder"),
    (lambda: parapet.apply_variants(SAMPLE, "nowhere"), "nowhere: variants: there is no such folder"),
    (lambda: parapet.apply_variants(SAMPLE, sample_root() / "crowd"), "crowd: variants: contains no variants"),
    (lambda: parapet.apply_variants(SAMPLE, {"v1": {}}, names=["v2"]), r"there is no variant 'v2' \(found: v1\)"),
    (lambda: parapet.apply_variants(SAMPLE, {"v1": {"valid": []}}), r"variants\['v1'\]: 'valid' is not a split"),
    (lambda: parapet.apply_variants(SAMPLE, {"v1": {}}), "variants"),
    (lambda: parapet.load_corpus(Path(__file__)), r"not JSON"),
    (lambda: parapet.load_corpus("s3x://bucket/corpus"), "cannot be read"),
]


@pytest.mark.parametrize(("mistake", "reason"), MISTAKES)
def test_a_mistake(mistake, reason, capsys):
    with pytest.raises(parapet.InputError, match=reason):
        mistake()
    assert capsys.readouterr() == ("", "")
