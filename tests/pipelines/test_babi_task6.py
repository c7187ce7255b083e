"""``parapet babi_task6`` as a person runs it: the files of task 6, the SGD layout, broken calls, the same bytes."""

import pytest
from dstc2_calls import WELCOME, asian_oriental, cheap_chinese, write_lists
from kit import act, dialogues_of, edit, run, write

from parapet.schemas.dialogue import parse_dialogues, problems_of
from parapet.schemas.layout import read_root, services_by_name

CHEAP = f"""\
1 <SILENCE>\t{WELCOME}
2 breath im looking for a cheap restaurant that serves tuscan food\tapi_call tuscan R_location cheap
3 api_call no result
4 <SILENCE>\tSorry there is no tuscan restaurant in the cheap price range
5 chinese food\tWhat part of town do you have in mind?
6 any part of town noise\tapi_call chinese R_location cheap
7 golden_wok R_cuisine chinese
8 golden_wok R_location north
9 golden_wok R_price cheap
10 golden_wok R_rating 9
11 the_lucky_star R_cuisine chinese
12 the_lucky_star R_location south
13 the_lucky_star R_phone the_lucky_star_phone
14 the_lucky_star R_price cheap
15 the_lucky_star R_rating 10
16 <SILENCE>\tthe_lucky_star is a nice restaurant in the south of town serving chinese food
17 anything else\tgolden_wok serves chinese food in the cheap price range
18 whats the phone number of the_lucky_star\tThe phone number of the_lucky_star is the_lucky_star_phone
19 <SILENCE>\tCan I help you with anything else?
20 thank you good bye\tyou are welcome

"""
ASIAN = f"""\
1 <SILENCE>\t{WELCOME}
2 how about asian_oriental type of food\tapi_call asian_oriental R_location R_price
3 saigon_city R_cuisine asian_oriental
4 saigon_city R_location north
5 saigon_city R_rating 10
6 <SILENCE>\tsaigon_city is a nice place in the north of town serving tasty asian_oriental food
7 thank you\tyou are welcome

"""


def convert(root, out, *flags, status=0):
    return run("babi_task6", *flags, logs=root, output=out, status=status)


