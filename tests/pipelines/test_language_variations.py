"""``parapet language_variations`` as a person runs it: what is written, exact mixes, odd corpora, the same bytes."""

import copy
import hashlib

import kit
import pyarrow.parquet as pq
from kit import THOROUGH, cases, corpus, dialogues_of, json_of, lacking, refused_at_once, run, sample_dialogues, write

from parapet.schemas.rows import PERTURBED_TURNS
from parapet.transforms.perturbation.edits import Edit, edited, moved

KINDS = ("typos", "verbose", "simple", "paraphrase")
RATES = {"env1": 0.1, "env2": 0.5, "env3": 0.8}
QUICK = {} if THOROUGH else {"engine": "rules"}  # loading the embedded engine takes seconds


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


def check_turn(old, new, row, perturbed):
    edits = [Edit(one["start"], one["end"], one["after"]) for one in row["operations"]]
    assert all(old["utterance"][one["start"] : one["end"]] == one["before"] for one in row["operations"])
    assert edited(old["utterance"], edits) == new["utterance"] == row["utterance"]
    assert (row["status"] == "varied") == (new["utterance"] != old["utterance"]) == (row["reason"] == "")
    spans = [span for frame in old["frames"] for span in frame["slots"]]
    placed = [span for frame in new["frames"] for span in frame["slots"]]
    for span, place, slot in zip(spans, placed, row["slots"], strict=True):
        value = old["utterance"][span["start"] : span["exclusive_end"]]
        found = new["utterance"][place["start"] : place["exclusive_end"]]
        assert (place["start"], place["exclusive_end"]) == moved(span["start"], span["exclusive_end"], edits)
        assert (slot["value"], slot["new_value"], slot["new_start"]) == (value, found, place["start"])
        assert perturbed or found == value
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
    slots = [slot for row in rows_of(tmp_path / "out", "typos").values() for slot in row["slots"]]
    changed = [slot for slot in slots if slot["value"] != slot["new_value"]]
    assert len(changed) > 10
    assert all(slot["value"][0] == slot["new_value"][0] for slot in changed)


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
    system = kit.turn("SYSTEM", "OK")
    dialogue = kit.dialogue("../../etc/passwd\0", *(one for turn in turns for one in (turn, system)))
    root = corpus(tmp_path / "sgd", test=[[dialogue, kit.dialogue("no frames", kit.turn("USER", "Hello"))], []])
    vary(tmp_path / "out", sgd=root, least_changed="0", **QUICK)
    for kind in KINDS:
        after = user_turns(dialogues_of(tmp_path / "out" / kind))
        for place, old in user_turns(dialogues_of(root)).items():
            for frame, moved_frame in zip(old["frames"], after[place]["frames"], strict=True):
                for span, found in zip(frame["slots"], moved_frame["slots"], strict=True):
                    value = old["utterance"][span["start"] : span["exclusive_end"]]
                    assert after[place]["utterance"][found["start"] : found["exclusive_end"]] == value
        assert not lacking(
            after["../../etc/passwd\0", 6]["utterance"], "Cafe\u0301 👍🏽👩‍👩‍👧 ｗｉｄｅ", "naïvely wordé"
        )
        rows = rows_of(tmp_path / "out", kind)
        assert rows["../../etc/passwd\0", 10]["reason"] == "no_word"
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"sgd", "out"}
    assert "<script>" not in (tmp_path / "out" / "report.html").read_text()
    assert json_of(tmp_path / "out" / "typos" / "test" / "dialogues_002.json") == []


