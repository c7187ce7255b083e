"""Corrupted schemas, lists of sets, and files as training sets: what a bad dialogue costs."""

import copy
import json
import re
import shutil
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, intent, raised, service, slot

from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service
from parapet.transforms.core.counts import CountKey
from parapet.transforms.report.text import Convention, Conventions
from parapet.transforms.splits import augment as planning
from parapet.transforms.splits.augment import OPERATIONS, Corruption, Rates, corrupted, vocabulary_of
from parapet.transforms.splits.few_shot import Candidate, Rule, choose, ordered
from parapet.transforms.variants.matching import by_position


def service_of(slots, intents):
    optional = dict.fromkeys(slots[1:], "dontcare")
    made = [intent(name, "", *slots[:1], transactional=True, results=slots, **optional) for name in intents]
    return service("Shop_1", [slot(name, f"The {name}") for name in slots], made, "Sells things")


def corruption_of(raw, operation, rates, seed="0"):
    conventions = Conventions()
    return Corruption(operation, rates, seed, vocabulary_of([parse_service(raw)], conventions), conventions)


SLOT = st.lists(st.sampled_from(["a", "b", "c", "count"]), min_size=1, max_size=3).map("_".join)
SLOTS = st.lists(SLOT, min_size=1, max_size=12, unique=True)


@given(SLOTS, st.sampled_from(OPERATIONS), st.floats(0, 1), st.floats(0, 1), st.text(max_size=3))
def test_names_are_unique_and_no_other_original(slots, operation, replace, order, seed):
    """Few words, so that nearly everything collides."""
    raw = service_of(slots, ["GetA", "GetB", "BGet", "AGetB"])
    typed = parse_service(corrupted(raw, corruption_of(raw, operation, Rates(replace, order), seed)))
    names = by_position(parse_service(raw), typed)
    for renamed in (names.slots, names.intents):
        assert len(set(renamed.values())) == len(renamed)
        assert all(new == old or new not in renamed for old, new in renamed.items())
    assert not [new for old, new in names.slots.items() if new in ("intent", "count") and new != old]
    assert typed.service_name == f"Shop_1{operation}"


def test_a_collision_is_drawn_anew():
    """Three words have two orders in which none stays: where one is taken, the other is found."""
    raw = service_of(["a_b_c", "b_c_a"], ["Get"])
    for seed in map(str, range(10)):
        assert corrupted(raw, corruption_of(raw, "order", Rates(1, 1), seed))["slots"][0]["name"] == "c_a_b"


@cases("operation", *OPERATIONS)
def test_names_keep_the_convention(operation):
    raw = service_of(["hotel-price_range", "hotel-stay_long", "hotel-area_code"], ["find_hotel", "book_hotel_room"])
    conventions = Conventions(Convention.DOMAIN_SLOT, Convention.SNAKE)
    vocabulary = vocabulary_of([parse_service(raw)], conventions)
    changed = corrupted(raw, Corruption(operation, Rates(1, 1), "0", vocabulary, conventions))
    for one in changed["slots"]:
        domain, _, rest = one["name"].partition("-")
        assert (domain, len(rest.split("_"))) == ("hotel", 2)
        assert set(rest.split("_")) <= set(vocabulary.slots)
    renamed = by_position(parse_service(raw), parse_service(changed))
    changed = sum(new != old for names in (renamed.slots, renamed.intents) for old, new in names.items())
    assert changed == 5 if operation != "both" else changed >= 3  # both together may lead back to the start


WORDS = st.lists(st.text("abcdef", min_size=1, max_size=4), max_size=8)
VOCABULARY = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=12, unique=True).map(sorted)
RATES = st.floats(0, 1)
SEEDS = st.text(max_size=5)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


