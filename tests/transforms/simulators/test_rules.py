"""Rules for task 6 from a file: what fires, what is extracted, the order that dev chooses, and errors."""

import itertools
import random
import tomllib

from kit import cases, lacking, raised, run

from parapet.evaluation.models.babi_models import built_in_rules
from parapet.schemas.errors import InputError
from parapet.transforms.simulators import formats
from parapet.transforms.simulators.formats import SILENCE, BabiDialogue, Exchange, Fact, dialogue_text
from parapet.transforms.simulators.task6_rules import Texts, answers_of, extracted, read_script, values_of

FOODS, AREAS, PRICES = ("thai", "french", "asian_oriental"), ("north", "south"), ("cheap", "moderate", "expensive")
KB = [("_".join(of), *of) for of in itertools.product(FOODS, AREAS, PRICES) if of[:2] != ("thai", "south")]
FACTS = [
    Fact(name, relation, value)
    for name, food, area, price in KB
    for relation, value in (
        *(("R_cuisine", food), ("R_location", area), ("R_price", price)),
        *(("R_phone", f"{name}_phone"), ("R_address", f"{name}_address"), ("R_post_code", f"{name}_post_code")),
    )
]
WELCOME = "Hello and welcome , say what you would like"
WHICH_AREA, WHICH_FOOD = "What part of the city shall it be ?", "What kind of food is it that you like ?"


def call(rng):
    """A call to a system that asks for food and area in either order, now and then makes sure, and offers the best."""
    food, area = rng.choice(FOODS), rng.choice(AREAS)
    lines = [Exchange(SILENCE, WELCOME)]
    steps = [(f"uh {food} food", WHICH_AREA), (f"in the {area} please", WHICH_FOOD)]
    rng.shuffle(steps)
    (first, question), (second, _) = steps
    if rng.random() < 0.2:
        question = f"You want the {area} , right ?" if area in first else f"You want {food} food , right ?"
    lines += [Exchange(first, question), Exchange(second, f"api_call {food} {area} R_price")]
    found = [name for name, *rest in KB if rest[:2] == [food, area]]
    if not found:
        lines += [Fact("api_call", "no", "result")]
        lines += [Exchange(SILENCE, f"Sorry but there is no {food} place in the {area} of town")]
        return BabiDialogue((*lines, Exchange("thank you goodbye", "you are welcome")))
    ratings = dict(zip(found, rng.sample(range(1, 9), len(found)), strict=True))
    lines += [fact for fact in FACTS if fact.entity in found]
    lines += [Fact(name, "R_rating", str(rating)) for name, rating in ratings.items()]
    best, other, *_ = sorted(found, key=lambda name: -ratings[name])
    lines.append(Exchange(SILENCE, f"{best} is a fine place in the {area} that has {food} food"))
    if rng.random() < 0.5:
        lines.append(Exchange("anything else", f"{other} is a fine place in the {area} that has {food} food"))
        best = other
    for asked, detail, text in (
        ("whats their phone number", "phone", "You can phone"),
        ("the address", "address", "This is where to find"),
        ("and the post code", "post_code", "The post code of"),
    ):
        if rng.random() < 0.5:
            lines.append(Exchange(asked, f"{text} {best} {best}_{detail}"))
    return BabiDialogue((*lines, Exchange("bye", "you are welcome")))


def calls(n, seed):
    rng = random.Random(seed)
    return [call(rng) for _ in range(n)]


def built_in():
    return read_script(built_in_rules(), "task6")


def test_there_are_as_many_rules_and_patterns_as_in_the_paper():
    assert (len(built_in().rules), len(built_in().patterns)) == (28, 21)


