"""User turns: what is said of them, and draws and voices that depend on ids and seed alone."""

import copy
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError, storable
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbations.speech.spoken import (
    DRAWS,
    Occurrence,
    Speakers,
    Utterance,
    draw_of,
    load_normalisation,
    occurrences_of,
    sentences_of,
    shard_of,
    user_turns,
    voice_of,
)

RULES = load_normalisation()
SPEAKERS = Speakers(("klatt4", "adam", "f1"), "0", RULES, 1000)
ANY_ID = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "a\0b", ""])


def dialogue(name: str = "1_00000", *said: str) -> dict[str, Any]:
    turns = [
        {"speaker": speaker, "utterance": text, "frames": []}
        for text in said or ("At 7:30 pm, please.",)
        for speaker, text in (("USER", text), ("SYSTEM", "Well?"))
    ]
    return {"dialogue_id": name, "services": [], "turns": turns}


def file_of(place: Path, data: Any, split: str = "test") -> DialogueFile:
    path = place / "dialogues_001.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return DialogueFile(split, path.name, str(path), path.stat().st_size)


@settings(deadline=None)
@given(ANY_ID, st.integers(0, 99), ANY_ID, st.integers(1, 99))
def test_draws_and_voices_depend_on_id_turn_and_seed_alone(name, turn, seed, longest):
    one = Speakers(("klatt4", "adam", "f1"), seed, RULES, 1000)
    other = Speakers(("x", "y", "z"), seed, RULES, longest)
    assert 0 <= draw_of(name, turn, one) < DRAWS
    assert draw_of(name, turn, one) == draw_of(name, turn, other)
    assert one.voices.index(voice_of(name, one)) == other.voices.index(voice_of(name, other))


