"""Utterances from acts: templates, prefixes beside a frozen T5, beam search that no batch changes, the reranker."""

import dataclasses
import re

import pytest
import torch
from generation_toy import texts, write_toy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kit import ONE_EPOCH, SEED, THOROUGH, raised
from tiny_checkpoints import save_t5

from parapet.evaluation.generation import corpus
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.scoring import choose
from parapet.evaluation.models import generation_t5 as net
from parapet.evaluation.models.configs import GenerationConfig
from parapet.evaluation.models.generation import Search, merged, read_examples, sentence, text_of
from parapet.schemas.errors import InputError
from parapet.transforms.core.checkpoints import inspect

GARDEN = corpus.Words("has garden", "Whether it has a garden")
SLOTS = {"city": corpus.Words("city", "City of the cafe"), "has_garden": GARDEN}
FIND = corpus.Words("find cafe", "find a cafe")
WORDS = {"Cafes_1": corpus.ServiceWords(SLOTS, {"FindCafe": FIND}), "Taxis_1": corpus.ServiceWords({}, {})}
# In the format of T2G2: generation/utterance_templates of google-research/task-oriented-dialogue.
CAFES = """\
CONFIRM!!city!!@\tYou go to @.
INFORM!!city!!@\tIt is in @.
INFORM!!city!!@@\tThey are in @ and @.
INFORM!!city!!dontcare\tThey are anywhere.
INFORM!!has_garden!!False\tYou sit inside.
INFORM!!has_garden!!True\tYou sit outside.
INFORM_COUNT!!FindCafe!!count!!@\tI found @ cafes.
NOTIFY_SUCCESS!!FindCafe\tYour table is booked.
OFFER!!city!!@\tHow about @?
OFFER_INTENT!!FindCafe\tShall I look for a cafe?
REQUEST!!city\tIn which place?
REQUEST!!city!!@@\tIn @ or @?
REQ_MORE\tAnything else?
"""


def act(name, slot="", *values, kind="free", service="Cafes_1", intent=""):
    return corpus.Act(service, name, slot, values, values, kind, intent)


def write(folder, **services):
    folder.mkdir(exist_ok=True)
    for service, lines in services.items():
        (folder / f"{service}.tsv").write_bytes(lines.encode())
    return folder


def test_sentences_in_the_words_of_the_schema():
    said = {
        act("REQUEST", "city"): "Request City of the cafe.",
        act("REQUEST", "city", "Oslo", "Rome"): "Request City of the cafe: Oslo or Rome.",
        act("INFORM", "city", "Oslo"): "City of the cafe is Oslo.",
        act("OFFER", "city", "Oslo"): "How about this: City of the cafe is Oslo.",
        act("CONFIRM", "city", "Oslo"): "City of the cafe is Oslo.",
        act("RECOMMEND_IT", "city", "St. Louis Mo."): "Recommend it: City of the cafe is St. Louis Mo.",
        act("INFORM", "has_garden", "False", kind="boolean"): "Whether it has a garden? No.",
        act("INFORM_COUNT", "count", "3", kind="marker"): "There are 3 results.",
        act("OFFER_INTENT", "intent", "FindCafe", kind="marker"): "Offer to find a cafe.",
        act("GOODBYE", kind="none"): "Goodbye.",
        act("SOMETHING", kind="none"): "Something.",
    }
    assert {one: sentence(one, WORDS["Cafes_1"]) for one in said} == said
    both = [act("OFFER", "city", "Oslo"), act("REQ_MORE", kind="none")]
    assert (text_of(both, WORDS), text_of([], WORDS)) == ("How about this: City of the cafe is Oslo. Request more.", "")


def test_the_keys_of_t2g2(tmp_path):
    templates, paths = corpus.read_templates(str(write(tmp_path / "t", Cafes_1=CAFES, Cafes_2="GOODBYE\tBye.\n")))
    assert [path.name for path in paths] == ["Cafes_1.tsv", "Cafes_2.tsv"]
    said = {
        act("INFORM", "city", "Oslo"): "It is in Oslo.",
        act("INFORM", "city", "@", "a\t{b}"): "They are in @ and a {b}.",
        act("INFORM", "city", "dontcare"): "They are anywhere.",
        act("INFORM", "has_garden", "False", kind="boolean"): "You sit inside.",
        act("INFORM_COUNT", "count", "3", kind="marker", intent="FindCafe"): "I found 3 cafes.",
        act("NOTIFY_SUCCESS", kind="none", intent="FindCafe"): "Your table is booked.",
        act("OFFER_INTENT", "intent", "FindCafe", kind="marker"): "Shall I look for a cafe?",
        act("REQUEST", "city"): "In which place?",
        act("REQUEST", "city", "Oslo", "Rome"): "In Oslo or Rome?",
        act("REQ_MORE", kind="none"): "Anything else?",
        # Without a template of its own.
        act("REQUEST", "city", "Oslo"): "Request City of the cafe: Oslo.",
        act("NOTIFY_SUCCESS", kind="none", intent="BuyCafe"): "The request was successful.",
        act("GOODBYE", kind="none"): "Goodbye.",
    }
    assert {one: text_of([one], WORDS, templates) for one in said} == said
    missing = [corpus.key_of(one) for one in said if corpus.template_of(one, templates) is None]
    assert missing == ["REQUEST!!city!!@", "NOTIFY_SUCCESS!!BuyCafe", "GOODBYE"]


