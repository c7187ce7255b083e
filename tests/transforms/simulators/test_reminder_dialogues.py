"""The simulator of reminders: every goal reached, states as their acts say, texts that fit, nothing said twice."""

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.dialogue import Dialogue, problems_of
from parapet.schemas.errors import InputError
from parapet.schemas.service import parse_service
from parapet.transforms.core.counts import Counts, check_invariants
from parapet.transforms.simulators import reminders_corpus as corpus
from parapet.transforms.simulators import reminders_user as user
from parapet.transforms.simulators.formats import state
from parapet.transforms.simulators.reminders_corpus import DIGEST_SIZE as SIZE
from parapet.transforms.simulators.reminders_corpus import digest_of, simulate, text_digest
from parapet.transforms.simulators.reminders_user import Value, pattern_of

SET, FIND, MOVE, CANCEL = user.SET, user.FIND, user.MOVE, user.CANCEL
NAME, DATE, TIME, REPEATS = user.NAME, user.DATE, user.TIME, user.REPEATS


def acts_of(dialogue, speaker):
    return [
        [(action["act"], action["slot"], action["canonical_values"]) for action in turn["frames"][0]["actions"]]
        for turn in dialogue["turns"]
        if turn["speaker"] == speaker
    ]


_SERVICES = {user.SERVICE: parse_service(user.SCHEMA)}
_WITH_SPANS = {slot.name for slot in _SERVICES[user.SERVICE].slots if not slot.is_categorical}


def check_dialogue(raw, goal):
    """Check a dialogue for validity, consistency, and the goal of its user.

    Args:
      raw: the dialogue for the file.
      goal: the goal of its user.
    """
    dialogue = msgspec.convert(raw, Dialogue)
    problems = [f"{where}: {reason}" for where, reason in problems_of(dialogue, _SERVICES)]
    intent, values, offered = corpus.NO_INTENT, {}, ""
    before = []  # the actions of the previous turn
    calls, done = [], Counter()

    def expect(what, actual, expected):
        if actual != expected:
            problems.append(f"{what}: {actual}, expected {expected}")

    for i, turn in enumerate(raw["turns"]):
        (frame,) = turn["frames"]
        actions = frame["actions"]
        slots = {act: [action["slot"] for action in actions if action["act"] == act] for act in ("INFORM", "REQUEST")}
        text = turn["utterance"]
        spans = sorted((span["slot"], text[span["start"] : span["exclusive_end"]]) for span in frame["slots"])
        spoken = [(action["slot"], value) for action in actions for value in action["values"]]
        expect(f"spans of turn {i}", spans, sorted(pair for pair in spoken if pair[0] in _WITH_SPANS))
        if "service_call" in frame:
            call = frame["service_call"]
            calls.append((call["method"], call["parameters"], bool(frame["service_results"])))
        if turn["speaker"] == "SYSTEM":
            offered = next((a["values"][0] for a in actions if (a["act"], a["slot"]) == ("OFFER", NAME)), offered)
            if requested := {action["slot"] for action in before if action["act"] == "REQUEST"}:
                expect(f"slots informed in turn {i}", set(slots["INFORM"]), requested)
        else:
            acts = {action["act"] for action in actions}
            confirmed = {action["slot"]: action["values"] for action in before if action["act"] == "CONFIRM"}
            if "INFORM_INTENT" in acts:
                intent, values = next(a["values"][0] for a in actions if a["act"] == "INFORM_INTENT"), {}
            if "SELECT" in acts:
                values[NAME] = [offered]
            if "AFFIRM" in acts:
                values |= confirmed
            if "NEGATE" in acts and not confirmed:
                intent = corpus.NO_INTENT
            values |= {action["slot"]: action["values"] for action in actions if action["act"] == "INFORM"}
            expect(f"state of turn {i}", frame["state"], state(intent, values, slots["REQUEST"]))
        done.update((action["act"], action["slot"]) for action in actions)
        before = actions
    expect("calls", calls, [(call.method, call.parameters, call.succeeds) for call in goal.calls])
    expect("alternatives", done["REQUEST_ALTS", ""], sum(task.target for task in goal.tasks if task.intent == FIND))
    for slot, n in Counter(slot for task in goal.tasks for slot in task.requests).items():
        if (times := done["INFORM", slot] + done["OFFER", slot]) < n:
            problems.append(f"the goal requests {slot!r} {n} times, informed {times} times")
    assert not problems


