"""Perturbations of one's own: edits of user turns, and the mistakes that people make in their classes."""

import copy
import traceback

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, cases, raised, state

import parapet
import parapet.beam
from parapet.schemas.errors import InputError


class Unchanged(parapet.Perturbation):
    name = "unchanged"

    def perturb(self, dialogue, random):
        return parapet.Perturbed(dialogue)


class Returns(Unchanged):
    """Gives back what a dialogue becomes, or gets such rows."""

    def __init__(self, *, value=None, rows=None, seed=0):
        super().__init__(seed=seed)
        self.value, self.rows = value, rows

    def perturb(self, dialogue, random):
        return self.value if self.rows is None else parapet.Perturbed(dialogue, self.rows)


ROW = {"dialogue_id": "1", "turn": 0, "original": "a", "utterance": "b"}
COLUMN = r"a row has the column 'place', which is not in row_schema: it has dialogue_id, turn, original, utterance"
WRONG = [
    (None, r"Returns\.perturb returned None: expected the dialogue, or parapet\.Perturbed\(dialogue, rows\)"),
    (({}, []), r"Returns\.perturb returned a tuple: expected"),
    (parapet.Perturbed([]), r"Returns\.perturb: the dialogue in Perturbed is a list, expected a dict"),
    (parapet.Perturbed({}, ROW), r"the rows in Perturbed are a dict, expected a list of dicts"),
    (parapet.Perturbed({}, ["b"]), r"a row is a str, expected a dict"),
    (parapet.Perturbed({}, [{**ROW, "place": 1}]), COLUMN),
]


@cases("value reason", *WRONG)
def test_what_perturb_returns_is_checked(value, reason, tmp_path):
    corpus = parapet.perturb(parapet.load_corpus(), Returns, value=value)
    raised(InputError, next, corpus.dialogues("test"), match=reason)
    raised(InputError, corpus.save, tmp_path / "out", match=reason)
    assert not (tmp_path / "out" / "run.json").exists()


@cases("value reason", WRONG[0], WRONG[-1])
def test_a_mistake_in_the_class_is_no_dead_letter(value, reason):
    """It fails a pipeline, rather than that every dialogue is left out of it."""
    pipeline = beam.Pipeline()
    dialogues = pipeline | beam.Create([*parapet.load_corpus().dialogues("test")])
    _ = dialogues | parapet.beam.Perturb(Returns(value=value)).with_outputs()
    raised(InputError, pipeline.run, match=reason)


@cases(
    "row reason",
    ({**ROW, "turn": "first"}, "unchanged: its rows do not match its row_schema: .*first"),
    ({name: ROW[name] for name in ("dialogue_id", "turn", "original")}, "a row has no column 'utterance'"),
    ({**ROW, "turn": None}, "row_schema: a row has no column 'turn'"),
)
def test_rows_of_another_schema(row, reason, tmp_path):
    corpus = parapet.perturb(parapet.load_corpus(), Returns, rows=[row])
    raised(InputError, lambda: corpus.rows, match=reason)
    raised(InputError, corpus.save, tmp_path / "out", match=reason)


class Buggy(Unchanged):
    def perturb(self, dialogue, random):
        return parapet.Perturbed({**dialogue, "turns": dialogue["turnes"]})


def test_an_error_of_the_users_code_has_the_users_traceback():
    error = raised(KeyError, next, parapet.perturb(parapet.load_corpus(), Buggy).dialogues(), match="turnes")
    assert 'dialogue["turnes"]' in "".join(traceback.format_exception(error)[-2:])
    raised(KeyError, lambda: parapet.perturb(parapet.load_corpus(), Buggy).rows, match="turnes")
    reason = r"plugin_error: KeyError: 'turnes' \(test_own_perturbations.py:\d+, in perturb\)"
    with pytest.raises(InputError, match=reason), beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create([*parapet.load_corpus().dialogues("test")]) | parapet.beam.Perturb(Buggy())


