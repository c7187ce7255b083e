"""``parapet language_variations``: what is written, exact mixes, odd corpora, and the words of others."""

import copy
import hashlib
from collections import Counter

import kit
import pyarrow.parquet as pq
from kit import THOROUGH, cases, corpus, dialogues_of, refused, refused_at_once, run, sample_dialogues, write

from parapet.schemas.dialogue import read_dialogues
from parapet.schemas.layout import sample_root
from parapet.schemas.rows import PERTURBED_TURNS
from parapet.transforms.perturb.user_turns import user_turns as list_user_turns
from parapet.transforms.perturb.variations import Verbose

KINDS = ("typos", "verbose", "simple", "paraphrase")
LLM = ("--endpoint", "http://a/v1", "--model", "m")
RATES = {"env1": 0.1, "env2": 0.5, "env3": 0.8}


def vary(out, *flags, **more):
    return run("language_variations", *flags, output=out, **more)


def rows_of(out, kind):
    paths = sorted((out / kind / "turns").rglob("*.parquet"))
    assert all(pq.read_schema(path).equals(PERTURBED_TURNS) for path in paths)
    return {(row["dialogue_id"], row["turn"]): row for path in paths for row in kit.rows_of(path)}


def user_turns(dialogues):
    turns = [(name, i, turn) for name, one in dialogues.items() for i, turn in enumerate(one["turns"])]
    return {(name, i): turn for name, i, turn in turns if turn["speaker"] == "USER"}


def turn_of(utterance, *spans, **values):
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    actions = [{"act": "INFORM", "slot": slot, "values": found} for slot, found in values.items()]
    return kit.turn("USER", utterance, kit.frame("Repairs_1", *actions, slots=slots, state=kit.state(**values)))


def check_sets(root, out, kinds=KINDS, perturbed=False):
    """Every file against a plain reading of the corpus: only user turns differ, and only as their rows say."""
    before = dialogues_of(root)
    turns = user_turns(before)
    for kind in kinds:
        after, rows = dialogues_of(out / kind), rows_of(out, kind)
        assert (list(after), list(rows)) == (list(before), list(turns))
        for place, old in turns.items():
            check_turn(old, after[place[0]]["turns"][place[1]], rows[place], perturbed)
        restored = copy.deepcopy(after)
        for (name, i), old in turns.items():
            restored[name]["turns"][i] = old
        assert restored == before
        check_mixes(before, after, rows, out, kind)


def text_at(turn, span):
    return turn["utterance"][span["start"] : span["exclusive_end"]]


def check_turn(old, new, row, perturbed=False):
    """Against its row; every span has the text that it had."""
    assert (old["utterance"], new["utterance"]) == (row["original"], row["utterance"])
    assert (row["status"] == "varied") == (new["utterance"] != old["utterance"]) == (row["reason"] == "")
    spans = [[span for frame in turn["frames"] for span in frame.get("slots", ())] for turn in (old, new)]
    for span, place in zip(*spans, strict=True):
        value, found = text_at(old, span), text_at(new, place)
        assert found == value or (perturbed and found[0] == value[0])
    assert [{**frame, "slots": 0} for frame in new["frames"]] == [{**frame, "slots": 0} for frame in old["frames"]]


def check_mixes(before, full, rows, out, kind):
    """The mixes by a sort of all turns at once, whose order is a plain hash."""
    can = [place for place, row in rows.items() if row["status"] == "varied"]

    def drawn(place):
        return hashlib.blake2b(f"0\0env\0{place[0]}\0{place[1]}".encode(), digest_size=16).digest()

    ordered = sorted(can, key=drawn)
    for name, rate in RATES.items():
        chosen = set(ordered[: int(rate * len(rows) + 0.5)])  # of all turns; where fewer can be varied, all of these
        expected = copy.deepcopy(before)
        for dialogue, i in chosen:
            expected[dialogue]["turns"][i] = full[dialogue]["turns"][i]
        assert dialogues_of(out / f"{kind}-{name}") == expected
        level = int(name[-1])
        assert {place for place, row in rows.items() if 0 < row["env"] <= level} == chosen


def test_values_perturbed(tmp_path):
    root = corpus(tmp_path / "sgd", test=sample_dialogues())
    vary(tmp_path / "out", "--perturb_values", sgd=root, rates="word=0.9,abbreviation=0", kinds="typos")
    check_sets(root, tmp_path / "out", ("typos",), perturbed=True)

    def texts(folder):
        turns = user_turns(dialogues_of(folder)).values()
        return [text_at(turn, span) for turn in turns for frame in turn["frames"] for span in frame["slots"]]

    pairs = zip(texts(root), texts(tmp_path / "out" / "typos"), strict=True)
    assert sum(one != other for one, other in pairs) > 10