@given(st.text(), st.text(), st.integers(0, 10**6), st.integers(0, 3))
def test_every_dialogue_holds(seed, split, number, attempt):
    dialogue, goal = simulate(seed, split, number, attempt)
    check_dialogue(dialogue, goal)
    assert simulate(seed, split, number, attempt)[0] == dialogue
    assert [turn["speaker"] for turn in dialogue["turns"]] == ["USER", "SYSTEM"] * (len(dialogue["turns"]) // 2)
    assert all("  " not in t["utterance"] and t["utterance"][0].isupper() for t in dialogue["turns"])
    assert not any(mark in t["utterance"] for t in dialogue["turns"] for mark in "{}[]<>")


def test_what_users_do_is_there():
    """In 300 dialogues: slips, changed minds, denials, alternatives, selections, failures and second tries."""
    made = [simulate("0", "train", number) for number in range(300)]
    goals = [goal for _, goal in made]
    tasks = [task for goal in goals for task in goal.tasks]
    assert {task.deviation for task in tasks} == {"", "slip", "mind"}
    assert {task.intent for task in tasks} == {SET, FIND, MOVE, CANCEL}
    assert any(task.retry for task in tasks)
    assert any(task.looked_up for task in tasks)
    assert {1, 2, 3} <= {len(goal.tasks) for goal in goals}
    acts = {act for dialogue, _ in made for turn in acts_of(dialogue, "USER") for act, _, _ in turn}
    assert acts >= {"INFORM_INTENT", "INFORM", "AFFIRM", "NEGATE", "REQUEST", "REQUEST_ALTS", "SELECT", "THANK_YOU"}
    said = {act for dialogue, _ in made for turn in acts_of(dialogue, "SYSTEM") for act, _, _ in turn}
    assert said >= {"REQUEST", "CONFIRM", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "OFFER", "INFORM_COUNT", "REQ_MORE"}
    assert [turn for dialogue, _ in made for turn in acts_of(dialogue, "USER") if len(turn) > 3]
    assert len({digest_of(dialogue) for dialogue, _ in made}) == 300


def test_what_comes_out_twice_is_made_again():
    split, first, digests = corpus.digest_shard(corpus.Shard("train", "dialogues_001.json", 0, 4), "0")
    assert corpus.choose_attempts("0", [(split, first, digests)]) == {}
    second = digests[SIZE : 2 * SIZE]
    same = [("train", 3, second), ("train", 0, digests[: 3 * SIZE]), ("train", 4, digests[:SIZE]), ("test", 0, second)]
    # The first by split and number keeps what it says.
    again = {("train", 1): 1, ("train", 3): 1, ("train", 4): 1}
    assert (corpus.choose_attempts("0", same), corpus.choose_attempts("0", same[::-1])) == (again, again)


def test_what_is_made_again_differs_from_all(monkeypatch):
    """The first other attempt is what a third one has; the next what was just made."""
    says = {(0, 1): "b", (0, 2): "c", (1, 1): "c", (1, 2): "b", (1, 3): "d"}
    monkeypatch.setattr(corpus, "simulate", lambda _, __, number, attempt: (says[number - 1, attempt], None))
    monkeypatch.setattr(corpus, "digest_of", text_digest)
    digests = b"".join(map(text_digest, ["a", "a", "a", "b"]))
    assert corpus.choose_attempts("0", [("train", 0, digests)]) == {("train", 1): 2, ("train", 2): 3}


def test_more_than_there_are(monkeypatch):
    monkeypatch.setattr(corpus, "digest_of", lambda _: text_digest("always the same"))
    monkeypatch.setattr(corpus, "simulate", lambda *_: ({}, None))
    attempts, told = [("train", 0, text_digest("always the same") * 2)], "there are fewer different dialogues than this"
    raised(InputError, corpus.choose_attempts, "0", attempts, match=f"--dialogues: {told}")


def test_counts_that_do_not_balance():
    """A dialogue that is missing, and one that is there twice."""
    config = corpus.Config("out", {"train": 2}, 2, "0")
    counts = Counts()
    counts.add("dialogues", split="train")
    raised(RuntimeError, check_invariants, counts, config.invariants(), match="do not balance for dialogues in train")
    counts.add("dialogues", split="train")
    check_invariants(counts, config.invariants())
    told, same = "1 of 2 dialogues are the same as another one", [text_digest("a")] * 2
    raised(RuntimeError, corpus.metadata_files, counts, {}, same, [], config, match=told)


FERNS = Value("water the ferns", "water the ferns")


def test_a_pattern():
    pattern = pattern_of("Remind me to {reminder_name}[ <on>{date}][ at {time}][ <often>].")
    assert [pattern.says(slots) for slots in ([NAME], [NAME, REPEATS], [DATE])] == [True, True, False]
    line = pattern.line({NAME: FERNS, DATE: Value("Tuesday", "2019-03-05", "on ")})
    assert line.utterance == "Remind me to water the ferns on Tuesday."
    assert line.spans == ((NAME, 13, 28), (DATE, 32, 39))
    more = {DATE: Value("tomorrow", "2019-03-02"), REPEATS: Value("daily", "daily", phrase="each day")}
    line = pattern.line({NAME: FERNS, TIME: Value("5 pm", "17:00"), **more})
    assert line.utterance == "Remind me to water the ferns tomorrow at 5 pm each day."
