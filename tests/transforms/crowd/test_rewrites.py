"""Rewritings: the rules, what falls and what is held; and the answers to one turn: duplicates, the draw, reviewers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.decisions import Decision
from parapet.schemas.dialogue import Action, Dialogue, Frame, SlotSpan, State, Turn
from parapet.schemas.rows import Assignment
from parapet.transforms.crowd import rewrite_rules as rules
from parapet.transforms.crowd.ingest import Submission
from parapet.transforms.crowd.rewrite_rules import SourceTurn, find_units, source_turn, value_rows
from parapet.transforms.crowd.rewrites import rewrite_turn


def user(utterance, *values, slots=()):
    """A turn with a span for each value, each after the one before it."""
    spans, at, names = [], 0, slots or tuple(f"slot_{i}" for i in range(len(values)))
    for name, value in zip(names, values, strict=True):
        start = utterance.index(value, at)
        spans.append(SlotSpan(name, start, start + len(value)))
        at = start + len(value)
    return Turn("USER", utterance, [Frame("Trips_1", spans, [], State("NONE", [], {}))])


def turn_of(utterance, *values, others=None, **more):
    """The turn as asked, after one in which the dialogue has learnt other values."""
    before = Turn("USER", "Hi.", [Frame("Trips_1", [], [], State("NONE", [], others or {}))])
    system = Turn("SYSTEM", "Go on?", [])
    found = source_turn(Dialogue("1_00001", ["Trips_1"], [before, system, user(utterance, *values, **more)]), 2)
    assert isinstance(found, SourceTurn), found
    return found


OTHERS = {"city": ["Grey Point"], "class": ["cheap"], "day": ["Friday"], "open": ["True"]}
BOAT = turn_of("I want 2 seats to Port Alder tomorrow.", "2", "Port Alder", others=OTHERS)
NO = turn_of("No, thanks, that is everything.")
SHORT = turn_of("Sounds good, please.")


@cases(
    "kind turn text reason",
    ("paraphrase", BOAT, "Please book 2 places to Port Alder for me tomorrow.", ""),
    ("paraphrase", BOAT, "i WANT 2 seats, to Port Alder, tomorrow!", "copy"),
    ("paraphrase", BOAT, "Please book 2 places to port alder for me tomorrow.", "lost_value"),
    ("paraphrase", BOAT, "Please book 22 places to Port Alder for me tomorrow.", "lost_value"),
    ("paraphrase", BOAT, "Please book 2 places to Port Alder and Grey Point for me tomorrow.", "leaked_value"),
    ("paraphrase", BOAT, "Please book 2 cheap places to Port Alder for me.", "common_value"),
    ("paraphrase", BOAT, "It is true that I need 2 places to Port Alder tomorrow.", ""),
    ("paraphrase", BOAT, "I wan 2 seats to Port Alder tomorrow.", "near_original"),
    ("paraphrase", BOAT, "I do not want 2 seats to Port Alder tomorrow.", "meaning"),
    ("paraphrase", BOAT, "Yes, book me 2 seats to Port Alder tomorrow.", "meaning"),
    ("paraphrase", BOAT, "Five days from now I need 2 seats to Port Alder.", "other_number"),
    ("paraphrase", BOAT, "asdfgh 2 Port Alder qwerty lkjhg", "gibberish"),
    ("paraphrase", BOAT, "Quiero reservar 2 asientos hasta Port Alder para mañana por favor", "other_language"),
    ("paraphrase", BOAT, "Мне нужно 2 места в Port Alder", "other_script"),
    ("paraphrase", BOAT, "Book me 2 damn seats to Port Alder for tomorrow.", "profanity"),
    ("paraphrase", BOAT, "Plase reserrve 2 seats to Port Alder for tomorrow.", "unknown_word"),
    ("paraphrase", BOAT, "<i>Please</i> book 2 places to Port Alder tomorrow.", "markup"),
    ("paraphrase", BOAT, " ?! ", "blank"),
    ("paraphrase", BOAT, "2 Port Alder" + " please" * 60, "too_long"),
    ("paraphrase", NO, "That would be all.", "meaning"),
    ("paraphrase", NO, "n/a", "placeholder"),
    ("paraphrase", NO, "x", "single_character"),
    ("simple", SHORT, "k.", "single_character"),
    ("simple", turn_of("Please give me 2 of them.", "2"), "2", ""),
    ("typos", BOAT, "I wnat 2 seast to Port Alder tomorow.", ""),
    ("typos", BOAT, "i want 2 seats to Port Alder tomorrow", "copy"),
    ("typos", BOAT, "I want 2 seats to Prot Alder tomorrow.", "lost_value"),
    ("typos", BOAT, "Get me 2 chairs on a boat to Port Alder now", "too_many_typos"),
    ("typos", BOAT, "No want 2 seats to Port Alder tomorrow.", "meaning"),
    ("typos", NO, "On, thanks, that is everythin.", ""),
    ("verbose", BOAT, "Hello, I want 2 seats to Port Alder tomorrow.", ""),
    ("verbose", BOAT, "I need 2 seats to Port Alder tomorrow.", "not_longer"),
    ("simple", BOAT, "2 seats to Port Alder tomorrow.", ""),
    ("simple", BOAT, "Please sell me 2 seats to Port Alder.", "not_shorter"),
    ("simple", SHORT, "That sounds quite good.", "not_shorter"),
    ("simple", turn_of("Yes, 2 seats for me.", "2"), "Just 2 seats.", ""),
)  # fmt: skip
def test_each_rule(kind, turn, text, reason):
    answer = rules.RewriteText(kind, rules.canonical_text(text, turn.utterance), turn)
    assert rules.vet_answer(answer).reason == reason
    assert not reason or reason in rules.flags(answer)


def test_a_value_said_twice_is_there_twice():
    turn = turn_of("Book 2 rooms for 2 nights.", "2", "2")
    flags = rules.flags(rules.RewriteText("simple", "<b>asdfghjkl</b> not 3 жук " * 40, turn))
    assert set(flags) <= {reason for reason, explanation in rules.EXPLANATIONS.items() if explanation}
    assert rules.vet_answer(rules.RewriteText("simple", "2 rooms, please.", turn)).reason == "lost_value"
    assert rules.vet_answer(rules.RewriteText("simple", "2 nights, 2 rooms.", turn)).reason == "swapped_values"
    assert rules.vet_answer(rules.RewriteText("typos", "Bok 2 rooms for 2 nights.", turn)).reason == ""
    same = turn_of("From 2 to 2, that is 2.", "2", "2", slots=("hour", "hour"))
    assert rules.vet_answer(rules.RewriteText("paraphrase", "Starts at 2 and also ends at 2.", same)).reason == ""


def places(turn, text):
    """Where the values of a turn stand in another text."""
    rows = value_rows(turn.units, find_units(turn.units, text))
    return [(row["slot"], row["new_start"], row["new_exclusive_end"]) for row in rows]


def test_values_inside_values_and_beside_letters():
    turn = turn_of("2 seats at 2 pm in Port", "2", "2 pm", "Por")  # the last span is off by one
    assert places(turn, "At 2 pm, 2 seats in Port") == [("slot_0", 9, 10), ("slot_1", 3, 7), ("slot_2", 20, 23)]
    overlap = Turn("USER", "to Port Alder Harbour", [])
    overlap.frames = [Frame("A_1", [SlotSpan("city", 3, 13)], []), Frame("B_1", [SlotSpan("from", 3, 21)], [])]
    nested = source_turn(Dialogue("1", [], [overlap]), 0)
    assert places(nested, "Go: Port Alder Harbour") == [("city", 4, 14), ("from", 4, 22)]


def test_turns_that_nobody_was_asked_about():
    dialogue = Dialogue("1", [], [user("Port Alder", "Port Alder"), Turn("SYSTEM", "Yes?", [])])
    told = "never_asked: only_values: the utterance consists only of slot values, which must stay unchanged"
    assert source_turn(dialogue, 0) == told


def test_what_no_reviewer_can_let_stand():
    assert rules.unacceptable(rules.RewriteText("simple", "…", BOAT)) == "the text contains no word"
    same = rules.RewriteText("simple", BOAT.utterance, BOAT)
    assert rules.unacceptable(same) == "the text is identical to the sentence"
    assert rules.unacceptable(rules.RewriteText("simple", "No, 2 to Port Alder and Grey Point", BOAT)) == ""


def test_how_an_assignment_was_done():
    def verdict(text, rejected=False, seconds=90, **answers):
        answers = {"paraphrase": "", "typos": "", "verbose": "", "simplified": ""} | answers
        done = Assignment("A", "1:0", "rewrites", "w", answers, True, work_seconds=seconds, rejected=rejected)
        return rules.vet_worker(done, text).reason

    assert verdict("So be it", paraphrase="So be it", verbose="Thus be it") == ""
    assert verdict("So be it", paraphrase="So be it", verbose="so, be it!") == "same_answer"
    assert verdict("So be it", paraphrase="So be it", seconds=9) == "too_fast"
    assert verdict("So be it", paraphrase="So be it", seconds=10) == ""
    assert verdict("So be it", paraphrase="So be it", rejected=True) == "assignment_rejected"
    assert verdict("", paraphrase="", verbose="", seconds=None) == ""


VALUES = st.sampled_from(["2", "2 pm", "Port Alder", "it's", "“so”", "naïve", "$5.50", "Çeşme"])
FILLER = st.sampled_from(["a", "then", ",", "2nd", "12", "Port", "–", "\u200b", "  ", "\r\n"])


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(FILLER, min_size=4, max_size=4), st.randoms())
def test_values_are_found_where_they_were_put(values, filler, random):
    turn = turn_of("So " + " and ".join(values) + " it is", *values)
    shuffled = random.sample(values, len(values))
    said = " ".join(part for pair in zip(shuffled, filler, strict=False) for part in pair)
    text = rules.canonical_text(said, turn.utterance)
    found = find_units(turn.units, text)
    assert None not in found
    assert [text[slice(*place)] for place in found] == [unit.text for unit in turn.units]
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(found)))


@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_canonical_text_is_stable_and_changes_no_letter(text, original):
    once = rules.canonical_text(text, original)
    assert (rules.canonical_text(once, original), once) == (once, " ".join(once.split()))


def test_what_a_turn_means_in_its_own_words_is_no_leak():
    turn = Turn("USER", "For a couple of us.", [Frame("A_1", [], [Action("INFORM", "people", ["2"])])])
    known = Turn("USER", "Hm.", [Frame("A_1", [], [], State("NONE", [], {"people": ["2"], "city": ["Wexcombe"]}))])
    assert source_turn(Dialogue("1", [], [turn, known]), 0).others == ("wexcombe",)


def rewrite(*texts, seed=0, **decisions):
    """Simplified sentences of as many workers; decisions by the worker's letter."""
    submissions = []
    for letter, text in zip("ABCDE", texts, strict=False):
        done = Assignment(letter, "1_00001:0", "rewrites", letter.lower(), {"simplified": text}, True)
        submissions.append(Submission(done, {}))
        if letter in decisions:
            submissions[-1].decisions["simplified"] = Decision(f"{letter}:simplified", *decisions[letter], "odd")
    return rewrite_turn(turn_of("I want a boat to Port Alder.", "Port Alder"), submissions, seed)


