"""``parapet evaluate --task dst`` as a person runs it: numbers against the plain reference, layouts, mistakes."""

import itertools
import json
import math
import pickle
import re
import shutil

import kit
import numpy as np
import pytest
from kit import TWO_WORKERS, dialogues_of, files_of, json_of, lacking, raised, rows_of, sample_dialogues, state, write
from state_predictions import lines_of, wrong

from benchmarks.evaluate_reference import frame_metrics, of_folders
from benchmarks.rewrite_reference import names_of, rename
from parapet.evaluation import statistics
from parapet.evaluation.dst.frames import FilePart, PassedOver, predictions_in, read_parts, read_predictions
from parapet.evaluation.dst.model import Config, make_plan
from parapet.evaluation.dst.scoring import ScoreFile, with_parts
from parapet.evaluation.sets import Sources
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.schemas.service import Service
from parapet.transforms.variants.matching import compose_variant

VARIANTS = ("v1", "v2", "v3")
SHARES = {"original": 0.04, "v1": 0.1, "v2": 0.15, "v3": 0.2}  # of the predicted values that are wrong
JGA = "joint_goal_accuracy"
FILE = "dialogues_001.json"


def run(out, *flags, status=0):
    return kit.run("evaluate", *flags, task="dst", output=out, status=status)


def variant_of(service, number):
    """The service under new names: its slots and intents have the variant's number behind."""
    names = {f"slot_{i}": slot["name"] + number for i, slot in enumerate(service["slots"])}
    names |= {f"intent_{i}": intent["name"] + number for i, intent in enumerate(service["intents"])}
    return compose_variant(service, number, names, dict.fromkeys((*names, "service"), "what it is"))


