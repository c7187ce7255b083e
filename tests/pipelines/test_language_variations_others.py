"""``parapet language_variations`` with the words of others: rewritten turns of files, and turns translated and back."""

from collections import Counter

import kit
import pytest
from kit import THOROUGH, TWO_WORKERS, cases, dialogues_of, refused, refused_at_once, sample_dialogues, write
from test_language_variations import check_turn, rows_of, user_turns, vary

from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.layout import sample_root
from parapet.schemas.rows import Translation
from parapet.transforms.perturbation.user_turns import user_turns as list_user_turns
from parapet.transforms.perturbations.variations import Paraphrase, Verbose
from parapet.transforms.translation.memory import memory_bytes, merge


def original_turns():
    """The user turns of the sample's test dialogues."""
    return user_turns(dialogues_of(sample_root() / "test"))


def check_set(before, out, kind):
    """Every user turn against its row: edits lead from one text to the other, and every span has the text it had."""
    after, rows = user_turns(dialogues_of(out / kind)), rows_of(out, kind)
    assert list(after) == list(before) == list(rows)
    for place, old in before.items():
        check_turn(old, after[place], rows[place], False)
        assert (rows[place]["reason"] == "") == (rows[place]["source"] != "")
    return rows


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The first dialogues of the sample's test split."""
    return kit.corpus(tmp_path_factory.mktemp("few") / "sgd", test=sample_dialogues()[: 8 if THOROUGH else 3])


def read_turns(root):
    """The user turns of a corpus as the perturbations see them."""
    return [turn for one in read_dialogues(root / "test" / "dialogues_001.json") for turn in list_user_turns(one)]


def lines_of():
    """The sample's turns made verbose by our rules, as somebody else would send them."""
    dialogues = read_dialogues(sample_root() / "test" / "dialogues_001.json")
    turns = [list(list_user_turns(one)) for one in dialogues]
    pairs = [pair for of in turns for pair in zip(of, Verbose().rewrite_all(of), strict=True) if pair[1].text]
    places = [(said.dialogue_id, said.position, rewrite.text) for said, rewrite in pairs]
    return [{"dialogue_id": id_, "turn": i, "kind": "verbose", "utterance": text} for id_, i, text in places]


def test_rewritten_turns(tmp_path):
    """What rules made comes out again, spans and all; nothing of the files is lost."""
    lines = lines_of()
    first, last = lines[0], lines.pop()
    changes = ({"kind": "typos"}, {"dialogue_id": "nobody\n"}, {"turn": 1}, {"utterance": "Twice"}, {"kind": "para"})
    more = [{**first, **change} for change in changes]
    lines[1] = {**lines[1], "source": "<b>crowd</b>"}
    cut = next(line for line in lines if "Wexcombe" in line["utterance"])
    cut["utterance"] = "In a town"
    files = [write(tmp_path / "a.jsonl", lines[::-1]), write(tmp_path / "b.jsonl", more)]
    write(files[1], files[1].read_text() + "{")
    flags = {"rewritten": files, "env": 0.5, "kinds": "verbose"}
    said = refused("language_variations", **flags, output=tmp_path / "out")
    assert f"3 of {len(lines) + 6} lines of --rewritten could not be used, more than --max_bad 1%" in said
    assert f": line 4: duplicate: a.jsonl line {len(lines)}" in said
    assert "b.jsonl: line 5: unknown_kind: 'para': must be one of paraphrase, typos" in said
    assert not (tmp_path / "out").exists()
    made = vary(tmp_path / "out", *TWO_WORKERS, **flags, max_bad="100%")
    assert f"left out, or turns unchanged: 5 of {len(lines) + 5} lines of --rewritten" in made.errors
    letters = [f"{one['where']}: {one['reason'].partition(':')[0]}" for one in made.dead_letters]
    bad = ["line 4: duplicate", "line 5: unknown_kind", "line 6: not_json"]
    assert letters == [*bad, "line 2: no_user_turn", "line 3: no_user_turn"]
    rows = check_set(original_turns(), tmp_path / "out", "verbose")
    kept = {(one["dialogue_id"], one["turn"]): one["utterance"] for one in lines if one is not cut}
    lost, never = (cut["dialogue_id"], cut["turn"]), (last["dialogue_id"], last["turn"])
    assert {place: row["utterance"] for place, row in rows.items() if row["status"] == "varied"} == kept
    assert (rows[lost]["reason"], rows[never]["reason"]) == ("value_lost: city", "not_rewritten")
    assert Counter(row["source"] for row in rows.values()) == {
        "rewritten": len(kept) - 1, "<b>crowd</b>": 1, "": len(rows) - len(kept),
    }  # fmt: skip
    assert "<b>crowd" not in made.text("report.html")
    assert sum(row["env"] > 0 for row in rows.values()) == (len(rows) + 1) // 2
    assert str(tmp_path) not in made.text("run.json")