def test_draws_and_voices_are_spread_evenly():
    draws = [draw_of(f"{d}_00001", t, SPEAKERS) for d in range(1000) for t in range(0, 20, 2)]
    assert max(draws) > 9990
    assert min(draws) < 10
    for tenth in range(10):
        assert sum(draw // 1000 == tenth for draw in draws) == pytest.approx(1000, abs=120)
    voices = Counter(voice_of(f"{d}_00001", SPEAKERS) for d in range(3000))
    assert all(n == pytest.approx(1000, abs=120) for n in voices.values())
    assert set(voices) == set(SPEAKERS.voices)
    other = Speakers(SPEAKERS.voices, "1", RULES, 1000)
    assert sum(draw_of(str(d), 0, SPEAKERS) == draw_of(str(d), 0, other) for d in range(1000)) < 5


def test_what_is_said_in_a_file(tmp_path):
    some = [dialogue("a", "At 7:30 pm, please.", "?!", "Yes"), dialogue("\ud800", "Yes"), dialogue("b", "\u4f60\u597d")]
    found = list(occurrences_of(file_of(tmp_path, some), SPEAKERS))
    expected = [("a", 0, 0, "at seven thirty p m please"), ("a", 0, 4, "yes"), ("\ud800", 1, 0, "yes")]
    assert found == [
        (
            Utterance(voice_of(name, SPEAKERS), text),
            Occurrence("test/dialogues_001.json", position, turn, draw_of(name, turn, SPEAKERS), storable(name)),
        )
        for name, position, turn, text in expected
    ]
    single = list(occurrences_of(file_of(tmp_path, some, ""), SPEAKERS))
    assert {use.file for _, use in single} == {"dialogues_001.json"}
    assert (
        list(sentences_of([file_of(tmp_path, some)] * 2, SPEAKERS))
        == [("at", "seven", "thirty", "p", "m", "please"), ("yes",), ("yes",)] * 2
    )


def test_user_turns_and_why_some_are_not_said(tmp_path):
    short = Speakers(("klatt4",), "0", RULES, 30)
    said = ["hello", "", "?!", "\u4f60\u597d", "a" * 31, "\ud800", "1234567890123"]
    ((_, _, _, typed),) = dialogues_of(file_of(tmp_path, [dialogue("a", *said)]))
    found = list(user_turns(typed, short))
    assert [(turn.position, turn.reason) for turn in found] == [
        (0, ""),
        (2, "empty"),
        (4, "empty"),
        (6, "script"),
        (8, "too_long"),
        (10, "empty"),
        (12, "too_long"),
    ]
    assert [bool(turn.words) for turn in found] == [True, *[False] * 6]
    assert [turn.turn.utterance for turn in found] == said


def test_bad_dialogues_are_left_out_alone(tmp_path):
    bad: list[Any] = [{}, 7, dialogue("x"), dialogue("y")]
    bad[2]["turns"][0]["utterance"] = None
    bad[3]["turns"][0]["speaker"] = "ROBOT"
    file = file_of(tmp_path, [dialogue("a"), *bad, dialogue("b")])
    found = list(dialogues_of(file))
    assert [position for position, *_ in found] == list(range(6))
    assert [plain for _, _, plain, _ in found] == [True] * 6
    assert [raw for _, raw, _, _ in found] == json.loads(Path(file.path).read_bytes())
    told = {position: (typed.where, typed.reason) for position, _, _, typed in found if isinstance(typed, InputError)}
    assert told == {
        1: ("", "not_sgd: Object missing required field `dialogue_id`"),
        2: ("", "not_sgd: Expected `object`, got `int`"),
        3: ("turns[0].utterance", "not_sgd: Expected `str`, got `null`"),
        4: ("turns[0].speaker", "not_sgd: Invalid enum value 'ROBOT'"),
    }
    assert [use.dialogue for _, use in occurrences_of(file, SPEAKERS)] == [0, 5]


GOOD = json.dumps([dialogue("a"), dialogue("b")]).encode()


@pytest.mark.parametrize("data", [b"", b"{}", b"7", b"[", GOOD[:-1], GOOD + b"x", b"\xff\xfe"])
def test_of_a_file_that_cannot_be_read_nothing_is_said(data, tmp_path):
    file = file_of(tmp_path, data)
    assert list(occurrences_of(file, SPEAKERS)) == []
    assert list(sentences_of([file], SPEAKERS)) == []
    with pytest.raises(InputError, match=r"dialogues_001\.json"):
        list(dialogues_of(file))
    gone = DialogueFile("test", "x.json", str(tmp_path / "x.json"), 0)
    assert list(occurrences_of(gone, SPEAKERS)) == []


def test_of_a_file_with_a_mistake_in_its_midst_nothing_is_said(tmp_path):
    file = file_of(tmp_path, GOOD.replace(b'"b"', b'"\xff"'))
    with pytest.raises(InputError):
        list(dialogues_of(file))
    assert list(occurrences_of(file, SPEAKERS)) == []


def test_a_mark_at_the_start_of_a_file_is_forgiven(tmp_path):
    assert list(occurrences_of(file_of(tmp_path, b"\xef\xbb\xbf" + GOOD), SPEAKERS)) == list(
        occurrences_of(file_of(tmp_path, GOOD), SPEAKERS)
    )


def test_what_else_is_in_a_dialogue_does_not_matter(tmp_path):
    plain = dialogue("a", "hello", "thank you")
    more = copy.deepcopy(plain) | {"mine": [1]}
    more["turns"][1]["utterance"] = "something else"
    assert list(occurrences_of(file_of(tmp_path, [plain]), SPEAKERS)) == list(
        occurrences_of(file_of(tmp_path, [more]), SPEAKERS)
    )


def test_texts_are_kept_in_some_thousand_groups():
    shards = [shard_of(Utterance("klatt4", f"text {i}")) for i in range(500)]
    assert all(len(shard) == 3 and int(shard, 16) < 4096 for shard in shards)
    assert len(set(shards)) > 400
    assert shard_of(Utterance("a", "b")) == hashlib.sha256(b"a\0b").hexdigest()[:3]
    assert shard_of(Utterance("adam", "text 0")) != shards[0]
