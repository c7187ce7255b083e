"""``parapet.perturb_text``: single utterances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, lacking

import parapet

TEXTS = ["I need a taxi to the station", "Please book a table for two at the Golden Lion", "Thank you so much"]
KINDS = ("typos", "verbose", "simple", "paraphrase")


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_perturbed_alike_alone_and_in_a_list(kind):
    together = parapet.perturb_text(TEXTS, kind, seed=1)
    assert together == [parapet.perturb_text(text, kind, seed=1) for text in TEXTS]
    assert together == parapet.perturb_text(iter(TEXTS), kind, seed=1)
    assert together[0] != TEXTS[0] or kind == "simple"  # "I need" may stay
    assert any(parapet.perturb_text(TEXTS, kind, seed=seed) != together for seed in range(2, 9)) or kind == "simple"
    assert parapet.perturb_text(["", " ", TEXTS[0], TEXTS[0]], kind, seed=1) == ["", " ", together[0], together[0]]
    assert parapet.perturb_text([], kind) == []


@given(st.integers(0, 10_000), st.sampled_from(["typos", "verbose"]))
def test_protected_values_stay(seed, kind):
    results = parapet.perturb_text(TEXTS, kind, seed=seed, protect=["the golden LION", "table", "station."])
    assert not lacking(results[1], "table", "the Golden Lion")
    assert "stati" in parapet.perturb_text(TEXTS[0], "typos", seed=seed, protect="station")


def test_more_values_than_the_service_has_slots():
    words = "river stone cloud table green seven window garden silver bridge music paper orange doctor winter "
    text = (6 * words).strip()
    assert parapet.perturb_text(text, "typos", seed=1, protect=set(text.split())) == text


def test_options_and_a_class_of_ones_own():
    assert parapet.perturb_text("I need a taxi now", "typos", set_name="typos-env1", env=(0.4,)) == "I need a taxi now"

    class Shout(parapet.Perturbation):
        name = "shout"

        def perturb(self, dialogue, random):
            return parapet.edit_user_turns(dialogue, lambda turn: [(0, 3, turn.utterance[:3].upper())])

    assert parapet.perturb_text("book the inn", Shout()) == "BOOk the inn"


@cases(
    "text perturbation options reason",
    (3, "typos", {}, "expected a text or a list of texts, found int"),
    (["a", 3], "typos", {}, r"text: \[1\]: expected a text, found int"),
    ("a", "typo", {}, "did you mean 'typos'"),
    ("a", "typos", {"protect": [3]}, "protect: expected texts, found 3"),
    ("a", "typos", {"protect": 3}, "protect: expected a list of texts, found int"),
    ("a", "typos", {"colour": 1}, "unexpected keyword argument 'colour': its options are"),
    ("a", "ood", {"set_name": "ood-10"}, "ood needs a corpus with schemas and states, which plain texts have not: use"),
    ("a", "unseen_entities", {"set_name": "unseen_entities"}, "unseen_entities needs a corpus with schemas"),
)
def test_mistakes(text, perturbation, options, reason):
    with pytest.raises(parapet.InputError, match=reason):
        parapet.perturb_text(text, perturbation, **options)