def test_odd_corpora(tmp_path):
    """Spans overlapping, off by one, cutting a cluster, in values of values; ids that are paths; all is kept."""
    both = {"city": ["Port Alder"], "area": ["Alder"]}
    turns = [
        turn_of("Somewhere in Port Alder please", ("city", 13, 23), ("area", 18, 23), **both),
        turn_of("Somewhere near Port Alder maybe", ("city", 15, 24), ("city", 14, 25), city=["Port Alder"]),
        turn_of("For 2 people around 2 pm perhaps", ("time", 20, 24), ("people", 4, 5), time=["2 pm"], people=["2"]),
        turn_of("Cafe\u0301 👍🏽👩‍👩‍👧 ｗｉｄｅ words naïvely wordé", ("name", 0, 4), name=["Cafe\u0301"]),
        turn_of('<script>alert(1)</script> a "really" nice workshop somewhere'),
        turn_of(""),
        turn_of("nothing at all 9 but words"),
    ]
    turns[0]["frames"].append({"service": "Hotels_1"})  # as in MultiWOZ
    del turns[0]["frames"][0]["actions"]
    evil = "../../etc/passwd\0"
    dialogue = kit.dialogue(evil, *(one for turn in turns for one in (turn, kit.turn("SYSTEM", "OK"))))
    dialogue["extra"] = {"a": [1.5, None]}
    root = corpus(tmp_path / "sgd", test=[[dialogue, kit.dialogue("no frames", kit.turn("USER", "Hello"))], []])
    vary(tmp_path / "out", sgd=root)
    for kind in KINDS:
        assert dialogues_of(tmp_path / "out" / kind)[evil]["extra"] == dialogue["extra"]
        after, rows = user_turns(dialogues_of(tmp_path / "out" / kind)), rows_of(tmp_path / "out", kind)
        for place, old in user_turns(dialogues_of(root)).items():
            check_turn(old, after[place], rows[place])
        assert not kit.lacking(after[evil, 6]["utterance"], "Cafe\u0301 👍🏽👩‍👩‍👧 ｗｉｄｅ", "naïvely wordé")
        assert rows[evil, 10]["reason"] == "no_word"
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"sgd", "out"}
    assert "<script>" not in (tmp_path / "out" / "report.html").read_text()
    assert kit.json_of(tmp_path / "out" / "typos" / "test" / "dialogues_002.json") == []


def test_a_span_outside_of_its_utterance(tmp_path):
    turns = turn_of("Somewhere in Quillerton", ("city", 13, 99)), turn_of("Another workshop somewhere")
    flags = {"sgd": corpus(tmp_path / "sgd", test=[kit.dialogue("1", *turns)]), "kinds": "typos"}
    assert "nothing was published" in vary(tmp_path / "out", **flags, status=1).errors
    assert not (tmp_path / "out" / "run.json").exists()
    made = vary(tmp_path / "out", **flags, max_bad="100%")
    assert "unchanged: 1 of 2 user turns of typos (bad_span 1" in made.errors
    (letter,) = made.dead_letters
    assert (letter["dialogue_id"], letter["where"], letter["reason"].split(":")[0]) == ("1", "turns[0]", "bad_span")
    assert [row["status"] for row in rows_of(tmp_path / "out", "typos").values()] == ["unchanged", "varied"]
    assert dialogues_of(tmp_path / "out" / "typos")["1"]["turns"][0] == turns[0]


def some_of_sgd(real_data, folder):
    """Every eighth dialogue of a file of SGD, or all in ``make test-all``, as a corpus."""
    place = real_data / "sgd" / "train"
    dialogues = kit.json_of(place / "dialogues_001.json")[:: 1 if THOROUGH else 8]
    return corpus(folder, kit.json_of(place / "schema.json"), train=dialogues)


def test_sgd(real_data, tmp_path):
    """Dialogues of SGD: every span of every set, exact mixes."""
    root = some_of_sgd(real_data, tmp_path / "sgd")
    vary(tmp_path / "out", sgd=root, split="train")
    check_sets(root, tmp_path / "out")


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
    made = vary(tmp_path / "out", *kit.TWO_WORKERS, **flags, max_bad="100%")
    assert f"left out, or turns unchanged: 5 of {len(lines) + 5} lines of --rewritten" in made.errors
    letters = [f"{one['where']}: {one['reason'].partition(':')[0]}" for one in made.dead_letters]
    bad = ["line 4: duplicate", "line 5: unknown_kind", "line 6: not_json"]
    assert letters == [*bad, "line 2: no_user_turn", "line 3: no_user_turn"]
    before, after = (user_turns(dialogues_of(of)) for of in (sample_root() / "test", tmp_path / "out" / "verbose"))
    rows = rows_of(tmp_path / "out", "verbose")
    assert list(after) == list(before) == list(rows)
    for place, row in rows.items():
        check_turn(before[place], after[place], row)
        assert (row["reason"] == "") == (row["source"] != "")
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
    (["--kinds", "typo"], "--kinds: there is no kind 'typo': must be one of typos, verbose, simple"),
    (["--env", "10"], "--env: '10' must be different numbers above 0"),
    (["--rates", "wrod=3"], "--rates: there is no rate 'wrod': did you mean 'word'?"),
    (["--kinds", "simple", "--perturb_values"], "--perturb_values: is for typos, which --kinds does not include"),
    (["--split", ","], "--split: must be one or more of train, dev, test"),
    (["--model", "m"], "--model: is for a language model: give its address with --endpoint"),
    (["--endpoint", "http://a/v1"], "--model: is required: give the name of the model"),
    ([*LLM, "--price", "1"], "--price: '1' is not a price: give US dollars for a million"),
    ([*LLM, "--kinds", "typos"], "is for verbose, simple, paraphrase, which --kinds"),
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