SENTENCES = st.lists(st.sampled_from(["@", "{value}", "%s", "\\1", "It is", "!!", "é,", "."]), min_size=1, max_size=6)
VALUES = st.text(st.characters(codec="utf-8"), max_size=6)


def plainly(template, values):
    """A template with its values, one after another."""
    rest, done = template, ""
    for value in values:
        before, _, rest = rest.partition("@")
        done += before + value
    return " ".join((done + rest).split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(SENTENCES, st.lists(VALUES, max_size=6), st.text("abc_", min_size=1, max_size=5))
def test_any_template_is_filled_with_any_values(tmp_path, parts, values, slot):
    template = " ".join(parts)
    given_values = tuple((values + ["x"] * 6)[: template.count("@")])
    one = act("INFORM", slot, *given_values)
    assume(corpus.key_of(one).count("@") == len(given_values))  # the key of a boolean has its value
    templates, _ = corpus.read_templates(str(write(tmp_path / "t", Cafes_1=f"{corpus.key_of(one)}\t{template}\r\n\n")))
    assert text_of([one], WORDS, templates) == plainly(template, given_values)
    # The same values in another number have no template: the sentence is ours, and says each of them.
    more = act("INFORM", slot, *given_values, "Oslo")
    assert corpus.template_of(more, templates) is None
    assert "Oslo" in text_of([more], WORDS, templates)


def test_lines_that_are_no_template_are_refused_by_file_and_line(tmp_path):
    expected = "expected a key, a tab and a sentence"
    for line, reason in {
        "GOODBYE": expected,
        "GOODBYE\t": expected,
        "GOODBYE\tBye\tBye": expected,
        "INFORM!!city!!@ It is @.": expected,
        "INFORM!!city!!@\tIt is here.": "the key has 1 @, but the sentence has 0: both must have one for each value",
        "INFORM!!city\tIt is @ @.": "the key has 0 @, but the sentence has 2: both must have one for each value",
    }.items():
        folder = write(tmp_path / "t", Cafes_1=f"\ufeffREQ_MORE\tAnything else?\n\n{line}\n")
        error = raised(InputError, corpus.read_templates, str(folder), match=re.escape(reason))
        assert (error.path, error.where) == (str(folder / "Cafes_1.tsv"), "line 3")
    (tmp_path / "t" / "Cafes_1.tsv").write_bytes(b"GOODBYE\t\xe9")
    raised(InputError, corpus.read_templates, str(folder), match="not UTF-8 at byte 8")
    none = "contains no templates: expected a folder with SERVICE"
    for place in (tmp_path, tmp_path / "none", tmp_path / "t" / "Cafes_1.tsv"):
        raised(InputError, corpus.read_templates, str(place), match=none)
    # Of lines with one key the last counts.
    folder = write(tmp_path / "t", Cafes_1="\ufeffGOODBYE\tBye.\nGOODBYE\tSee  you.\r\n")
    assert corpus.read_templates(str(folder))[0] == {"Cafes_1": {"GOODBYE": "See you."}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("toy") / "toy")


@pytest.fixture(scope="module")
def checkpoint(toy, tmp_path_factory):
    # The seed is one whose utterances are long and many.
    return save_t5(tmp_path_factory.mktemp("models") / "t5", texts(toy), size=16, layers=2, vocabulary=200)


def loaded(checkpoint, max_input=64, max_output=12):
    tokenizer, t5 = net.load_t5(inspect(str(checkpoint), ["t5"]))
    for name, one in t5.named_parameters():  # or a random model says the same to all
        if "relative" not in name and "norm" not in name:
            one.data.mul_(1.5)
    card = net.Card(model="ft_t5", checkpoint="", max_input=max_input, max_output=max_output)
    return tokenizer, t5.double(), card


def drawn(t5, length, scale=1.0):
    generator = torch.Generator().manual_seed(SEED)
    shapes = net.shapes_of(t5, length)
    return {kind: scale * torch.randn(of, generator=generator).double() for kind, of in shapes.items()}


def logits(t5, tokenizer, inputs, said):
    """Of each pair, as one batch."""
    read = tokenizer(inputs, return_tensors="pt", padding=True)
    labels = tokenizer(said, return_tensors="pt", padding=True)
    with torch.inference_mode():
        found = t5(**read, labels=labels["input_ids"]).logits
    return [row[: int(mask.sum())] for row, mask in zip(found, labels["attention_mask"], strict=True)]


INPUTS = ["Request City of the cafe.", "There are 5 results.", "How about this: Name of the cafe is Opa. Request more."]
SAID = ["Which city ?", "I have 5 cafes .", "Opa is nice . Anything else ?"]


def test_no_prefix_is_the_plain_t5(checkpoint):
    tokenizer, t5, _ = loaded(checkpoint)
    plain = logits(t5, tokenizer, INPUTS, SAID)
    held = net.attach(t5)
    for prefixes in ({}, drawn(t5, 0)):
        held.of = prefixes
        for one, other in zip(logits(t5, tokenizer, INPUTS, SAID), plain, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def slow_attention(module, query, key, value, prefix, bias):
    """Attention of one example, head by head: the prefix has no bias."""
    heads = []
    for h in range(query.shape[1]):
        keys, values = torch.cat([prefix[0, h], key[0, h]]), torch.cat([prefix[1, h], value[0, h]])
        own = torch.cat([torch.zeros(query.shape[2], prefix.shape[2]).double(), bias[0, h]], 1)
        heads.append((query[0, h] @ keys.T + own).softmax(1) @ values)
    return torch.stack(heads, 1)[None]


def test_attention_is_that_of_the_paper(checkpoint):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    _, t5, _ = loaded(checkpoint)
    held = net.attach(t5)
    held.of = drawn(t5, 3)
    module = t5.decoder.block[1].layer[1].EncDecAttention
    query, key, value, bias = (torch.randn(1, 4, *of).double() for of in ((5, 4), (7, 4), (7, 4), (5, 7)))
    attend = ALL_ATTENTION_FUNCTIONS["parapet_prefixes"]
    found, _ = attend(module, query, key, value, None, scaling=1.0, position_bias=bias)
    torch.testing.assert_close(found, slow_attention(module, query, key, value, held.of["cross"][1], bias))


PREFIX = {"prefix_length": 4, "prefix_embedding": 16, "prefix_size": 8}
SIZES = {"max_input": 64, "max_output": 16, "batch_size": 9, "learning_rate": 0.05}
CONFIG = GenerationConfig(model="pt_t5", checkpoint="t5", **PREFIX, **SIZES, **ONE_EPOCH)


def test_dev_is_one_over_the_perplexity(checkpoint, toy):
    rows = read_examples(str(toy), "dev").rows[:7]
    learner = net.GenerationLearner(CONFIG, inspect(str(checkpoint), ["t5"]), rows, rows)
    tokenizer, t5 = learner.tokenizer, learner.t5
    learner.module.eval()
    told = []
    with torch.inference_mode():
        for one in rows:
            ids = tokenizer(one.said)["input_ids"]
            (row,) = logits(t5, tokenizer, [one.text], [one.said])
            told += row.log_softmax(1)[range(len(ids)), ids].tolist()
        assert learner.dev() != pytest.approx(torch.tensor(told).mean().exp().item())  # the prefixes count
        learner.prefixes, learner.held.of = None, {}
        assert learner.dev() == pytest.approx(torch.tensor(told).mean().exp().item(), rel=1e-4)


def test_what_is_too_long_loses_its_beginning(checkpoint, caplog, toy):
    tokenizer, t5, card = loaded(checkpoint, max_input=8)
    long = "How about this: Name of the cafe is Opa. Request City of the cafe."
    end = tokenizer.decode(tokenizer(long)["input_ids"][-8:-1])
    generator = net.Generator(card, tokenizer, t5, Search(4, 1, 1))
    said, other, short = generator.generate([long, f"Request more. {long}", "Request more."])
    assert (said.cut, other.cut, short.cut, said, len(tokenizer(end)["input_ids"])) == (True, True, False, other, 8)
    rows = read_examples(str(toy), "train").rows
    config = dataclasses.replace(CONFIG, max_input=8, max_output=4)
    learner = net.GenerationLearner(config, inspect(str(checkpoint), ["t5"]), rows, rows[:5])
    assert "train: 36 of 60 templates are longer than --max_input, 8 tokens: the beginning is cut off" in caplog.text
    assert "of 5 utterances are longer than --max_output, 4 tokens: the end is cut off" in caplog.text
    assert int(learner.train[0].lengths.max()) == 8
    of = learner.train[0]
    assert set(of.flat[of.starts + of.lengths - 1].tolist()) == {tokenizer.eos_token_id}


def test_an_ensemble_by_hand():
    """SGSAcc, section 3: a point for each act that an utterance entails, the likelihood in case of a tie."""
    said, other = "The city is Oslo.", "It is the city of Oslo."
    both, none = f"{said} Anything else?", "Hm."
    expected = {  # (fine-tuned, prefix-tuned) to what is said
        ((none, -0.1), (said, -9.0)): said,  # 0 points against 1
        ((said, -0.1), (both, -9.0)): both,  # 1 against 2
        ((said, -0.2), (other, -0.1)): other,  # 1 and 1: the more likely, whichever model it is of
        ((said, -0.1), (other, -0.2)): said,
        (("Well.", -0.3), (none, -0.4)): "Well.",  # 0 and 0
        ((said, -0.5), (other, -0.5)): other,  # as likely: the first in the alphabet
        ((said, -0.5), (said, -0.1)): said,
    }
    acts = (act("INFORM", "city", "Oslo"), act("REQ_MORE", kind="none"))
    turns = [corpus.SystemTurn("d", i, "", "", acts) for i in range(len(expected))]
    pairs = [merged(*([corpus.Candidate(*one)] for one in pair)) for pair in expected]
    candidates = {turn.place: pair for turn, pair in zip(turns, pairs, strict=True)}
    assert list(choose(turns, candidates, WORDS, Lexical()).values()) == list(expected.values())


def slow_greedy(t5, tokenizer, text, most):
    read = tokenizer(text, return_tensors="pt")
    tokens, told = [0], []
    while len(tokens) <= most and tokens[-1] != tokenizer.eos_token_id:
        with torch.inference_mode():
            row = t5(**read, decoder_input_ids=torch.tensor([tokens])).logits[0, -1].log_softmax(0)
        tokens.append(int(row.argmax()))
        told.append(float(row.max()))
    return tokens[1:], sum(told) / len(told)


@pytest.mark.parametrize("prefixed", [False, True])
def test_no_batch_and_no_order_changes_what_is_said(checkpoint, toy, prefixed):
    tokenizer, t5, card = loaded(checkpoint)
    if prefixed:
        net.attach(t5).of = drawn(t5, 3)
    asked = sorted({one.text for one in read_examples(str(toy), "test").rows})[:: 2 if THOROUGH else 3]
    wide = net.Generator(card, tokenizer, t5, Search(64, 4, 3)).generate(asked * 2)
    narrow = net.Generator(card, tokenizer, t5, Search(1, 4, 3)).generate(asked[::-1])[::-1]
    assert wide == narrow * 2
    assert len({one.candidates for one in wide}) > 2
    for one in narrow:
        scores = [candidate.score for candidate in one.candidates]
        assert scores == sorted(scores, reverse=True)
        assert len({candidate.utterance for candidate in one.candidates}) == len(scores)
    # The most likely token, one after another, by the whole model each time: no cache.
    greedy = net.Generator(card, tokenizer, t5, Search(5, 1, 1)).generate(asked[:3])
    for text, one in zip(asked[:3], greedy, strict=True):
        tokens, score = slow_greedy(t5, tokenizer, text, 12)
        assert " ".join(tokenizer.decode(tokens, skip_special_tokens=True).split()) == one.candidates[0].utterance
        assert one.candidates[0].score == pytest.approx(score, abs=1e-6)
        assert one.unfinished == (tokens[-1] != tokenizer.eos_token_id)


def test_each_prefix_counts_and_is_the_same_in_any_batch(checkpoint):
    tokenizer, t5, _ = loaded(checkpoint)
    plain = logits(t5, tokenizer, INPUTS, SAID)
    held, every = net.attach(t5), drawn(t5, 3)
    for kind in net.KINDS:
        held.of = {kind: every[kind]}
        assert (logits(t5, tokenizer, INPUTS, SAID)[0] - plain[0]).abs().max() > 1e-3
    held.of = every
    together = logits(t5, tokenizer, INPUTS, SAID)
    for i in range(3):
        alone = logits(t5, tokenizer, INPUTS[i : i + 1], SAID[i : i + 1])[0]
        torch.testing.assert_close(alone, together[i], rtol=0, atol=1e-12)