def test_what_makes_a_rule_fire():
    lines = """
slots = ["cuisine", "location"]
[patterns]
hello = { match = "^hello" }
offer = { match = "is", gaps = ["name", "cuisine"] }
"""
    rules = """
[[rules]]
name = "update"
when = { words = ["greek"], no_words = ["not"] }
set = { cuisine = "greek" }
[[rules]]
name = "anywhere"
when = { words = ["any where"], after = ["hello"] }
set = { location = "any" }
[[rules]]
name = "forget"
when = { words = ["forget"] }
clear = ["cuisine"]
[[rules]]
name = "call"
when = { least = 2, changed = true }
call = true
[[rules]]
name = "offer"
when = { silent = true, results = true, left = true }
respond = ["offer"]
[[rules]]
name = "first"
when = { turn = 1 }
respond = ["hello"]
"""
    script = read_script((lines + rules).encode(), "x.toml")
    said = (("a", "hello you"), ("b", "zeus is greek"), ("c", "pan is greek"))
    learned = [BabiDialogue(tuple(Exchange(*one) for one in said))]
    knowledge = [Fact("zeus", "R_cuisine", "greek"), Fact("pan", "R_cuisine", "greek")]
    texts = Texts(script, values_of(script, learned, knowledge))
    script = extracted(script, learned, texts)
    assert texts.with_gaps("zeus or pan is greek") == "zeus or pan is {cuisine}"
    dialogue = BabiDialogue(
        (
            Exchange("not greek any where", "hello you"),
            Exchange("greek any where", "api_call greek R_location"),
            *(Fact("zeus", "R_rating", "2"), Fact("pan", "R_rating", "10")),
            *(Exchange(SILENCE, bot) for bot in ("pan is greek", "zeus is greek", "hello you")),
            Exchange("forget it", "hello you"),
        )
    )
    answers = ["hello you", "api_call greek R_location", "pan is greek", "zeus is greek", "", ""]
    assert answers_of(script, texts, frozenset(), dialogue) == answers
    assert answers_of(script, texts, frozenset(["zeus is greek"]), dialogue) == ["", "", "", "zeus is greek", "", ""]


HEAD = 'slots = ["a"]\n[patterns]\nhi = { match = "hi" }\n'
RULE = f'{HEAD}[[rules]]\nname = "r"\n'


@cases(
    "text message",
    ("slots = ", "x.toml: not TOML"),
    ("rules = []\n" + HEAD.replace('"hi"', '"("'), "x.toml: patterns.hi.match: is not a regular expression: "),
    (RULE, "x.toml: rules[0]: r: must have either respond, or call, or set and clear"),
    (RULE + 'respond = ["ho"]', "rules[0]: r: there is no pattern 'ho': must be one of hi"),
    (RULE + 'set = { b = "c" }', "x.toml: rules[0]: r: there is no slot 'b': must be one of a"),
    (HEAD + '[[rules]]\nname = "r"\ncall = true\n' * 2, "x.toml: rules[1].name: 'r' appears twice"),
    (RULE + "when = { word = [] }", "rules[0].when: Object contains unknown field `word`"),
)
def test_bad_rules(text, message):
    assert message in str(raised(InputError, read_script, text.encode(), "x.toml"))


def write(folder):
    sets = {"trn": calls(120, 4), "dev": calls(40, 5), "tst": calls(40, 6)}
    for name, of_set in sets.items():
        (folder / f"my-task6-{name}.txt").write_text("".join(dialogue_text(one.lines) for one in of_set))
    answers = sorted({line.bot for of_set in sets.values() for one in of_set for line in one.exchanges})
    (folder / "candidates.txt").write_text(formats.candidates_text(answers))
    (folder / "kb.txt").write_text("".join(f"1 {fact.entity} {fact.relation} {fact.value}\n" for fact in FACTS))
    names = {"train": "my-task6-trn.txt", "dev": "my-task6-dev.txt", "match": "kb.txt", "candidates": "candidates.txt"}
    return {flag: str(folder / name) for flag, name in names.items()}


def test_from_files_to_scores(tmp_path):
    files = write(tmp_path)
    model = run("train", "rules", rules="task6", **files, output=tmp_path / "model")
    lacks = "task6: --train has no response for the patterns more, ask_price, confirm_price, "
    assert not lacking(model.errors, "of the responses of --dev are right", lacks)
    # What was chosen is a file of rules itself, with which a model can be trained again.
    rules = model.text("rules.toml")
    assert tomllib.loads(rules)["patterns"]["welcome"]["text"] == WELCOME
    rest = {flag: path for flag, path in files.items() if flag != "dev"}
    again = run("train", "rules", rules=model.folder / "rules.toml", **rest, output=tmp_path / "again")
    assert again.text("rules.toml") == rules
    assert sorted(one["flag"] for one in again.manifest["inputs"]) == ["candidates", "match", "rules", "train"]
    given = {"reference": tmp_path / "my-task6-tst.txt", "quiet": True}
    answers = run("predict", "rules", model=model.folder, **given, output=tmp_path / "answers").folder
    scores = run("evaluate", task="ranking", **given, predictions=answers / "predictions", output=tmp_path / "scores")
    assert scores.json("metrics.json")["#ALL"]["per_response"] > 0.9
