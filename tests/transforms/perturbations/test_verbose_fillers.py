"""The fillers of the verbose form: they tell nothing of the act, there are many, and they say nothing."""

import random
import re
from collections import Counter

from parapet.schemas.layout import read_root
from parapet.transforms.perturbation.corpora import dialogues_of, read_corpus
from parapet.transforms.perturbation.user_turns import user_turns
from parapet.transforms.perturbations.ood.language import stopwords
from parapet.transforms.perturbations.variations import Verbose
from parapet.transforms.perturbations.verbose import grammar
from parapet.transforms.reports.text import words


def parts():
    sides = [grammar(side) for side in ("opener", "closer")]
    return sorted({part for of in sides for part in (*of.starts, *of.sentences, *of.adverbs, *of.tails)})


def turns_of(root, splits):
    for file in read_corpus(root, list(splits)).files:
        for *_, dialogue in dialogues_of(file):
            assert not isinstance(dialogue, Exception)
            yield from user_turns(dialogue)


def fillers_of(turn, seed="0"):
    """Each with its side."""
    made = Verbose(seed=seed).vary(turn)
    sides = [(one.kind, one.text) for one in made.operations if one.kind != "full_form"]
    # An opener behind a greeting brings the first letter of the next sentence along.
    return [f"{kind}: {text[text.index(text.lstrip('.? ')) : text.rindex('.') + 1]}" for kind, text in sides]


def label_of(turn):
    """The acts; where there are none, the services that are spoken of."""
    return "+".join(sorted(turn.acts or turn.services))


def schema_words(root):
    """Of names and values of all services, without stopwords."""
    texts = []
    for of in read_root(root):
        for service in of.services:
            texts += [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", intent.name) for intent in service.intents]
            for slot in service.slots:
                texts += [slot.name.replace("_", " "), *(slot.possible_values if slot.is_categorical else ())]
    return {word for text in texts for word in words(text)} - stopwords()


def test_no_part_names_what_sgd_names(real_data):
    known = schema_words(real_data / "sgd") | schema_words(real_data / "sgd_more")
    assert not {word for part in parts() for word in words(part)} & known


def check_independence(turns, seeds, most=1.03):
    """Fillers share no more information with acts than shuffled acts do, and a classifier does not beat the majority.

    Its dialogues are not those that it learned from. What is frequent is a part of the grammar rather than a filler:
    all words of fillers are features, and so are pairs of words, sides, and how many sides there are.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.metrics import mutual_info_score
    from sklearn.naive_bayes import MultinomialNB

    rows = [(turn.dialogue_id, label_of(turn), fillers_of(turn, seed)) for seed in seeds for turn in turns]
    words_of = [[side + word for side, *rest in map(str.split, said) for word in rest] for _, _, said in rows]

    def information(acts):
        pairs = [(word, act) for some, act in zip(words_of, acts, strict=True) for word in some]
        return float(mutual_info_score(*zip(*pairs, strict=True)))

    found = [act for _, act, _ in rows]
    draw = random.Random(0)
    assert information(found) < most * max(information(draw.sample(found, len(found))) for _ in range(5))
    held = set(sorted({name for name, _, _ in rows})[::3])
    texts = {}
    acts = {}
    for part, inside in (("train", False), ("test", True)):
        chosen = [(act, " ".join(said) + f" sides{len(said)}") for name, act, said in rows if (name in held) == inside]
        acts[part], texts[part] = [act for act, _ in chosen], [text for _, text in chosen]
    features = CountVectorizer(ngram_range=(1, 2), min_df=3, token_pattern=r"\S+")
    model = MultinomialNB().fit(features.fit_transform(texts["train"]), acts["train"])
    guesses = model.predict(features.transform(texts["test"]))
    right = sum(guess == act for guess, act in zip(guesses, acts["test"], strict=True)) / len(guesses)
    assert right < Counter(acts["test"]).most_common(1)[0][1] / len(guesses) + 0.02


def test_fillers_tell_nothing_of_acts(sample):
    # Of one split: in another a dialogue may have the same id, and with it the same fillers.
    check_independence(list(turns_of(sample, ("train",))), [str(n) for n in range(12)])


def test_fillers_tell_nothing_of_acts_in_sgd(real_dialogues):
    check_independence(list(turns_of(real_dialogues, ("dev",))), "0123")
