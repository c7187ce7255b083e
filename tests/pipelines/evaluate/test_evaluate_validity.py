"""``parapet evaluate --task validity``, as run: a corpus whose sets lose values, states and intents by design."""

import copy
import json

import kit
import pytest
from fake_mturk import FakeMTurk, Script, play
from kit import act, as_nobody, files_of, json_of, refused, refused_at_once, rows_of, run, slot, turn

from parapet.evaluation.models.classifier import load
from parapet.evaluation.models.turns import ACTS, read_turns

HOSTILE = "</textarea><script>alert(1)</script> =HYPERLINK(1) | `x` \u202e\U0001f600"
SLOTS = [slot("city", "city"), slot("time", "time"), slot("party", "party", "2", "3")]
SCHEMA = [kit.service("Food_1", SLOTS, [kit.intent("FindFood", "find food")], "places to eat")]


def user(text, *acts, **values):
    """A user turn; slots but ``party`` have spans."""
    slots = [kit.span(one["slot"], text, *one["values"]) for one in acts if one["slot"] in ("city", "time")]
    return turn("USER", text, kit.frame("Food_1", *acts, slots=slots, state=kit.state("FindFood", **values)))


def dialogues():
    """Two dialogues of three and one user turns."""
    all_three = {"city": ["San Jose"], "time": ["5:30 pm"], "party": ["2"]}
    one = [
        user("Food in San Jose, please.", act("INFORM", "city", "San Jose"), city=["San Jose"]),
        turn("SYSTEM", f"When? {HOSTILE}"),
        user("At 5:30 pm for 2 people.", act("INFORM", "time", "5:30 pm"), act("INFORM", "party", "2"), **all_three),
        turn("SYSTEM", "Fine."),
        user("Thanks a lot.", act("THANK_YOU"), **all_three),
    ]
    other = user("Food in Oslo, please.", act("INFORM", "city", "Oslo"), city=["Oslo"])
    return [kit.dialogue("1_00000", *one), kit.dialogue("1_00001", other)]


def write(root, found):
    return kit.corpus(root, SCHEMA, test=found)


def said(*utterances):
    """The dialogues with other user turns, in order; without their spans."""
    found = dialogues()
    turns = [one for dialogue in found for one in dialogue["turns"] if one["speaker"] == "USER"]
    for one, utterance in zip(turns, utterances, strict=True):
        one["utterance"] = utterance
        one["frames"][0]["slots"] = []
    return found