def babi(out, name):
    return (out / f"dialog-babi-task6-dstc2-{name}.txt").read_text()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Four calls."""
    folder = tmp_path_factory.mktemp("logs")
    calls = {"train": ["Mar13_S0A0/voip-2", "Mar13_S0A0/voip-1"], "dev": ["Mar13_S1A0/voip-3"]}
    calls["test"] = ["Mar13_S2A0/voip-4"]
    for name in ("Mar13_S0A0/voip-1", "Mar13_S2A0/voip-4"):
        cheap_chinese(folder, name)
    for name in ("Mar13_S0A0/voip-2", "Mar13_S1A0/voip-3"):
        asian_oriental(folder, name)
    write_lists(folder, **calls)
    return folder


@pytest.fixture(scope="module")
def output(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("task6") / "out"
    convert(root, out)
    return out


def test_the_files_of_task_6(output):
    assert (babi(output, "trn"), babi(output, "dev"), babi(output, "tst")) == (ASIAN + CHEAP, ASIAN, CHEAP)
    bot = [line.partition("\t")[2] for line in (ASIAN + CHEAP).splitlines() if "\t" in line]
    assert babi(output, "candidates") == "".join(f"1 {text}\n" for text in sorted(set(bot)))
    facts = [line.partition(" ")[2] for line in (ASIAN + CHEAP).splitlines() if " R_" in line and "\t" not in line]
    assert sorted(babi(output, "kb").splitlines()) == sorted({f"1 {fact}" for fact in facts if "R_rating" not in fact})
    assert (output / "dead_letters.jsonl").read_bytes() == b""
    assert "<script" not in (output / "report.html").read_text()


def test_the_sgd_layout(output):
    services = services_by_name(read_root(output / "sgd"))
    assert list(services) == ["Restaurants_dstc2"]
    for path in sorted((output / "sgd").rglob("dialogues_*.json")):
        for dialogue in parse_dialogues(path.read_bytes(), path):
            assert not list(problems_of(dialogue, services))
            assert [turn.speaker for turn in dialogue.turns[:2]] == ["USER", "SYSTEM"]
    one = next(iter(dialogues_of(output / "sgd" / "test").values()))
    assert one["dialogue_id"] == "Mar13_S2A0/voip-4"
    frames = [turn["frames"][0] for turn in one["turns"]]
    assert frames[0]["state"]["slot_values"] == {"food": ["tuscan"], "pricerange": ["cheap"]}
    asked = {"food": "tuscan", "pricerange": "cheap"}
    assert frames[1]["service_call"] == {"method": "FindRestaurants", "parameters": asked}
    assert frames[1]["service_results"] == []
    # "any part of town": this=dontcare is about what the system asked for.
    assert frames[4]["actions"][0] == act("INFORM", "area", "dontcare")
    rated = [(found["name"], found["rating"]) for found in frames[5]["service_results"]]
    assert rated == [("golden wok", "9"), ("the lucky star", "10")]
    assert frames[8]["state"]["requested_slots"] == ["phone"]
    assert [frame["state"]["active_intent"] for frame in frames[::2]][-2:] == ["FindRestaurants", "NONE"]
    assert {("food", "tuscan"), ("pricerange", "cheap"), ("name", "the lucky star"), ("phone", "01223 244277")} <= {
        (span["slot"], turn["utterance"][span["start"] : span["exclusive_end"]])
        for turn in one["turns"]
        for span in turn["frames"][0]["slots"]
    }


def test_broken_calls(root, tmp_path):
    """Each is a dead letter with its reason, and the others are written; without --max_bad nothing is."""
    folder, good = tmp_path / "logs", "Mar13_S0A0/voip-good"
    asian_oriental(folder, good)
    (asian_oriental(folder, "a/no_label") / "label.json").unlink()
    (asian_oriental(folder, "a/broken") / "log.json").write_text('{"turns": [')
    (asian_oriental(folder, "a/latin") / "log.json").write_bytes(b'{"session-id": "\xe9"}')
    edit(asian_oriental(folder, "a/short") / "label.json", lambda label: label.update(turns=label["turns"][:-1]))
    edit(asian_oriental(folder, "a/other") / "label.json", lambda label: label.update({"session-id": "x"}))
    edit(asian_oriental(folder, "a/odd") / "log.json", lambda log: log["turns"][1]["output"].__delitem__("transcript"))
    edit(asian_oriental(folder, "a/slot") / "label.json", lambda label: goals(label).update({"<b>": "x"}))
    asian_oriental(tmp_path / "elsewhere", "outside")
    outside = "../../elsewhere/data/outside"
    bad = ["a/no_label", "a/broken", "a/latin", "a/short", "a/other", "a/odd", "a/slot", "a/nowhere", outside, "/etc"]
    write_lists(folder, train=[bad[0], good, *bad[1:]], test=[])
    told = convert(folder, tmp_path / "out", status=1).errors
    assert "10 of 11 calls of train could not be converted, more than --max_bad 1%" in told
    assert not (tmp_path / "out" / "run.json").exists()
    made = convert(folder, tmp_path / "out", "--max_bad", "100%")
    letters = made.dead_letters
    assert {letter["file"]: letter["reason"].partition(":")[0] for letter in letters} == {
        "a/no_label": "missing",
        "a/broken": "not_json",
        "a/latin": "not_json",
        "a/short": "mismatch",
        "a/other": "mismatch",
        "a/odd": "not_dstc2",
        "a/slot": "unknown_slot",
        "a/nowhere": "missing",
        outside: "bad_path",
        "/etc": "bad_path",
    }
    assert [letter["where"] for letter in letters if letter["file"] == "a/odd"] == ["log.json: turns[1].output"]
    assert (babi(tmp_path / "out", "trn"), babi(tmp_path / "out", "tst")) == (ASIAN, "")
    counts = made.manifest["counts"]
    assert (counts["calls//train"], counts["dialogues//train"], counts["left_out//train"]) == (11, 1, 10)


def goals(label):
    return label["turns"][0]["goal-labels"]


def test_what_cannot_work(root, tmp_path):
    """Told before anything runs, with status 2."""

    def message(folder, *flags):
        return convert(folder, tmp_path / "out", *flags, status=2).errors

    (tmp_path / "empty").mkdir()
    assert "contains no lists of calls: expected scripts/config/dstc2_train.flist" in message(tmp_path / "empty")
    write_lists(tmp_path / "twice", train=["a/b"], test=["a/b"])
    assert "'a/b' is listed twice" in message(tmp_path / "twice")
    write_lists(tmp_path / "none", train=[])
    assert "the lists name no calls" in message(tmp_path / "none")
    (tmp_path / "none" / "scripts" / "config" / "ontology_dstc2.json").unlink()
    (tmp_path / "none" / "scripts" / "config" / "dstc2_train.flist").write_text("a/b\n")
    assert "contains no ontology" in message(tmp_path / "none")
    kb = write(tmp_path / "kb.txt", "1 ask R_cuisine italian\n1 ask R_cuisine\n")
    assert "line 2: is not a fact" in message(root, "--kb", kb)