class Nameless(parapet.Perturbation):
    def perturb(self, dialogue, random):
        return parapet.Perturbed(dialogue)


class Idle(parapet.Perturbation):
    name = "idle"


class Seedless(Unchanged):
    def __init__(self, rate):
        self.rate = rate


@cases(
    "perturbation options reason",
    (Nameless, {}, 'the class Nameless has no name: add a line such as name = "my_perturbation"'),
    (Nameless(), {}, "the class Nameless has no name"),
    (Idle, {}, r"the class Idle has no method perturb\(self, dialogue, random\)"),
    (Seedless, {"rate": 1}, r"Seedless.__init__ must call super\(\).__init__\(seed=seed\)"),
    (Seedless(1), {}, r"Seedless.__init__ must call super\(\).__init__\(seed=seed\)"),
    (Seedless, {}, "unchanged missing a required argument: 'rate'"),
    (Returns, {"valeu": 1}, "unchanged got an unexpected keyword argument 'valeu': its options are"),
    (Returns(), {"value": 1}, "unchanged is an object already"),
    (print, {}, "expected the name of a perturbation, a subclass of .*, found builtin_function_or_method"),
)
def test_classes_that_lack_something(perturbation, options, reason):
    raised(InputError, parapet.perturb, parapet.load_corpus(), perturbation, match=reason, **options)
    raised(InputError, parapet.beam.Perturb, perturbation, match=reason, **options)


class InPlace(Unchanged):
    def perturb_set(self, dialogue, set_name, state):
        dialogue["turns"][0]["utterance"] = "overwritten"
        return parapet.Perturbed(dialogue)


class Shout(parapet.Perturbation):
    """The shortest class: it gets a copy, and the rows are made of what differs."""

    name = "shout"

    def perturb(self, dialogue, random):
        for turn in dialogue["turns"]:
            if turn["speaker"] == "USER" and random.random() < 0.5:
                turn["utterance"] = turn["utterance"].upper()
        return dialogue


def test_a_class_of_ten_lines(sample, tmp_path):
    assert parapet.check_perturbation(Shout, keeps_meaning=False, seed=1) == []
    original = parapet.load_corpus(sample / "test")
    corpus = parapet.perturb(original, Shout, seed=1)
    users = [turn for dialogue in original.dialogues() for turn in dialogue["turns"] if turn["speaker"] == "USER"]
    assert 0.4 * len(users) < corpus.rows.num_rows < 0.6 * len(users)
    assert all(row["utterance"] == row["original"].upper() != row["original"] for row in corpus.rows.to_pylist())
    assert parapet.perturb(original, Shout, seed=2).rows != corpus.rows
    assert {parapet.perturb_text("an inn", Shout(seed=seed)) for seed in range(9)} == {"an inn", "AN INN"}


def test_a_class_that_modifies_dialogues_in_place_is_refused_and_spoils_nobody_elses(tmp_path):
    original = parapet.load_corpus()
    dialogues = [*original.dialogues()]
    corpus = parapet.perturb(original, InPlace)
    reason = r"the dialogue was modified in place: build new dicts and lists \(InPlace.perturb\)"
    raised(InputError, next, corpus.dialogues(), match=reason)
    raised(InputError, corpus.save, tmp_path / "out", match=reason)
    assert [*original.dialogues()] == dialogues
    with beam.Pipeline() as pipeline:
        created = pipeline | beam.Create(dialogues[:1])
        letters = (created | parapet.beam.Perturb(InPlace()).with_outputs()).dead_letters
        assert_that(letters | beam.Map(lambda letter: letter.dialogue_id), equal_to([dialogues[0]["dialogue_id"]]))
        assert_that(created, equal_to(dialogues[:1]), "of others")


CIRCULAR = {}
CIRCULAR["itself"] = CIRCULAR


