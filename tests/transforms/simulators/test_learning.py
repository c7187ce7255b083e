"""Ontologies learned from simulated files alone: the rules solve tests in and out of vocabulary, whatever the words."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import cases

from parapet.transforms.simulators.babi_format import SILENCE, BabiDialogue, Exchange, Fact
from parapet.transforms.simulators.restaurants import simulating
from parapet.transforms.simulators.restaurants.bot import Bot, Course, Rules, ValueFinder, answered
from parapet.transforms.simulators.restaurants.learning import learn
from parapet.transforms.simulators.restaurants.ontology import default_ontology, parse_ontology, read_ontology
from parapet.transforms.simulators.restaurants.simulating import knowledge_base
from parapet.transforms.storage.toml import toml_of

WORDS = [f"{a}{b}" for a in ("ba", "ko", "mi", "tu", "ze", "ra") for b in ("l", "n", "sh", "x", "'s", "ck", "")]
WORLD = simulating.World(default_ontology(), "0", 3)
VALUES = {
    value: of[(i + 1) % len(of)]  # another one of the same field
    for field in WORLD.ontology.fields
    for of in (field.seen or field.values,)
    for i, value in enumerate(of)
}
ACTS = ("greet", "request", "update", "no_more", "reject", "accept", "thank", "decline")
TOGETHER = ({"reject", "accept"}, {"question", "thank"})


def some_ontology(seed):
    """A random domain: its patterns have few words, so that many begin or end alike; answers have those of phrases."""
    rng = random.Random(seed)

    def text(least=1, most=5):
        return rng.choices(WORDS, k=rng.randint(least, most))

    used = {}

    def patterns(act, gap="", most=3, also=()):
        """A few different ones; those of acts that stand at the same place differ."""
        kind = act.partition(".")[0]
        place = next((" ".join(sorted(acts)) for acts in TOGETHER if kind in acts), act)
        place = kind if kind == "phrase" else place
        taken = used.setdefault(place, set())
        found = [one for one in also if rng.random() < 0.5]
        while len(found) < rng.randint(1, most):
            words = text(0 if gap else 1, 4)
            if gap:
                words.insert(rng.randint(0, len(words)), "{}")
            if kind == "phrase" and words[0] == "{}":
                words.insert(0, rng.choice(WORDS))
            if " ".join(words) not in taken:
                taken.add(" ".join(words))
                found.append(" ".join(words).replace("{}", f"{{{gap}}}"))
        return found

    names = rng.sample(["area", "room", "nights", "stars", "view"], rng.randint(2, 4))
    extras = rng.sample(["phone", "website", "map"], rng.randint(1, 2))
    fields = []
    for i, name in enumerate(names):
        values = [f"{name[0]}{j}{rng.choice('aeiou')}" for j in range(12)]
        fields.append({"name": name, **({"values": values[:5]} if i else {"seen": values[:6], "unseen": values[6:]})})
    fields[-1]["one_each"] = len(names) > 2 and rng.random() < 0.5
    phrase = {name: patterns(f"phrase.{name}", name) for name in (*names, "name")}
    greet = patterns("greet")
    user = {
        **{act: patterns(act, most=4) for act in ACTS},
        "greet": greet,
        "decline": patterns("decline", also=greet),
        "phrase": phrase,
        "answer": {name: patterns(f"answer.{name}", name, also=phrase[name]) for name in names},
        "question": {extra: patterns(f"question.{extra}") for extra in extras},
    }
    plain = ("greet", "acknowledge", "search", "updated", "another", "reserve", "anything_else", "farewell")
    bot = {act: " ".join((*text(), f"b{i}")) for i, act in enumerate(plain)}
    bot |= {"search_again": bot["search"], "reserve_by_name": bot["reserve"]}
    bot["option"] = bot["next_option"] = " ".join((*text(), "{name}"))
    bot["ask"] = {name: " ".join((*text(), f"ask{i}")) for i, name in enumerate(names)}
    here = " ".join(text())
    bot["give"] = {extra: f"{here} {{{extra}}}" for extra in extras}  # the same words for all
    if rng.random() < 0.5:
        bot["welcome"] = rng.choice([bot["farewell"], bot["anything_else"], "welcome"])
    head = {"domain": "inn", "entity": "inn", "ratings": 4, "extras": extras, "fields": fields}
    return parse_ontology({**head, "patterns": {"user": user, "bot": bot}}, "some")


def dialogues_of(world, tasks, split, n):
    return [
        BabiDialogue(tuple(simulating.lines_of(world, simulating.simulate(world, task, split, i))))
        for task in tasks
        for i in range(n)
    ]


def score(learned, dialogues):
    """The exchanges that the rules get wrong, with the answers; and the number of turns not understood."""
    ontology = read_ontology(toml_of(learned.ontology).encode(), "learned", simulated=False)
    rules = Rules(ontology, ValueFinder(learned.values), learned.course)
    bots = [Bot(rules) for _ in dialogues]
    pairs = [pair for bot, one in zip(bots, dialogues, strict=True) for pair in answered(bot, one)]
    return [(one, answer) for one, answer in pairs if answer != one.bot], sum(bot.not_understood for bot in bots)


@pytest.mark.thorough
@settings(max_examples=20)
@given(st.integers(0, 10**9), st.sampled_from([(1,), (2,), (3,), (4,), (5,), (1, 4), (1, 2, 3, 4, 5)]))
def test_learned_from_train_alone_the_rules_solve_the_tests(seed, tasks):
    world = simulating.World(some_ontology(seed), str(seed), 2)
    learned = learn(dialogues_of(world, tasks, "train", 150), list(simulating.knowledge_base(world)), "kb")
    for split in ("test", "oov"):
        wrong, not_understood = score(learned, dialogues_of(world, tasks, split, 40))
        assert not wrong
        assert not_understood <= 10


def turned(dialogue, how):
    """A dialogue of task 3 or 5 as others might have it."""
    lines = list(dialogue.lines)
    facts = [line for line in lines if isinstance(line, Fact)]
    said = [line for line in lines if isinstance(line, Exchange)]
    search = "one moment i look up what fits"
    at = max(i for i, one in enumerate(said) if one.bot == search)
    if how == "facts after the search":
        return BabiDialogue((*said[: at + 1], *facts, *said[at + 1 :]))
    if how == "no search":
        said[at + 1] = Exchange(said[at].user, said[at + 1].bot)
        return BabiDialogue((*facts, *said[:at], *said[at + 1 :]))
    if how == "no word before the next option":
        mended = []
        for one in said:
            if mended and mended[-1].bot == "then i look for a different place":
                mended[-1] = Exchange(mended[-1].user, one.bot)
            else:
                mended.append(one)
        return BabiDialogue((*facts, *mended))
    if how == "more words at the end":
        thanks = [Exchange(SILENCE, "that is done"), *[Exchange("oh", "well") for _ in range(2)]]
        return BabiDialogue((*lines, *thanks, Exchange("see you", "so long")))
    if how == "a call":
        request = next(wish for wish, found in WORLD.found.items() if facts[0].entity in {one.name for one in found})
        call = Exchange(SILENCE, f"api_call {' '.join(request)}")
        return BabiDialogue((*said[: at + 1], call, *facts, *said[at + 1 :]))
    assert how == "thanks at the end"
    return BabiDialogue((*lines, Exchange("so kind of you", "a pleasure")))


@pytest.mark.thorough
@cases(
    "how",
    *("a call", "facts after the search", "no search", "no word before the next option"),
    *("thanks at the end", "more words at the end"),
)
def test_other_courses_of_a_dialogue_are_learned(how):
    train, test, oov = (
        [turned(one, how) for one in dialogues_of(WORLD, (3,), split, n)]
        for split, n in (("train", 200), ("test", 80), ("oov", 80))
    )
    assert score(learn(train, list(simulating.knowledge_base(WORLD)), "kb"), [*test, *oov]) == ([], 0)


def test_a_field_is_updated_twice():
    def again(dialogue):
        lines = list(dialogue.lines)
        first = next(i for i, line in enumerate(lines) if isinstance(line, Exchange) and line.bot.startswith("noted"))
        update = lines[first]
        assert isinstance(update, Exchange)
        words = [VALUES.get(word, word) for word in update.user.split()]
        return BabiDialogue((*lines[:first], Exchange(" ".join(words), update.bot), *lines[first:]))

    train, test = ([again(one) for one in dialogues_of(WORLD, (2,), split, 150)] for split in ("train", "test"))
    assert score(learn(train, list(simulating.knowledge_base(WORLD)), "kb"), test) == ([], 0)


def test_the_knowledge_base_lacks_what_the_test_has():
    half = [fact for fact in simulating.knowledge_base(WORLD) if fact.entity in {one.name for one in WORLD.halves[0]}]
    learned = learn(dialogues_of(WORLD, (1, 2, 3, 4, 5), "train", 80), half, "kb")
    assert learned.ontology["fields"][0].keys() == {"name", "values"}
    assert score(learned, dialogues_of(WORLD, (1, 2, 3, 4, 5), "oov", 40)) == ([], 0)


def test_one_text_for_several_acts():
    """The same word greets, thanks, ends updates and rejects."""
    user = {act: ["okay"] for act in ("greet", "no_more", "reject", "thank", "decline")}
    given = {"domain": "inn", "entity": "inn", "ratings": 3, "extras": ["phone"], "patterns": {"user": user}}
    area = {"name": "area", "seen": ["a", "b", "c"], "unseen": ["d", "e", "f"]}
    fields = [area, {"name": "room", "values": ["single", "double", "suite"]}]
    world = simulating.World(parse_ontology({**given, "fields": fields}, "inns"), "0", 2)
    learned = learn(dialogues_of(world, (2, 5), "train", 100), list(simulating.knowledge_base(world)), "kb")
    assert learned.ontology["patterns"]["user"]["reject"] == ["okay"]
    assert score(learned, dialogues_of(world, (2, 5), "oov", 60)) == ([], 0)


def test_what_is_learned_is_what_was_simulated():
    """Every pattern, the fields, their halves, and the shares of the structure."""
    learned = learn(dialogues_of(WORLD, (1, 2, 3, 4, 5), "train", 300), list(simulating.knowledge_base(WORLD)), "kb")
    assert (learned.course, learned.dropped) == (Course(), [])
    ontology = read_ontology(toml_of(learned.ontology).encode(), "learned")
    assert ontology.patterns.bot_texts(ontology.names) == WORLD.bot_texts
    assert {act: set(ways) for act, ways in ontology.patterns.user_ways().items()} == {
        act: set(ways) for act, ways in WORLD.user_ways.items()
    }
    for was, now in zip(WORLD.ontology.fields, ontology.fields, strict=True):
        assert (was.name, was.one_each) == (now.name, now.one_each)
        assert (set(was.seen), set(was.unseen), set(was.values)) == (set(now.seen), set(now.unseen), set(now.values))
    names, extras = ("location", "price", "cuisine"), ("phone", "address")
    assert (ontology.name, ontology.ratings, ontology.extras) == (names, 8, extras)
    was, now = WORLD.ontology.structure, ontology.structure
    assert (now.given, now.updates, [n for n, _ in now.shares()]) == (was.given, was.updates, [3, 4, 5])
    assert now.accepted == pytest.approx(was.accepted, abs=0.08)
    assert now.all_extras == pytest.approx(was.all_extras, abs=0.1)
    assert not any(simulating.missing_acts(ontology, task) for task in (1, 2, 3, 4, 5))
    assert set(simulating.candidates(simulating.World(ontology, "0", 3))) == set(simulating.candidates(WORLD))


def test_calls_and_questions_in_different_orders():
    def other(dialogue):
        lines = [
            Exchange(line.user, " ".join(("api_call", *reversed(line.bot.split()[1:]))))
            if isinstance(line, Exchange) and line.bot.startswith("api_call")
            else line
            for line in dialogue.lines
        ]
        return BabiDialogue(tuple(lines))

    train, test = ([other(one) for one in dialogues_of(WORLD, (1, 2), split, 120)] for split in ("train", "oov"))
    learned = learn(train, list(simulating.knowledge_base(WORLD)), "kb")
    assert [field["name"] for field in learned.ontology["fields"]] == ["price", "number", "location", "cuisine"]
    assert score(learned, test) == ([], 0)


def test_sentences_that_were_not_learned():
    """Values are found all the same, and the act that is likeliest at the place is taken; such turns are counted."""
    learned = learn(dialogues_of(WORLD, (1, 4), "train", 200), list(knowledge_base(WORLD)), "kb")
    bot = {name: learned.ontology["patterns"]["bot"][name] for name in ("greet", "acknowledge", "search", "give")}
    (one,) = dialogues_of(WORLD, (4,), "test", 1)
    name = one.facts[0].entity
    strange = [
        Exchange("ahoy", bot["greet"]),
        Exchange(f"get me into {name}, quick!", learned.ontology["patterns"]["bot"]["reserve_by_name"]),
        Exchange("say what is their phone number again", bot["give"]["phone"].replace("{phone}", f"{name}_phone")),
    ]
    assert score(learned, [BabiDialogue((*one.facts, *strange))]) == ([], 3)
    full = BabiDialogue(
        (
            Exchange("ahoy", bot["greet"]),
            Exchange("greek, lima and cheap; for two!", bot["acknowledge"]),
            Exchange(SILENCE, bot["search"]),
            Exchange(SILENCE, "api_call greek lima two cheap"),
        )
    )
    assert score(learned, [full]) == ([], 2)