def renamed():
    """San Jose is Paris throughout."""
    found = json.loads(json.dumps(dialogues()).replace("San Jose", "Paris"))
    found[0]["turns"][0]["frames"][0]["slots"][0]["exclusive_end"] -= 3
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The original, and three sets: one heard, one that loses things, one with another city."""
    folder = tmp_path_factory.mktemp("validity")
    write(folder / "original", dialogues())
    heard = said(
        "food in san jose please", "at five thirty p m for two people", "Thanks a lot.", "Food in Oslo, please."
    )
    write(folder / "heard", heard)
    lossy = said("Food in San Diego.", "At 5:30 pm for 12 people.", HOSTILE, "Feed me in Oslo.")
    lossy[1]["turns"][0]["frames"][0]["state"]["slot_values"] = {}
    lossy[1]["turns"][0]["frames"][0]["state"]["active_intent"] = "NONE"
    write(folder / "lossy", lossy)
    write(folder / "renamed", renamed())
    return folder


def evaluate(out, *flags):
    """``metrics.json`` of a run."""
    return run("evaluate", *flags, task="validity", output=out).json("metrics.json")


def sets(corpus, *names):
    return ["--reference", corpus / "original", "--sets", *(f"{name}={corpus / name}" for name in names)]


def test_values_states_and_how_much_has_changed(corpus, tmp_path):
    metrics = evaluate(tmp_path / "out", *sets(corpus, "heard", "lossy", "renamed"))
    assert set(metrics) == {"#ALL", "#MEAN", "heard", "lossy", "renamed"}
    # Two turns are spoken forms: nothing is there letter for letter, everything nearly.
    assert metrics["heard"] == {"changed": 0.5, "states_equal": 1, "values_kept": 0, "values_kept_fuzzy": 1}
    # San Diego is not San Jose, the 2 of 12 is no 2; Oslo is there and its state has no city: its label is lost.
    assert metrics["lossy"] == {"changed": 1, "states_equal": 0.75, "values_kept": 0, "values_kept_fuzzy": 0}
    # What the set's own state has is what its turn has to say.
    assert metrics["renamed"] == {"changed": 0.25, "states_equal": 0.25, "values_kept": 1, "values_kept_fuzzy": 1}
    group = json_of(tmp_path / "out" / "details.json")["groups"]["lossy"]
    assert (group["values"], group["values_found"], group["lost_by_slot"]) == (4, 1, {"city": 2, "party": 1})
    rows = rows_of(tmp_path / "out" / "rows.parquet")
    assert len(rows) == 12
    for name in ("heard", "lossy", "renamed"):
        for metric, value in metrics[name].items():
            known = [row[metric] for row in rows if row["set"] == name and row[metric] is not None]
            assert sum(known) / len(known) == value
    lost = {(row["set"], row["dialogue_id"], row["turn"]): row["lost"] for row in rows if row["lost"]}
    assert (lost["lossy", "1_00001", 0], lost["heard", "1_00000", 2]) == ("city: no value", "time: 5:30 pm; party: 2")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "San Diego" in page
    assert "<script>alert" not in page
    assert evaluate(tmp_path / "again", *sets(corpus, "heard", "lossy", "renamed")) == metrics
    assert {**files_of(tmp_path / "out"), "run.json": b""} == {**files_of(tmp_path / "again"), "run.json": b""}


def test_what_a_classifier_predicts_of_both_texts(corpus, tmp_path):
    """Trained on the acts of the corpus itself: it knows the originals, and what is said elsewhere."""
    root = str(corpus / "original")
    utterances = ("Food in San Jose, please.", "At 5:30 pm for 2 people.", "Thanks a lot.", "Food in Oslo, please.")
    labels = dict(zip(utterances, ("INFORM", "INFORM", "THANK_YOU", "INFORM"), strict=True))
    assert {turn.utterance: turn.label for turn in read_turns(root, "test", ACTS)} == labels
    learn = {"task": "acts", "train": root, "split": "test", "dev": root, "dev_split": "test"}
    small = {"buckets": 512, "size": 8, "batch_size": 2, "epochs": 60}
    run("train", "classifier", **learn, **small, output=tmp_path / "model")
    flags = ["--classifier", tmp_path / "model"]
    other = said("Thanks a lot!", "At 5:30 pm for 2 people.", "Food, please.", "Food in Oslo.")
    swapped = write(tmp_path / "swapped", other)
    metrics = evaluate(tmp_path / "out", *sets(corpus, "heard"), f"swapped={swapped}", *flags)
    assert metrics["swapped"]["same_label"] == metrics["swapped"]["accuracy"] == pytest.approx(1 / 3)
    assert metrics["swapped"]["accuracy_original"] == 1
    _, model = load(str(tmp_path / "model"), "cpu", 4)
    answers, _ = model.answers([turn.utterance for turn in read_turns(str(corpus / "heard"), "test", ACTS)])
    right = sum(answer.label == "INFORM" for answer in answers[:2]) / 2
    assert metrics["heard"]["same_label"] == metrics["heard"]["accuracy"] == right
    assert metrics["heard"]["accuracy_original"] == 1
    details = json_of(tmp_path / "out" / "details.json")
    assert details["labels"] == "acts"
    assert details["groups"]["swapped"]["changed_labels"] == [["INFORM", "THANK_YOU", 1], ["THANK_YOU", "INFORM", 1]]
    assert "Turns of swapped with another prediction" in (tmp_path / "out" / "report.html").read_text()


def test_what_cannot_be_compared(corpus, tmp_path):
    def changed(change):
        found = copy.deepcopy(dialogues())
        change(found)
        return write(tmp_path / "changed", found)

    def fails(*flags):
        return refused_at_once("evaluate", *flags, task="validity", output=tmp_path / "no")

    reference = ["--reference", corpus / "original", "--sets"]
    root = changed(lambda found: found[0]["turns"].pop())
    assert "'1_00000' has different turns than the reference" in fails(*reference, f"a={root}")
    root = changed(lambda found: found[0].update(dialogue_id="9"))
    assert "the reference has no dialogue '9'" in fails(*reference, f"a={root}")
    root = changed(lambda found: found.append(found[0]))
    assert "dialogue '1_00000' appears twice" in fails(*reference, f"a={root}")
    assert "contains no model" in fails(*reference, f"a={corpus / 'heard'}", "--classifier", corpus)
    root = changed(lambda found: found.pop())
    compared = run("evaluate", *reference, f"a={root}", task="validity", output=tmp_path / "out")
    assert "a lacks 1 dialogue of the reference" in compared.errors


NAMES = ("heard", "lossy")
TRUE_TO_THE_ORIGINAL = {("heard", "1_00000", 0), ("heard", "1_00000", 2), ("lossy", "1_00000", 0)}


def items_by_field(record):
    """The pair that a form field is about."""
    numbers = list(dict.fromkeys(field.rpartition("_")[2] for field in record["fields"]))
    return {field: record["pairs"][numbers.index(field.rpartition("_")[2])] for field in record["fields"]}


def place_of(item):
    return item["stratum"], item["dialogue_id"], item["turn"]


def scripts(records):
    """Three workers who know the truth; the third takes what the second set says for the same, but for checks."""
    found = []
    for record in records:
        for worker in range(3):
            answers = {}
            for field, item in items_by_field(record).items():
                true = place_of(item) in TRUE_TO_THE_ORIGINAL or (worker == 2 and item["stratum"] == "lossy")
                answers[field] = str(2 + worker) if field.startswith("natural") else "yes" if true else "no"
            found.append(Script(f"AWORKER{worker:07}", record["task_id"], answers, 300))
    return found


def test_from_pages_to_what_people_say_and_pay(corpus, tmp_path, monkeypatch):
    as_nobody(monkeypatch, tmp_path)
    pairs, batch = tmp_path / "pairs", tmp_path / "batch"
    named = [f"{name}={corpus / name}" for name in NAMES]
    made = run("hits", task="validity", dialogues=corpus / "original", sets=named, items=1, output=pairs)
    records = made.rows("manifest.jsonl")
    [bad, *_] = (i for i, record in enumerate(records) if len(record["pairs"]) > 1)
    asked = [*sets(corpus, *NAMES), "--hits", pairs, "--responses", batch]
    with FakeMTurk(tmp_path / "mturk.sqlite") as server:
        run("mturk", "publish", batch=batch, hits=pairs, endpoint_url=server.url)
        played = scripts(records)
        # On one page the third worker says of the check that it is the same: no answer of the page counts.
        checks = [field for field, item in items_by_field(records[bad]).items() if item["stratum"] == "check"]
        played[3 * bad + 2].answers.update({field: "yes" for field in checks if field.startswith("same")})
        assert play(server, played) == len(played)
        run("mturk", "collect", batch=batch)
        metrics = evaluate(tmp_path / "judged", *asked)
        run("mturk", "topup", batch=batch, shortfall=tmp_path / "judged" / "shortfall.csv")
        wanted = {hit["RequesterAnnotation"]: hit["MaxAssignments"] for hit in server.snapshot()["hits"].values()}
        assert wanted == {record["task_id"]: 5 if i == bad else 3 for i, record in enumerate(records)}
        run("mturk", "pay", batch=batch, audit=tmp_path / "judged")
    rows = rows_of(tmp_path / "judged" / "rows.parquet")
    said = {(row["set"], row["dialogue_id"], row["turn"]): row for row in rows if row["human_same"] is not None}
    assert ({place for place, row in said.items() if row["human_valid"] == 1}, len(said)) == (TRUE_TO_THE_ORIGINAL, 5)
    for name, share in (("heard", 1), ("lossy", 1 / 3)):
        assert metrics[name]["human_valid"] == metrics[name]["human_same"] == pytest.approx(share)
    assert metrics["heard"]["human_values"] == 1
    assert metrics["heard"]["fleiss_kappa"] is None  # all say the same of all
    assert metrics["lossy"]["changed"] == 1
    on_page = {place_of(item) for item in records[bad]["pairs"] if item["stratum"] != "check"}
    assert {row["naturalness"] for place, row in said.items() if place in on_page} == {2.5}
    assert {row["naturalness"] for place, row in said.items() if place not in on_page} == {3.0}
    people = json_of(tmp_path / "judged" / "details.json")["people"]
    assert people["reasons"]["rejected"] == {"failed_check": len(records[bad]["fields"])}
    assert (people["workers"], people["assignments"]) == (3, 3 * len(records))
    responses = rows_of(tmp_path / "judged" / "responses.parquet")
    assert len(responses) == 3 * sum(len(record["fields"]) for record in records)
    assert {row["stratum"] for row in responses} == {"heard", "lossy", "check"}
    page = (tmp_path / "judged" / "report.html").read_text()
    assert "Turns of lossy that people do not find valid" in page
    assert "<script>alert" not in page
    assert not any(b"AWORKER" in data for data in files_of(tmp_path / "judged").values())
    compared = run("compare", systems=f"a={tmp_path / 'judged'}", output=tmp_path / "compared")
    assert "100.0" in compared.text("table.md")

    def fails(*flags):
        return refused("evaluate", *flags, task="validity", output=tmp_path / "no")

    assert "must be given together" in fails(*sets(corpus, *NAMES), "--hits", pairs)
    swapped = [*asked[:3], f"heard={corpus / 'lossy'}", f"lossy={corpus / 'heard'}", *asked[5:]]
    assert "does not match --sets" in fails(*swapped)
    told = refused("evaluate", *asked[5:], task="ratings", output=tmp_path / "no")
    assert "contains tasks of another kind: make them with 'parapet hits --task ratings'" in told


def test_pages_that_cannot_be_made(corpus, tmp_path):
    def fails(*flags):
        return refused_at_once("hits", *flags, task="validity", dialogues=corpus / "original", output=tmp_path / "no")

    assert "name the sets" in fails()
    assert "nothing to compare" in fails("--sets", f"a={corpus / 'original'}")
    assert "cannot be called 'check'" in fails("--sets", f"check={corpus / 'heard'}")
    assert "--pairs: must be 1 or more" in fails("--sets", f"a={corpus / 'heard'}", "--pairs", 0)
    assert "is for --task ratings" in fails("--sets", f"a={corpus / 'heard'}", "--scores", corpus / "lossy")