@cases(
    "changes reason",
    ({"turns": []}, "turns: plugin_error: no services are left"),
    ({"services": ["Nowhere_1"]}, "services[0]: plugin_error: no schema for service 'Nowhere_1'"),
    ({"note": CIRCULAR}, "plugin_error: it is not JSON: maximum recursion depth exceeded while serializing an object"),
)
def test_dialogues_that_no_reader_takes_are_refused(changes, reason):
    class Free(Unchanged):
        keeps_turns = False

        def perturb(self, dialogue, random):
            return parapet.Perturbed({**dialogue, **changes})

    corpus = parapet.load_corpus()
    assert f"{reason} (Free.perturb)" in str(raised(InputError, next, parapet.perturb(corpus, Free).dialogues()))
    with beam.Pipeline() as pipeline:
        created = pipeline | beam.Create([next(corpus.dialogues())])
        letters = (created | parapet.beam.Perturb(Free(), corpus=corpus).with_outputs()).dead_letters
        reasons = letters | beam.Map(lambda letter: letter.reason)
        assert_that(reasons, equal_to([f"plugin_error{reason.partition('plugin_error')[2]} (Free.perturb)"]))


def meaning(turn):
    """Each frame's state, and the texts of its spans."""
    for frame in turn["frames"]:
        spans = [(span["slot"], turn["utterance"][span["start"] : span["exclusive_end"]]) for span in frame["slots"]]
        yield frame.get("state"), spans


DIALOGUES = [*parapet.load_corpus().dialogues()]


@settings(max_examples=100 if THOROUGH else 25)
@given(st.data())
def test_edits_keep_values_and_move_spans(data):
    dialogue = data.draw(st.sampled_from(DIALOGUES))
    before_all = copy.deepcopy(dialogue)
    replacement = data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=3))

    def edits(turn):
        cuts = sorted(data.draw(st.sets(st.integers(0, len(turn.utterance)), max_size=6)))
        return [(start, end, replacement) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]

    perturbed = parapet.edit_user_turns(dialogue, edits)
    changed = []
    for i, (before, after) in enumerate(zip(dialogue["turns"], perturbed.dialogue["turns"], strict=True)):
        assert [*meaning(before)] == [*meaning(after)]
        if before != after:
            assert before["speaker"] == "USER"
            assert after["utterance"].strip()
            changed.append(parapet.changed_turn(dialogue, i, after))
    assert perturbed.rows == changed
    assert dialogue == before_all  # and was not modified


def test_edits_of_values_only_where_they_are_wanted():
    dialogue = next(parapet.load_corpus().dialogues("test"))
    start = dialogue["turns"][0]["utterance"].index("Port Alder")

    def edits(turn):
        return [(start, start + 1, "F")] if turn.position == 0 else []

    assert parapet.edit_user_turns(dialogue, edits).rows == []
    changed = parapet.edit_user_turns(dialogue, edits, edit_values=True).dialogue["turns"][0]
    assert changed["utterance"] == "My bike broke down, who can fix it in Fort Alder?"
    outside = lambda turn: [(0, 999, "")]  # noqa: E731
    raised(ValueError, parapet.edit_user_turns, dialogue, outside, edit_values=True, match="outside the utterance")


class Sound(Unchanged):
    """Says please, as a sound perturbation does."""

    def perturb(self, dialogue, random):
        return parapet.edit_user_turns(dialogue, lambda turn: [(0, 0, "Please: ")])


def turned(dialogue, **changes):
    """A dialogue whose first turn is another."""
    return {**dialogue, "turns": [{**dialogue["turns"][0], **changes}, *dialogue["turns"][1:]]}


def first_frame(result, **changes):
    """A dialogue whose first turn's first frame is another."""
    frame, *others = result["turns"][0]["frames"]
    return turned(result, frames=[{**frame, **changes}, *others])


def modified(before, after, rows):
    before["turns"][0]["utterance"] = "overwritten"
    return after, rows