def test_as_multiwoz_has_it(tmp_path):
    """No actions, values copied from other turns, half the frames without a state, no dialogue in a file's other."""
    turn = turn_of("I would like a workshop in Port Alder today", ("city", 27, 37), city=["port alder"])
    del turn["frames"][0]["actions"]
    turn["frames"][0]["slots"].insert(0, {"slot": "day", "copy_from": "other", "value": "tuesday"})
    turn["frames"].append({"service": "Hotels_1"})
    dialogue = {"dialogue_id": "PMUL.json", "services": ["Repairs_1"], "turns": [turn], "extra": {"a": [1.5, None]}}
    vary(tmp_path / "out", sgd=corpus(tmp_path / "sgd", test=[dialogue]), env=1, **QUICK)
    for kind in KINDS:
        made = dialogues_of(tmp_path / "out" / kind)["PMUL.json"]
        copied, span = made["turns"][0]["frames"][0]["slots"]
        new = made["turns"][0]["utterance"]
        assert new != turn["utterance"]
        assert (new[span["start"] : span["exclusive_end"]], copied) == ("Port Alder", turn["frames"][0]["slots"][0])
        assert made["extra"] == dialogue["extra"]
        assert dialogues_of(tmp_path / "out" / f"{kind}-env1")["PMUL.json"] == made


def test_what_cannot_be_mended(tmp_path):
    """A span outside of its utterance, a dialogue that is none, a file that is none."""
    turns = turn_of("Somewhere in Quillerton", ("city", 13, 99)), turn_of("Another workshop somewhere")
    dialogue = kit.dialogue("1", *turns)
    root = corpus(tmp_path / "sgd", test=[dialogue, {"dialogue_id": "bad", "turns": 7}])
    write(root / "test" / "dialogues_002.json", '[{"dialogue_id"')
    flags = {"sgd": root, "kinds": "typos"}
    assert "nothing was published" in vary(tmp_path / "out", **flags, status=1).errors
    assert not (tmp_path / "out" / "run.json").exists()
    made = vary(tmp_path / "out", **flags, max_bad="100%")
    assert "unchanged: 1 of 2 files, 1 of 2 dialogues and 1 of 2 user turns (bad_span 1, " in made.errors
    found = [(one["file"], one["dialogue_id"], one["where"], one["reason"].split(":")[0]) for one in made.dead_letters]
    assert found == [
        ("dialogues_001.json", "1", "turns[0]", "bad_span"),
        ("dialogues_001.json", "bad", "turns", "not_sgd"),
        ("dialogues_002.json", "", "line 1 column 16", "broken_file"),
    ]
    assert [row["status"] for row in rows_of(tmp_path / "out", "typos").values()] == ["unchanged", "varied"]
    assert dialogues_of(tmp_path / "out" / "typos")["1"]["turns"][0] == dialogue["turns"][0]


@cases(
    "flags told",
    (["--kinds", "typo"], "--kinds: 'typo' is not a kind of variation: must be one of typos, verbose, simple"),
    (["--kinds", "typos,typos"], "--kinds: each kind must appear once"),
    (["--env", "10"], "--env: 10 is not a number above 0"),
    (["--rates", "omision=3"], "--rates: there is no rate 'omision': did you mean 'omission'?"),
    (["--at_least", "-1"], "--at_least: -1: must be 0 or more"),
    (["--least_changed", "50"], "--least_changed: 50 is not a number between 0 and 1"),
    (["--kinds", "simple", "--perturb_values"], "--perturb_values: is for typos, which --kinds does not include"),
    (["--split", "validation"], "there are no dialogues in 'validation'; these splits have some: train, dev, test"),
    (["--split", ","], "--split: must be one or more of train, dev, test"),
)
def test_mistakes_of_flags(flags, told, tmp_path):
    assert told in refused_at_once("language_variations", *flags, output=tmp_path / "out")


def some_of_sgd(real_data, folder):
    """Every eighth dialogue of a file of SGD, or all in ``make test-all``, as a corpus."""
    place = real_data / "sgd" / "train"
    dialogues = json_of(place / "dialogues_001.json")[:: 1 if THOROUGH else 8]
    return corpus(folder, json_of(place / "schema.json"), train=dialogues)


def test_sgd(real_data, tmp_path):
    """Dialogues of SGD: every span of every set, exact mixes."""
    root = some_of_sgd(real_data, tmp_path / "sgd")
    vary(tmp_path / "out", sgd=root, split="train", engine="rules")
    check_sets(root, tmp_path / "out")