@given(WORDS, VOCABULARY, RATES, RATES, SEEDS, st.sampled_from(OPERATIONS))
def test_as_many_words_from_the_text_or_the_vocabulary(words, vocabulary, replace, order, seed, operation):
    rates = Rates(replace, order)
    found = planning.corrupt_words(words, operation, vocabulary, rates, [seed])
    assert len(found) == len(words)
    assert set(found) <= {*words, *vocabulary}
    if operation == "order":
        assert Counter(found) == Counter(words)
    assert found == planning.corrupt_words(words, operation, vocabulary, rates, [seed])
    assert planning.corrupt_words(words, operation, vocabulary, Rates(0, 0), [seed]) == words


@given(WORDS, VOCABULARY, SEEDS)
def test_rate_one_replaces_every_word_by_another(words, vocabulary, seed):
    for old, new in zip(words, planning.replace_words(words, vocabulary, 1, [seed]), strict=True):
        assert new in vocabulary
        assert new != old or vocabulary == [old]


@given(st.integers(0, 9), SEEDS)
def test_rate_one_moves_every_word(n, seed):
    words = [str(i) for i in range(n)]
    found = planning.reorder_words(words, 1, [seed])
    assert n == 1 or not [i for i, word in enumerate(found) if word == words[i]]


@given(TEXTS)
def test_a_description_of_its_own_words_is_itself(text):
    assert planning.description_of(planning.description_words(text), text) == text


@given(TEXTS, st.randoms(use_true_random=False))
def test_other_words_leave_the_rest_of_a_description(text, random):
    words = planning.description_words(text)
    random.shuffle(words)
    found = planning.description_of(words, text)
    assert len(planning.description_words(found)) == len(words)
    word = r"\w+(?:['\u2019-]\w+)*"
    assert re.split(word, found) == re.split(word, text)


@cases(
    "words original convention expected",
    (["area", "price"], "hotel-price_area", Convention.DOMAIN_SLOT, "hotel-area_price"),
    (["hotel", "area"], "hotel-price_area", Convention.DOMAIN_SLOT, "hotel-hotel_area"),
    (["HTTP"], "HTTP_", Convention.SNAKE, "HTTP"),
    (["http"], "HTTP_", Convention.SNAKE, "HTTP_"),
)
def test_names(words, original, convention, expected):
    assert planning.name_of(words, original, convention) == expected


LABELS = ["original", "replace", "order"]


def bad_slot(dialogue):
    next(f for t in dialogue["turns"] for f in t["frames"] if "state" in f)["state"]["slot_values"]["gone"] = ["x"]


def huge_span(dialogue):
    next(s for t in dialogue["turns"] for f in t["frames"] for s in f["slots"])["start"] = 2**40