def user_frames(dialogues):
    turns = [(one["dialogue_id"], i, turn) for one in dialogues for i, turn in enumerate(one["turns"])]
    return [(name, i, frame) for name, i, turn in turns for frame in turn["frames"] if turn["speaker"] == "USER"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The sample in three variants, and predictions for all of it."""
    root = tmp_path_factory.mktemp("dst")
    sample = sample_root()
    for name, split in itertools.product(VARIANTS, ("train", "test")):
        schema = json_of(sample / split / "schema.json")
        variant = [variant_of(service, name[1:]) for service in schema]
        write(root / "variants" / name / split / "schema.json", variant)
        for path in (sample / "test").glob("dialogues_*.json") if split == "test" else ():
            dialogues = json_of(path)
            for dialogue in dialogues:
                rename(dialogue, names_of({split: schema}, {split: variant}))
            write(root / "variants" / name / split / path.name, dialogues)
    for name, split in (("original", sample / "test"), *((one, root / "variants" / one / "test") for one in VARIANTS)):
        for path in sorted(split.glob("dialogues_*.json")):
            write(root / "predictions" / name / path.name, wrong(json_of(path), 1, SHARES[name]))
    return root


@pytest.fixture(scope="module")
def scores(place):
    flags = ["--variants", place / "variants", "--predictions", place / "predictions", "--system", "A <b>tracker</b>"]
    return run(place / "scores", *flags).folder


def test_numbers_of_every_set_are_those_of_the_plain_reference(place, scores):
    numbers = json_of(scores / "robustness.json")
    assert json_of(scores / "metrics.json") == numbers["sets"]["original"]["metrics"]
    for name, root in ({"original": sample_root()} | {name: place / "variants" / name for name in VARIANTS}).items():
        expected = of_folders(root, "test", place / "predictions" / name)
        found = numbers["sets"][name]["metrics"]
        assert found.keys() == expected.keys()
        for key, of in expected.items():
            assert found[key] == pytest.approx(of, abs=1e-12)


def joint_values(place):
    """Dialogue, turn and frame to its joint goal accuracy under each variant, as the plain reference has it."""
    found = {}
    for name in VARIANTS:
        root = place / "variants" / name / "test"
        services = {one["service_name"]: one for one in json_of(root / "schema.json")}
        for path in sorted(root.glob("dialogues_*.json")):
            for dialogue, other in zip(json_of(path), json_of(place / "predictions" / name / path.name), strict=True):
                for i, (turn, guess) in enumerate(zip(dialogue["turns"], other["turns"], strict=True)):
                    for j, (frame, to) in enumerate(zip(turn["frames"], guess["frames"], strict=True)):
                        if turn["speaker"] == "USER":
                            of = frame_metrics(frame, to, turn["utterance"], services[frame["service"]], True)
                            found.setdefault((dialogue["dialogue_id"], i, j), []).append(of[JGA])
    return found


@pytest.mark.parametrize("zero", statistics.POLICIES)
def test_sensitivity_under_every_policy(zero, place, scores, tmp_path):
    if zero != "zero":
        flags = ["--variants", place / "variants", "--predictions", place / "predictions", "--zero", zero]
        scores = run(tmp_path / "scores", *flags).folder
    numbers = json_of(scores / "robustness.json")["variants"]
    frames = joint_values(place)
    values = np.array(list(frames.values()))
    # Three lines: equations 2 and 3, equation 1, and what the bootstrap draws.
    cov = np.nan_to_num(values.std(axis=1, ddof=1) / np.where(values.any(axis=1), values.mean(axis=1), np.nan))
    weights = np.array([statistics.weights("0", name) for name, *_ in frames])
    counts = np.ones(len(cov)) if zero == "zero" else 1.0 * values.any(axis=1)
    assert 0 < counts.sum() <= len(counts)
    row = numbers["table"]["#ALL_SERVICES"]
    actual, (low, high) = row["schema_sensitivity"], row["schema_sensitivity_interval"]
    assert actual == numbers["schema_sensitivity"]["#ALL_SERVICES"][JGA]
    assert actual == pytest.approx(cov.sum() / counts.sum(), abs=1e-12)
    expected = np.quantile((cov @ weights) / (counts @ weights), [0.025, 0.975])
    assert (low, high) == pytest.approx(expected, abs=1e-12)
    assert low < actual < high
    original, mean = row["original"], row["variants"]
    assert row["difference"] == pytest.approx((mean - original) / original)
    assert row["difference"] < 0
    assert numbers["dialogues"]["compared"] == numbers["dialogues"]["original"] == len({name for name, *_ in frames})
    assert "dialogues that all variants have" not in (scores / "report.html").read_text()
    assert {"Libraries_2", "Repairs_1"} <= numbers["table"].keys()  # under the original's names


def test_what_is_right_on_the_original_and_always_wrong_elsewhere(place, tmp_path):
    for name, root in {"original": sample_root(), **{name: place / "variants" / name for name in VARIANTS}}.items():
        slots = {one["service_name"]: [slot["name"] for slot in one["slots"] if not slot["is_categorical"]]
                 for one in json_of(root / "test" / "schema.json")}  # fmt: skip
        for path in sorted((root / "test").glob("dialogues_*.json")):
            dialogues = json_of(path)
            for _, _, frame in user_frames(dialogues) if name != "original" else ():
                frame["state"]["slot_values"] = {slot: ["nonsense"] for slot in slots[frame["service"]][:1]}
            write(tmp_path / "predictions" / name / path.name, dialogues)
    told = run(tmp_path / "out", "--variants", place / "variants", "--predictions", tmp_path / "predictions")
    assert "variants: 0.0%, change -100.0 points (-100.0%); schema sensitivity: not defined" in told.output
    numbers = told.json("robustness.json")
    n = len(sample_dialogues())
    for name, one in numbers["sets"].items():
        expected = statistics.wilson_interval(n if name == "original" else 0, n)
        assert one["intervals"]["#ALL_SERVICES"] == pytest.approx(expected, abs=0.05)  # by their effective number
    row = numbers["variants"]["table"]["#ALL_SERVICES"]
    assert (row["schema_sensitivity"], row["schema_sensitivity_interval"]) == (0.0, None)
    assert told.text("report.html").count("not defined") > 5


def test_a_variant_that_lacks_a_dialogue(place, tmp_path):
    for folder in ("variants", "predictions"):
        shutil.copytree(place / folder, tmp_path / folder)
    lost = json_of(tmp_path / "variants" / "v2" / "test" / FILE)[0]["dialogue_id"]
    for folder in ("variants/v2/test", "predictions/v2"):
        edit(lambda dialogues: dialogues.pop(0))(tmp_path / folder)
    flags = ["--variants", tmp_path / "variants", "--predictions", tmp_path / "predictions", "--replicates", "0"]
    made = run(tmp_path / "out", *flags)
    numbers = made.json("robustness.json")["variants"]
    values = [of for (name, *_), of in joint_values(place).items() if name != lost]
    cov = [np.std(of, ddof=1) / np.mean(of) if any(of) else 0.0 for of in values]
    assert numbers["table"]["#ALL_SERVICES"]["schema_sensitivity"] == pytest.approx(np.mean(cov), abs=1e-12)
    n = numbers["dialogues"]["original"]
    assert numbers["dialogues"]["compared"] == n - 1
    said = f"Schema sensitivity is over the {n - 1} of {n} dialogues that all variants have."
    assert said in made.text("report.html")


def test_rows_and_page(scores):
    rows = [row for path in sorted((scores / "rows").rglob("*.parquet")) for row in rows_of(path)]
    for name, one in json_of(scores / "robustness.json")["sets"].items():
        of = [row for row in rows if row["set"] == name]
        assert np.mean([row[JGA] for row in of]) == pytest.approx(one["metrics"]["#ALL_SERVICES"][JGA])
        assert all(row["wrong"] for row in [row for row in of if row[JGA] < 1])
    for page in ("report.html", "failures/v1.html"):
        text = (scores / page).read_text()
        assert "A &lt;b&gt;tracker&lt;/b&gt;" in text
        assert "<b>tracker" not in text
    assert " or so" in text


def test_failures_where_turns_are_inserted_texts_are_hostile_and_there_are_many(tmp_path):
    name, evil, long = "noisy #1%", "<script>alert(1)</script>\n`../report.html`", "x" * 5000
    sample = dialogues_of(sample_root() / "test")
    dialogues = [{**one, "dialogue_id": f"{key}_{i}"} for key, one in sample.items() for i in range(4)]
    corpus = kit.corpus(tmp_path / "corpus", test=dialogues)
    write(tmp_path / "predictions" / "original" / FILE, dialogues)
    for dialogue in dialogues:
        first, second, *others = dialogue["turns"]
        dialogue["turns"] = [first, second, {**first, "utterance": evil}, {**second, "utterance": long}, *others]
    noisy = kit.corpus(tmp_path / "noisy", test=dialogues)
    for _, _, frame in user_frames(dialogues):
        frame["state"]["slot_values"] = {}
    write(tmp_path / "predictions" / name / FILE, dialogues)
    flags = ["--reference", corpus, "--sets", f"{name}={noisy}", "--predictions", tmp_path / "predictions"]
    made = run(tmp_path / "out", *flags)
    content = made.json(f"failures/{name}.json")
    failures = content["failures"]
    assert len(failures) == content["shown"] == 100
    assert {one["dialogue_id"] for one in failures[: len(dialogues)]} == {one["dialogue_id"] for one in dialogues}
    assert content["wrong"] > content["right_on_original"] > 150
    assert any(one["turn"] > 4 for one in failures)
    said = {one["dialogue_id"]: [turn["utterance"] for turn in one["turns"]] for one in dialogues}
    for failure in failures:
        assert failure["right_on_original"]
        assert failure["turn"] != 2  # the inserted one
        assert failure["original"]["utterance"] == failure["here"]["utterance"]
        assert failure["original"]["predicted"] == failure["here"]["expected"]
        turns = ["x" * 999 + "…" if text == long else text for text in said[failure["dialogue_id"]]]
        assert [text for _, text in failure["history"]] == turns[: failure["turn"]]
    page = made.text(f"failures/{name}.html")
    shown = f"This page shows 100 of {content['wrong']:,} wrong frames.", f"100 of {content['right_on_original']:,} are"
    assert not lacking(page, *shown, "&lt;script&gt;")
    assert ("<script>" in page, page.count("<article"), len(page) < 1_000_000) == (False, 100, True)
    assert 'href="failures/noisy%20%231%25.html"' in made.text("report.html")
    right = made.json("failures/original.json")
    assert (right["wrong"], right["failures"]) == (0, [])
    assert "No frame is wrong." in made.text("failures/original.html")


def test_other_layouts_and_two_workers_give_the_same(place, scores, tmp_path):
    for name in ("original", *VARIANTS):
        dialogues = list(dialogues_of(place / "predictions" / name).values())
        folder, half = tmp_path / "predictions" / name / "test", len(dialogues) // 2
        write(folder / "first.jsonl", lines_of(dialogues[half:])[::-1])
        write(folder / "rest.json", dialogues[:half])
    flags = ["--variants", place / "variants", "--predictions", tmp_path / "predictions"]
    run(tmp_path / "out", *flags, "--system", "A <b>tracker</b>", *TWO_WORKERS)
    assert files_of(tmp_path / "out") == files_of(scores)


class Copier:
    """A model that says what it has seen, or something odd."""

    def __init__(self, said="state"):
        self.said = said

    def predict(self, batch):
        assert all(isinstance(one.service, Service) and one.history[-1][0] == "USER" for one in batch)
        return ["nothing" if self.said == "text" else state() for _ in batch[self.said == "less" :]]


def test_a_model_of_ones_own(place, tmp_path):
    model = ["--model", f"{__file__}:Copier"]
    flags = ["--sets", f"again={sample_root()}", "--replicates", "0"]
    numbers = run(tmp_path / "out", *model, "--batch_size", "7", *flags).json("robustness.json")
    metrics = numbers["sets"]["original"]["metrics"]
    assert numbers["sets"]["again"]["metrics"] == metrics
    empty = sample_dialogues()
    for _, _, frame in user_frames(empty):
        frame.pop("slots")
        frame["state"] = state()
    write(tmp_path / "empty" / "dialogues_001.json", empty)
    for key, of in of_folders(sample_root(), "test", tmp_path / "empty").items():
        assert metrics[key] == pytest.approx(of)
    for odd, said in (("less", "found a list of length 49"), ("text", "something that is not a state")):
        assert said in run(tmp_path / "bad", *model, "--model_args", f"said={odd}", status=1).errors


def edit(change):
    return lambda folder: kit.edit(folder / FILE, lambda dialogues: (change(dialogues), dialogues)[1])


def score(folder, out):
    """What the command does with the predictions of the original, without a start of Beam."""
    sources = Sources(str(sample_root()), "test", predictions=str(folder))
    plan = make_plan(sources)
    config = Config(output=str(out), sources=sources, plan=plan, replicates=0)
    for job in with_parts(plan, official=False):
        ScoreFile(config)(job)


def first_frame(dialogues):
    return dialogues[0]["turns"][0]["frames"][0]


def values(dialogues):
    return first_frame(dialogues)["state"]["slot_values"]


def add_frame(dialogues, **changes):
    dialogues[0]["turns"][0]["frames"].append({**first_frame(dialogues), **changes})


def one_state(**changes):
    """A line of predictions: the right state of the first user turn, with some of its fields changed."""
    return json.dumps(lines_of(sample_dialogues(), "state")[0] | changes)


NOT_THERE = "1_00000 turns[0] Zoos_1: the schemas of the reference do not have this service"


@kit.cases(
    "change reason",
    (lambda of: of.pop(0), "there is no prediction for dialogue '"),
    (lambda of: of[0].update(dialogue_id="99_99999"), "99_99999"),
    (lambda of: of.append(of[0]), "appears twice"),
    (lambda of: of[0]["turns"].pop(), "turns, but the reference has"),
    (lambda of: of[0]["turns"][0].update(utterance="Hm"), "the utterance differs"),
    (lambda of: of[0]["turns"][0].update(frames=[]), "no frame of this service"),
    (lambda of: first_frame(of).pop("state"), "the frame has no state"),
    (lambda of: values(of).update(hue=["red"]), "no slot 'hue'"),
    (lambda of: values(of).update(city=[]), "has an empty list"),
    (lambda of: first_frame(of)["state"].update(active_intent=3), "Expected `str`, got `int`"),
    (lambda of: first_frame(of)["state"].update(active_intent=math.nan), "NaN is no value of JSON"),
    (lambda of: add_frame(of, service="Zoos_1"), f"{FILE}: {NOT_THERE}"),
    (add_frame, f"{FILE}: 1_00000 turns[0] Repairs_1: this service appears twice"),
    (f"{one_state()}\n{one_state(service='Zoos_1')}", NOT_THERE),
    ("{", "a.jsonl: line 1"),
    ('{"dialogue_id": "1", "turn": 0, "service": "X"}', "a.jsonl: line 1"),
    (one_state(dialogue_id="x"), "'x' is not in the reference of original"),
    (f"{one_state(set='original')}\n{one_state(set='v7')}", "a.jsonl: line 2: belongs to set 'v7', but is among the"),
)
def test_predictions_that_cannot_be_scored(change, reason, place, tmp_path):
    """Changed dialogues, or lines instead of them."""
    folder = tmp_path / "predictions"
    if callable(change):
        shutil.copytree(place / "predictions" / "original", folder)
        edit(change)(folder)
    else:
        write(folder / "a.jsonl", change)
    raised(InputError, score, folder, tmp_path / "out", match=re.escape(reason))


def test_flags_that_cannot_work(place, tmp_path):
    predictions, variants = ("--predictions", place / "predictions"), ("--variants", place / "variants")
    for flags, said in (
        ([], "give exactly one of the two"),
        (["--model", "json:JSONDecoder"], "no method predict"),
        ([*predictions, "--split", "tets"], "tets"),
        ([*predictions, *variants, "--variant", "v9"], "no variant 'v9'"),
        (["--predictions", place / "predictions" / "v1", *variants], "contains no predictions for"),
        ([*predictions, "--sets", f"more={sample_root()}"], "contains no predictions for more"),
        ([*predictions, "--replicates", "-1"], "0 to 100,000"),
    ):
        assert said in run(tmp_path / "out", *flags, status=2).errors, flags


def test_official_mode_passes_over_what_is_missing(place, tmp_path):
    folder = tmp_path / "predictions"
    shutil.copytree(place / "predictions" / "original", folder)
    edit(lambda of: (of.pop(0), of[0]["turns"].pop(), values(of).update(hue=["red"])))(folder)
    result = run(tmp_path / "out", "--predictions", folder, "--official", "--replicates", "0")
    assert not lacking(result.errors, "ignored 1 dialogue missing", "1 turn missing", "1 slot unknown")
    counts = {name: result.manifest["counts"][f"{name}/original"] for name in PassedOver.__struct_fields__}
    assert counts == {"missing_dialogues": 1, "missing_turns": 1, "unknown_slots": 1}


@pytest.mark.parametrize("name", ["others.json", "lines.jsonl"])
def test_workers_exchange_places_of_predictions(name, tmp_path):
    """Values may be long, and Beam keeps all that is exchanged in memory."""
    title = state(title=["\u00e9" * 100_000])
    turn = kit.turn("USER", "Hi", {"service": "Media_1", "state": title})
    line = {"dialogue_id": "1", "turn": 0, "service": "Media_1", "state": title}
    rows = [line, line] if name == "lines.jsonl" else [{"dialogue_id": str(i), "turns": [turn]} for i in range(2)]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    content = "\n".join(texts) if name == "lines.jsonl" else f"[ {' , '.join(texts)} ]"
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    parts = [part for _, part in read_parts(str(path))]
    assert [*predictions_in(parts)] == [*read_predictions(str(path))]
    assert [*predictions_in([FilePart(str(path), parts[0].start, parts[-1].end)])] == [*read_predictions(str(path))]
    assert max(len(pickle.dumps(part)) for part in parts) < 1_000


def test_dialogues_without_a_frame_to_score(tmp_path):
    """Lines need none for such a dialogue; a set of them alone is refused."""
    whole, other, *_ = sample_dialogues()
    bare = {**whole, "turns": [{**turn, "frames": []} for turn in whole["turns"]]}
    corpus = kit.corpus(tmp_path / "corpus", test=[bare, other])
    lines = write(tmp_path / "lines.jsonl", lines_of([other], "state"))
    made = run(tmp_path / "right", "--reference", corpus, "--predictions", lines)
    assert made.json("metrics.json")["#ALL_SERVICES"]["joint_goal_accuracy"] == 1.0
    corpus, other = kit.corpus(tmp_path / "bare", test=[bare]), kit.corpus(tmp_path / "other", test=[whole])
    for flags, name in (
        (["--reference", corpus, "--predictions", corpus / "test"], "original"),
        (["--reference", other, "--sets", f"bare={corpus}", "--model", "names"], "bare"),
    ):
        said = f"{corpus}: set '{name}', split 'test': no user turn has a frame, so there is nothing to score"
        assert said in run(tmp_path / "out", *flags, status=1).errors
        assert not (tmp_path / "out" / "run.json").exists()
    (tmp_path / FILE).write_text("[]")
    told = run(tmp_path / "out", "--reference", other, "--predictions", tmp_path / FILE, "--official", status=1).errors
    assert "no dialogue has a prediction, so there is nothing to score" in told
