"""``parapet language_variations`` with the words of others: rewritten turns of files."""

from collections import Counter

from kit import TWO_WORKERS, cases, dialogues_of, refused, refused_at_once, write
from test_language_variations import check_turn, rows_of, user_turns, vary

from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.layout import sample_root
from parapet.transforms.perturb.user_turns import user_turns as list_user_turns
from parapet.transforms.perturb.variations import Verbose


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


@cases(
    "flags told",
    (["--dry_run"], "--dry_run: is for a language model: give its address with --endpoint"),
    (["--rewritten", "EMPTY"], "--rewritten contains no line that can be used"),
    (["--rewritten", "ONE", "--kinds", "typos"], "there is no kind 'typos' in --rewritten: must be one of verbose"),
    (["--rewritten", "ONE", "--perturb_values"], "--perturb_values: has no effect with --rewritten"),
    (["--rewritten", "ONE", "--endpoint", "http://a/v1"], "--endpoint: has no effect with --rewritten"),
)
def test_mistakes(flags, told, tmp_path):
    write(tmp_path / "EMPTY", "\n")
    write(tmp_path / "ONE", {"dialogue_id": "1", "turn": 0, "kind": "verbose", "utterance": "x"})
    flags = [tmp_path / flag if flag in ("EMPTY", "ONE") else flag for flag in flags]
    assert told in refused_at_once("language_variations", *flags, output=tmp_path / "out")