@cases(
    "spoil name reason",
    (bad_slot, "1_00001", "unknown_slot: service '"),
    (lambda dialogue: dialogue.pop("dialogue_id"), "[1]", "not_sgd: Object missing required field `dialogue_id`"),
    (lambda dialogue: dialogue.update(services=["None_1"]), "1_00001", "unknown_service: no schema has a service"),
    (huge_span, "1_00001", "not_parquet: contains a value that Parquet cannot store: "),
    (lambda dialogue: dialogue["turns"][0].update(utterance="\ud800"), "[1]", "not_"),
)
def test_a_bad_dialogue_is_left_out_alone(spoil, name, reason, sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd")
    path = tmp_path / "sgd/train/dialogues_001.json"
    dialogues = json.loads(path.read_bytes())
    spoiled = copy.deepcopy(dialogues)
    spoil(spoiled[1])
    path.write_text(json.dumps(spoiled))
    config = planning.CorruptionConfig(["replace", "order"], Rates(), "0")
    plan = planning.make_plan(tmp_path / "sgd", "train", {"x": ("corrupted",)}, {}, [], config)
    (file,) = (file for file in plan.files if file.name == path.name)
    result = planning.augment_file(file, plan.augmentation, str(tmp_path / "out"))
    assert [(letter.variant, letter.dialogue_id) for letter in result.dead_letters] == [(of, name) for of in LABELS]
    assert all(letter.reason.startswith(reason) for letter in result.dead_letters), result.dead_letters
    kept = [dialogue for i, dialogue in enumerate(dialogues) if i != 1]
    written = json.loads((tmp_path / "out/.incomplete/x/train/dialogues_001.json").read_bytes())
    assert written[::3] == kept
    assert len(written) == result.counts.sum("versions") == result.counts[CountKey("dialogues", "x")] == 3 * len(kept)
    assert result.counts[CountKey("dialogues")] == len(dialogues)
    assert result.counts[CountKey("rows", "x")] == len(written)


@cases(
    "text said",
    ("oracle+", "'oracle+' is not a set"),
    ("oracle+oracle", "'oracle+oracle' is not a set"),
    ("backtrans+oracle,oracle+backtrans", "'oracle+backtrans' appears twice"),
    ("none+oracle", "'none+oracle' is not a set"),
)
def test_lists_that_are_not_of_sets(text, said):
    raised(InputError, planning.parse_sets, text.split(","), match=re.escape(f"--sets: {said}"))


# Which dialogues a domain gets.


def one(draw, slots="", name="", said=""):
    name = name or f"d{draw}"
    digest = (said or name).encode()
    return Candidate(draw, name, "train/dialogues_001.json", draw, digest, ("Bars_1",), tuple(slots), 3, True)


@given(st.lists(st.text(alphabet="abcdef", max_size=4), max_size=12))
def test_the_cover_covers(slots):
    """It begins with a cover, each of which brings something new, and has everything once."""
    candidates = [one(i, "".join(sorted(set(text)))) for i, text in enumerate(slots)]
    found = ordered(candidates)
    assert sorted(found) == candidates
    covered = set()
    every = {slot for text in slots for slot in text}
    rest = None
    for i, of in enumerate(found):
        if covered == every:
            rest = found[i:]
            break
        assert len(set(of.slots) - covered) == max(len(set(other.slots) - covered) for other in candidates)
        covered |= set(of.slots)
    assert rest is None or rest == sorted(rest)
    assert covered == every


@st.composite
def ones(draw):
    number, slots = draw(st.integers(0, 8)), draw(st.text(alphabet="abcdef", max_size=3))
    made = one(number, slots, draw(st.sampled_from("wxyz")), draw(st.sampled_from("klmn")))
    return msgspec.structs.replace(made, file=draw(st.sampled_from("gh")), alone=bool(number % 3))


@given(
    st.lists(st.tuples(st.sampled_from(["train", "test"]), ones()), max_size=12, unique_by=lambda found: found[1].draw),
    st.booleans(),
)
def test_the_choice_is_that_of_a_plain_list(found, multi_domain):
    """The same as with all candidates in memory, as (part, candidate), sorted."""
    rule = msgspec.structs.replace(Rule(("Bars",), (2, 4), 3, "train", "test", False, "0"), multi_domain=multi_domain)
    usable = sorted(pair for pair in found if pair[1].alone or multi_domain)
    kept = {"test": [], "train": []}
    for part, candidate in usable:
        before = [other for of, other in usable if of == part and other < candidate]
        if all(candidate.digest != other.digest and candidate.dialogue_id != other.dialogue_id for other in before):
            kept[part].append(candidate)
    ids = {candidate.dialogue_id for candidate in kept["train"]}
    test = sorted(kept["test"], key=lambda candidate: (candidate.dialogue_id in ids, candidate))[: rule.test]
    other = [of for of in kept["train"] if of.digest not in {of_test.digest for of_test in test}]
    left = [of for of in other if of.dialogue_id not in {of_test.dialogue_id for of_test in test}]
    chosen = choose(*([of for part, of in found if part == name] for name in ("train", "test")), rule)
    assert (chosen.test, chosen.train) == (test, ordered(left)[: rule.sizes[-1]])
    assert chosen.occurring == sorted({slot for of in kept["train"] for slot in of.slots})
    assert chosen.candidates == len(left)
    assert chosen.several == sum(part == "train" and not (of.alone or multi_domain) for part, of in found)


def test_the_cover_first_then_as_drawn():
    found = ordered([one(1, "a"), one(2, "ab"), one(3, "bc"), one(4, "d"), one(5, "cd")])
    assert [of.draw for of in found] == [2, 5, 1, 3, 4]
