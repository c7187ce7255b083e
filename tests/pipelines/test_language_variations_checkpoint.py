"""``parapet language_variations --engine checkpoint``: paraphrases by a T5 that the test trains on a few turns."""

import pytest
from kit import cases, lacking, refused_at_once, write

pytest.importorskip("torch", reason="requires the extra models")

from test_language_variations_others import check_set, original_turns, rows_of, vary
from tiny_checkpoints import save_t5

# Turns of the sample to what the model is to say: a paraphrase, a value lost, a denial, a copy.
LEARNED = {
    "It's a deal.": "It's a deal for me.",
    "Someone has to look at my phone.": "Somebody needs to look at my phone.",
    "Ask for Monday then.": "Then ask for Sunday.",
    "It has a cracked screen.": "It has no cracked screen.",
    "Just what we need.": "Just what we need!",
}


def train(folder):
    """Teaches a tiny T5 the pairs by heart."""
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    save_t5(folder, [*LEARNED, *LEARNED.values(), "paraphrase:"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder).train()
    inputs = tokenizer([f"paraphrase: {text}" for text in LEARNED], return_tensors="pt", padding=True)
    labels = tokenizer(list(LEARNED.values()), return_tensors="pt", padding=True)["input_ids"]
    labels[labels == tokenizer.pad_token_id] = -100
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(90):
        loss = model(**inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "t5"
    train(folder)
    return folder


def by_text(rows):
    return {row["original"]: row for row in rows.values()}


@pytest.mark.thorough
def test_paraphrases_of_a_checkpoint(checkpoint, tmp_path):
    # An untrained rest of the sample: what comes of it loses values, and may not end.
    shared = {"kinds": "paraphrase", "env": "none", "least_changed": 0, "max_bad": "100%"}
    made = vary(tmp_path / "out", **shared, engine="checkpoint", model=checkpoint, beams=1)
    rows = by_text(check_set(original_turns(), tmp_path / "out", "paraphrase"))
    first, second, third, fourth, fifth = LEARNED
    for text in (first, second):
        assert (rows[text]["utterance"], rows[text]["source"]) == (LEARNED[text], "checkpoint")
    assert rows[third]["reason"].startswith(("value_lost", "value_unclear"))
    assert (rows[fourth]["reason"], rows[fifth]["reason"]) == ("polarity", "copy")
    assert not lacking(made.text("README.md"), "| pivots | en-x-para |", "| provider | checkpoint |", "| model | t5@")
    # The memory has the answers: they are replayed without the model.
    before = [row["utterance"] for row in rows_of(tmp_path / "out", "paraphrase").values()]
    vary(tmp_path / "out", **shared, engine="memory", pivots="en-x-para")
    assert [row["utterance"] for row in rows_of(tmp_path / "out", "paraphrase").values()] == before


@pytest.mark.thorough
def test_of_several_results_the_first_that_is_no_copy(checkpoint):
    from parapet.transforms.translation.local import PARAPHRASED, Paraphraser

    paraphraser = Paraphraser(str(checkpoint), beams=3)
    paraphraser.open()
    copy = "Just what we need."
    (found,) = paraphraser.translate([copy], "en", PARAPHRASED)
    assert found.rstrip(".!") != copy.rstrip(".")
    assert paraphraser.translate([copy], PARAPHRASED, "en") == [copy]


@cases(
    "flags reason",
    (["--model", "a", "b"], "--model: must name exactly one folder"),
    (["--model", "nowhere"], "nowhere: --model: there is no such folder"),
    (["--model", "GPT"], "contains a model of type 'gpt2'"),
    (["--model", "GPT", "--pivots", "de"], "--pivots: is for an engine that translates, but the engine is checkpoint"),
    (["--model", "GPT", "--temperature", "1"], "--temperature: is for --engine llm, but the engine is checkpoint"),
)
def test_mistakes(flags, reason, tmp_path):
    write(tmp_path / "GPT" / "config.json", '{"model_type": "gpt2"}')
    flags = [tmp_path / flag if flag == "GPT" else flag for flag in flags]
    assert reason in refused_at_once("language_variations", *flags, engine="checkpoint", output=tmp_path / "out")