NO_SUCH, SLOT = [{"slot": "nosuch", "start": 0, "exclusive_end": 1}], "turns[0].frames[0].slots[0].slot"
OTHER_ROW = "its row is not that of a change: {"
OTHER_MEANING = "turns[0]: a service, its state or the texts of its spans were changed from ["
# What a perturbation makes of (dialogue, its sound result, its rows), and the problem that is found.
SPOILED = [
    (modified, "the dialogue was modified in place: build new dicts and lists"),
    (lambda before, after, rows: ({**after, "dialogue_id": "other"}, rows), "dialogue_id was changed to 'other'"),
    (lambda _, after, rows: (turned(after, speaker="NOBODY"), rows), "turns[0].speaker: not_sgd: Invalid enum value"),
    (lambda _, after, rows: (first_frame(after, slots=NO_SUCH), rows), f"{SLOT}: the service has no slot 'nosuch'"),
    (lambda _, after, rows: (after, rows[1:]), "turns[0] was changed, but has no row"),
    (lambda _, after, rows: (after, [*rows, {**rows[0], "turn": 1}]), f"turns[1]: {OTHER_ROW}"),
    (lambda _, after, rows: (after, [{**rows[0], "original": "?"}, *rows[1:]]), f"turns[0]: {OTHER_ROW}"),
    (lambda _, after, rows: (after, [*rows, rows[-1]]), "a turn has two rows"),
    (lambda _, after, rows: ({**after, "turns": after["turns"][:-1]}, rows), "the number of turns was changed from 14"),
    (lambda _, after, rows: (turned(after, speaker="SYSTEM"), rows), "turns[0]: the speaker was changed"),
    (lambda _, after, rows: (first_frame(after, state=state()), rows), f"{OTHER_MEANING}('Repairs_1', {{"),
    (lambda before, after, rows: (turned(after, frames=before["turns"][0]["frames"]), rows), OTHER_MEANING),
]


@cases("mistake problem", *SPOILED)
def test_a_check_finds_what_is_wrong(mistake, problem, sample):
    class Spoiled(Sound):
        def perturb_set(self, dialogue, set_name, state):
            perturbed = super().perturb_set(dialogue, set_name, state)
            if "Repairs_1" not in dialogue["services"]:
                return perturbed
            return parapet.Perturbed(*mistake(dialogue, *perturbed[:2]))

    test = parapet.load_corpus(sample / "test")
    of_repairs, *_, other = list(test.dialogues())[:4]
    corpus = parapet.corpus_of({"test": [of_repairs, other]}, {"test": test.services()})
    assert parapet.check_perturbation(Sound, corpus) == []
    problems = parapet.check_perturbation(Spoiled, corpus)
    assert [one for one in problems if one.startswith(f"unchanged: 1_00000: {problem}")]
    assert not [one for one in problems if "1_00003" in one]  # of another service


def test_a_check_finds_results_that_change(sample):
    class Counting(Sound):
        calls = 0

        def perturb(self, dialogue, random):
            type(self).calls += 1
            return parapet.edit_user_turns(dialogue, lambda turn: [(0, 0, f"{self.calls} ")])

    problems = parapet.check_perturbation(Counting, sample / "test")
    assert len(problems) == len([*parapet.load_corpus().dialogues("test")])
    assert all("the result differs between two runs" in one for one in problems)


def test_other_values_change_the_meaning_and_nothing_else(sample):
    few = {"corpus": sample / "test", "training": sample}
    assert parapet.check_perturbation("unseen_entities", keeps_meaning=False, **few) == []
    problems = parapet.check_perturbation("unseen_entities", **few)
    assert problems
    assert all("its state or the texts of its spans were changed" in one for one in problems)


@pytest.mark.parametrize("name", ["typos", "verbose", "simple"])
def test_what_is_built_in_is_sound(name, sample):
    assert parapet.check_perturbation(name, sample if THOROUGH else sample / "dev", env=(0.3,), seed="a") == []


def test_rows_of_a_schema_of_its_own():
    class Own(Returns):
        row_schema = pa.schema([("note", pa.string())])

    rows = parapet.perturb(parapet.load_corpus(), Own, rows=[{"note": "x"}, {}]).rows
    assert set(rows["note"].to_pylist()) == {"x", None}
