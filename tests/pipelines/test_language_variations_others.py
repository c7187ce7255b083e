"""``parapet language_variations`` with the words of others: rewritten turns of files, and turns translated and back."""

from collections import Counter

import kit
import pytest
from google_server import GoogleServer
from kit import THOROUGH, TWO_WORKERS, cases, dialogues_of, refused, refused_at_once, sample_dialogues, write
from pseudo_translator import translate
from test_language_variations import check_turn, rows_of, some_of_sgd, user_turns, vary

from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.layout import sample_root
from parapet.transforms.perturbation.user_turns import user_turns as list_user_turns
from parapet.transforms.perturbations.variations import Paraphrase, Verbose


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
    pairs = [pair for of in turns for pair in zip(of, Verbose().vary_all(of), strict=True) if pair[1].operations]
    places = [(said.dialogue_id, said.position, variation.utterance) for said, variation in pairs]
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
    assert f"left out, or turns unchanged: 5 of {len(lines) + 6} lines of --rewritten" in made.errors
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
    numbers = made.json("statistics.json")["rewritten"]
    assert numbers == {
        "lines": len(lines) + 6, "bad": 3, "kind_not_asked": 1, "no_user_turn": 2,
        "with_a_turn": {"verbose": len(lines)},
    }  # fmt: skip
    assert "<b>crowd" not in made.text("report.html")
    assert sum(row["env"] > 0 for row in rows.values()) == (len(rows) + 1) // 2
    assert str(tmp_path) not in made.text("run.json")


def test_an_engine_is_asked_once(few, tmp_path, monkeypatch):
    """Cut off, run again, and replayed from its memory: no text is asked for twice, and the sets are the same."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    fault = ["daily_limit"]

    def cut(request):
        return fault[0] if request.source != "en" else ""

    with GoogleServer(cut) as server:
        engine = {"sgd": few, **google(server), "env": "none"}
        flags = {"kinds": "paraphrase", "pivots": "ko,ja", **engine}
        plan = vary(tmp_path / "out", "--dry_run", **flags, max_bad="100%").output
        assert server.requests == []
        assert not (tmp_path / "out").exists()
        said = vary(tmp_path / "out", **flags, status=1).errors
        assert "the translations so far are kept: run the same command again" in said
        fault[0] = ""
        vary(tmp_path / "out", **flags, max_bad="100%")
        asked = Counter((one.source, one.target, text) for one in server.requests for text in one.contents)
        back = {one.contents for one in server.requests if one.source != "en"}
    assert max(n for (source, _, _), n in asked.items() if source == "en") == 1
    assert back
    texts = {said.utterance for said in read_turns(few)}
    assert {text for source, _, text in asked if source == "en"} == texts
    planned = int(plan.splitlines()[-1].partition(" characters")[0].replace(",", ""))
    assert planned == pytest.approx(sum(len(text) for _, _, text in asked), rel=0.2)
    for row in check_set(user_turns(dialogues_of(few)), tmp_path / "out", "paraphrase").values():
        if row["status"] == "varied":
            pivot = row["source"].removeprefix("back_translation:")
            if pivot == "rules":  # whose version was farther
                continue
            assert pivot in ("ko", "ja")
            plainly = translate(translate(row["original"], "en", pivot), pivot, "en")
            assert row["utterance"] == plainly
    # The memory stays, whatever is made next, and has it all.
    memory = kit.rows_of(tmp_path / "out" / "memory.parquet")
    assert not (tmp_path / "out" / ".paid").exists()
    before = rows_of(tmp_path / "out", "paraphrase")
    vary(tmp_path / "out", sgd=few, kinds="typos,paraphrase", engine="memory", pivots="ko,ja", env="none")
    assert rows_of(tmp_path / "out", "paraphrase") == before
    after = kit.rows_of(tmp_path / "out" / "memory.parquet")
    assert [row for row in after if row["provider"] == "google"] == memory


def google(server):
    return {"engine": "google", "google_project": "p", "google_endpoint": server.url}


NOT_NAMED = "is for paraphrase, which --kinds does not include"
FOR_ENGINES = "is for an engine that translates, but the engine is rules"


@cases(
    "flags told",
    (["--kinds", "typos", "--engine", "memory"], f"--engine: {NOT_NAMED}"),
    (["--engine", "rules", "--dry_run"], f"--dry_run: {FOR_ENGINES}"),
    (["--beams", "2"], "--beams: is for --engine local, but the engine is rules"),
    (["--kinds", "typos", "--memory", "EMPTY"], f"--memory: {NOT_NAMED}"),
    (["--engine", "memory", "--pivots", "fr"], "there are no translations into fr: add a memory, or choose"),
    (["--kinds", "paraphrase", "--pivots", "en"], "--pivots: 'en' is not a language code"),
    (["--engine", "memory", "--prefix", "x"], "--prefix: is for --engine checkpoint, but the engine is memory"),
    (["--engine", "google"], "--google_project: is required"),
    (["--rewritten", "EMPTY"], "--rewritten: contains no line that can be used"),
    (["--rewritten", "ONE", "--kinds", "typos"], "typos: --rewritten contains no line of this kind, only verbose"),
    (["--rewritten", "ONE", "--perturb_values"], "--perturb_values: has no effect with --rewritten"),
    (["--rewritten", "ONE", "--engine", "memory"], "--engine: has no effect with --rewritten"),
)
def test_mistakes(flags, told, tmp_path):
    write(tmp_path / "EMPTY", "\n")
    write(tmp_path / "ONE", {"dialogue_id": "1", "turn": 0, "kind": "verbose", "utterance": "x"})
    flags = [tmp_path / flag if flag in ("EMPTY", "ONE") else flag for flag in flags]
    assert told in refused_at_once("language_variations", *flags, output=tmp_path / "out")


@pytest.mark.thorough
def test_translated_without_a_network_and_replayed(few, tmp_path):
    """What the embedded engine makes with two workers, its memory repeats, and the class makes turn by turn."""
    made = vary(tmp_path / "out", *TWO_WORKERS, sgd=few, kinds="paraphrase", env="none")
    rows = check_set(user_turns(dialogues_of(few)), tmp_path / "out", "paraphrase")
    numbers = made.json("statistics.json")["kinds"]["paraphrase"]
    assert numbers["sources"].keys() == {"rules", "back_translation:pt"}
    assert sum(numbers["refused"].values()) > numbers["turns"] / 4
    memory = made.files["memory.parquet"]
    made = vary(tmp_path / "out", sgd=few, kinds="typos,paraphrase", env="none", engine="memory")
    assert (rows_of(tmp_path / "out", "paraphrase"), made.files["memory.parquet"]) == (rows, memory)
    for turn in read_turns(few):
        assert Paraphrase().vary(turn).utterance == rows[turn.dialogue_id, turn.position]["utterance"]


def test_sgd(real_data, tmp_path, monkeypatch):
    """Turns of SGD through a translator that changes a third of the words: every span holds."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    root = some_of_sgd(real_data, tmp_path / "sgd")
    with GoogleServer() as server:
        engine = {**google(server), "pivots": "ko"}
        vary(tmp_path / "out", sgd=root, split="train", env="none", kinds="paraphrase", **engine)
    rows = check_set(user_turns(dialogues_of(root)), tmp_path / "out", "paraphrase")
    assert {row["source"] for row in rows.values()} == {"", "rules", "back_translation:ko"}