def fates(rewritten):
    return {answer.response_id[0]: (answer.disposition, answer.reason) for answer in rewritten[1]}


def used(rewritten):
    return [(line.source, line.utterance) for line in rewritten[0].rewritten]


def test_one_is_drawn_and_a_later_answer_changes_places_with_it_only():
    texts = ("A boat to Port Alder.", "Port Alder by boat.", "Boat, Port Alder.")
    by_seed = {seed: used(rewrite(*texts, seed=seed)) for seed in range(12)}
    assert {text for [(_, text)] in by_seed.values()} == set(texts)
    for seed, before in by_seed.items():
        [after] = used(rewrite(*texts, "Go to Port Alder.", seed=seed))
        assert after in (*before, ("D:simplified", "Go to Port Alder."))
        assert used(rewrite(*texts, seed=seed)) == before
    assert sorted(fates(rewrite(*texts)).values()) == [("surplus", "not_drawn")] * 2 + [("used", "")]


def test_a_decision_that_loses_a_value_is_a_dead_letter():
    rewritten = rewrite("A boat to Port.", "Boat to Port Alder.", A=("accept", ""), B=("fix", "Boat there"))
    assert fates(rewritten) == {"A": ("rejected", "lost_value"), "B": ("used", "")}
    assert used(rewritten) == [("B:simplified", "Boat to Port Alder.")]
    told = "bad_decision: the text must contain 'Port Alder' unchanged: use 'fix' with a text that keeps it"
    assert [letter.reason for letter in rewritten[2]] == [told, told]