NOT_NAMED = "is for paraphrase, which --kinds does not include"


@cases(
    "flags told",
    (["--kinds", "typos", "--engine", "memory"], f"--engine: {NOT_NAMED}"),
    (["--engine", "rules", "--dry_run"], "--dry_run: is for --engine llm, but the engine is rules"),
    (["--kinds", "typos", "--memory", "EMPTY"], f"--memory: {NOT_NAMED}"),
    (["--engine", "memory"], "--memory: is required by --engine memory"),
    (["--engine", "rules", "--memory", "EMPTY"], "--memory: is for --engine memory, but the engine is rules"),
    (["--memory", "nowhere"], "there is no such file or folder"),
    (["--rewritten", "EMPTY"], "--rewritten contains no line that can be used"),
    (["--rewritten", "ONE", "--kinds", "typos"], "there is no kind 'typos' in --rewritten: must be one of verbose"),
    (["--rewritten", "ONE", "--perturb_values"], "--perturb_values: has no effect with --rewritten"),
    (["--rewritten", "ONE", "--engine", "memory"], "--engine: has no effect with --rewritten"),
)
def test_mistakes(flags, told, tmp_path):
    write(tmp_path / "EMPTY", "\n")
    write(tmp_path / "ONE", {"dialogue_id": "1", "turn": 0, "kind": "verbose", "utterance": "x"})
    flags = [tmp_path / flag if flag in ("EMPTY", "ONE") else flag for flag in flags]
    assert told in refused_at_once("language_variations", *flags, output=tmp_path / "out")


BACK = {"Someone has to look at my phone.": "Somebody needs to look at my phone."}


def memory_of(turns, path):
    """A memory with the turns there and back; one comes back in other words."""
    texts = {turn["utterance"] for turn in turns}
    there = [Translation("p", "m", "en", "ko", text, f"ko {text}") for text in texts]
    back = [Translation("p", "m", "ko", "en", f"ko {text}", BACK.get(text, text)) for text in texts]
    path.write_bytes(memory_bytes(merge([*there, *back])))
    return path


@pytest.mark.thorough
def test_translated_without_a_network(few, tmp_path):
    """What the embedded engine makes with two workers is what the class makes turn by turn."""
    made = vary(tmp_path / "out", *TWO_WORKERS, sgd=few, kinds="paraphrase", env="none", engine="embedded")
    rows = check_set(user_turns(dialogues_of(few)), tmp_path / "out", "paraphrase")
    numbers = made.json("statistics.json")["sets"]["paraphrase"]
    assert numbers["sources"].keys() == {"rules", "back_translation:pt"}
    assert sum(numbers["refused"].values()) > numbers["turns"] / 4
    paraphrase = Paraphrase(engine="embedded")
    for turn in read_turns(few):
        (rewrite,) = paraphrase.rewrite_all([turn])
        assert (rewrite.text or turn.utterance) == rows[turn.dialogue_id, turn.position]["utterance"]


def test_translations_of_a_memory(tmp_path):
    """A text that is not in the memory becomes a dead letter."""
    _, *turns = original_turns().values()
    flags = {"env": "none", "kinds": "paraphrase", "memory": memory_of(turns, tmp_path / "memory.parquet")}
    made = vary(tmp_path / "out", **flags, max_bad="100%")
    (letter,) = made.dead_letters
    assert letter["reason"].startswith("not_translated: not_in_memory: add a memory")
    rows = check_set(original_turns(), tmp_path / "out", "paraphrase")
    found = {row["original"]: row["utterance"] for row in rows.values() if row["source"] == "back_translation:ko"}
    assert found == BACK
