"""``parapet evaluate --task generation`` as a person runs it."""

import pytest
from generation_toy import write_toy
from kit import cases, lacking, refused, run, sample_dialogues, write
from kit import corpus as corpus_of

from parapet.evaluation.generation import corpus


def evaluate(out, *flags, status=0, **more):
    return run("evaluate", *flags, task="generation", output=out, status=status, **more)


@pytest.fixture(scope="module")
def corpus_scores(sample, tmp_path_factory):
    """The scores of the corpus's own system turns."""
    flags = {"reference": sample, "split": "test", "predictions": "reference"}
    return evaluate(tmp_path_factory.mktemp("own") / "out", **flags)


def test_without_validation_every_turn_counts(sample, corpus_scores, tmp_path):
    plain = evaluate(tmp_path / "plain", "--no_validation", reference=sample, predictions="reference")
    details, validated = plain.json("details.json"), corpus_scores.json("details.json")
    assert (details["tampered_references"], list(validated["tampered_references"])) == ({}, ["original"])
    turns, acts = details["coverage"]["turns"], details["coverage"]["acts"]
    assert (turns["valid"], acts["valid"]) == (turns["turns"], acts["acts"])
    assert turns["valid"] > validated["coverage"]["turns"]["valid"]
    of_all = plain.json("metrics.json")["#ALL"]
    assert of_all["sgsacc"] == of_all["sgsacc_all"] < 1
    assert "Turns were not validated" in plain.text("report.html")


TEMPLATES = """\
REQUEST!!city\tWhich city ?
CONFIRM!!city!!@\tYou want @ ?
OFFER!!cafe_name!!@\t@ is nice .
REQ_MORE\tAnything else ?
INFORM_COUNT!!count!!@\tI have @ cafes .
INFORM!!has_garden!!True\tThey have a garden .
INFORM!!has_garden!!False\tThere is no garden .
"""


def test_templates_are_references(tmp_path):
    """As in semantic accuracy before SGSAcc (Chen, Lin and Byrne 2023, section 1)."""
    folder, toy = tmp_path / "templates", write_toy(tmp_path / "toy")
    flags = {"reference": toy, "predictions": "reference", "templates": folder}

    def scored(name, templates, *more):
        write(folder / "Cafes_1.tsv", templates)
        ran = evaluate(tmp_path / name, *more, **flags)
        acts = {row["reference"] for row in ran.rows() if row["kind"] == "act"}
        return ran, acts, ran.json("metrics.json")["#ALL"]

    right, sentences, metrics = scored("right", TEMPLATES)
    assert {"Which city ?", "You want Oslo ?", "Opa is nice .", "There is no garden .", "I have 5 cafes ."} <= sentences
    assert right.json("details.json")["rules"] == "templates"
    assert "have no template" not in right.errors
    assert "semantic accuracy, not SGSAcc." in right.text("report.html")
    # Sentences that the corpus does not say.
    _, _, others = scored("others", TEMPLATES.replace("is nice", "serves good coffee"), "--no_validation")
    assert others["sgsacc_all"] < metrics["sgsacc_all"] - 0.1
    few, sentences, _ = scored("few", TEMPLATES.partition("\n")[2])
    assert "6 of 36 acts have no template and are judged by sentences of the rules, such as REQUEST!!city" in few.errors
    assert "Request city" in sentences
    for more, reason in (
        ({"variants": toy}, "--templates: cannot be used with --variants: templates do not depend on the schema"),
        ({"templates": toy}, "contains no templates: expected a folder with SERVICE.tsv"),
    ):
        assert reason in evaluate(tmp_path / "no", **flags | more, status=2).errors


@cases("flags said",
        (["--predictions", "reference", "--scorer", "nli"], "--nli_model: is required: give a folder with a model"),
        (["--predictions", "reference", "--nli_model", "x"], "--nli_model: requires --scorer nli"),
        (["--predictions", "reference", "--scorer", "nli", "--nli_model", "org/name"], "org/name: --nli_model: "),
        (["--predictions", "reference", "--split", "prod"], "there are no dialogues in 'prod'"),
        ([], "required: --predictions"),)  # fmt: skip
def test_flags_that_cannot_work(sample, tmp_path, flags, said):
    assert said in refused("evaluate", *flags, task="generation", reference=sample, output=tmp_path / "out")


def without_actions(dialogues):
    return [{**one, "turns": [{**turn, "frames": []} for turn in one["turns"]]} for one in dialogues]


def with_a_strange_service(dialogues):
    dialogues[0]["turns"][1]["frames"][0]["service"] = "Nobody_1"
    return dialogues


@cases(
    "change reason",
    (without_actions, "no system turn has an action"),
    (with_a_strange_service, "turns[1].frames[0]: the schema of the split has no service 'Nobody_1'"),
    (lambda dialogues: [dialogues[0], {"dialogue_id": 3}], "[1]"),
)
def test_a_corpus_that_cannot_be_scored(tmp_path, change, reason):
    reference = corpus_of(tmp_path / "corpus", test=change(sample_dialogues()))
    assert reason in evaluate(tmp_path / "out", reference=reference, predictions="reference", status=2).errors


def test_with_a_model(sample, tmp_path):
    pytest.importorskip("torch", reason="the extra 'local' is not installed")
    from tiny_checkpoints import save_roberta

    cache, model = tmp_path / "judgements", {"scorer": "nli", "nli_model": save_roberta(tmp_path / "roberta")}
    flags = {"reference": sample, "predictions": "reference", "cache": cache, **model}
    first = evaluate(tmp_path / "first", **flags)
    judged = cache.read_bytes()
    again = evaluate(tmp_path / "second", **flags).files
    assert cache.read_bytes() == judged  # nothing was asked again
    assert all(again[name] == first.files[name] for name in ("metrics.json", "details.json", "rows.parquet"))
    details = first.json("details.json")
    assert details["scorer"]["name"] == "nli"
    assert details["scorer"]["model"].startswith("roberta@")
    assert 0 < details["coverage"]["acts"]["valid"] < details["coverage"]["acts"]["acts"]
    assert "Judged by a model of natural language inference: roberta@" in first.text("report.html")


@pytest.mark.thorough
def test_on_sgd(real_data, tmp_path):
    """The lexical scorer on SGD: nearly all acts count, and wrong values are seen."""
    root = real_data / "sgd"
    read_in = corpus.read(root, "train")
    lines = []
    for turn in read_in.turns:
        said = turn.utterance
        for i, act in enumerate(turn.acts):
            other = corpus.tampered(act, read_in.pools, "another seed", turn.dialogue_id, str(turn.turn), str(i))
            if other is not None and act.kind == "free":
                said = said.replace(act.values[0], other.values[0])
        lines.append({"dialogue_id": turn.dialogue_id, "turn": turn.turn, "utterance": said})
    path = write(tmp_path / "said.jsonl", lines)
    made = evaluate(tmp_path / "out", reference=root, split="train", predictions=path)
    details, of_all = made.json("details.json"), made.json("metrics.json")["#ALL"]
    assert details["coverage"]["acts"]["acts"] == 2506
    assert details["coverage"]["turns"]["share_valid"] > 0.95
    assert details["tampered_references"]["original"]["f1"] > 0.98
    by_type = details["by_slot_type"]
    assert by_type["free"]["sgsacc_acts"] < 0.5 < 0.95 < by_type["boolean"]["sgsacc_acts"]
    assert of_all["slot_error_rate"] > 0.4


def test_the_corpus_against_itself(corpus_scores):
    of_all, details = corpus_scores.json("metrics.json")["#ALL"], corpus_scores.json("details.json")
    # Of what the ground truth entails, the ground truth says all.
    assert (of_all["sgsacc"], of_all["sgsacc_acts"], of_all["slot_error_rate"]) == (1.0, 1.0, 0.0)
    assert of_all["bleu"] == pytest.approx(100)
    assert (details["scorer"], details["rules"]) == ({"name": "lexical", "model": "lexical-2"}, "paper")
    assert details["coverage"]["acts"]["share_entailed"] == of_all["sgsacc_acts_all"]
    assert details["coverage"]["acts"]["share_valid"] > 0.85
    turns = details["coverage"]["turns"]
    assert turns["turns"] == details["turns"]
    assert turns["valid"] / turns["turns"] == turns["share_valid"] > 0.7
    assert details["agreement"]["share"] == 1.0
    assert sum(one["turns"] for one in details["by_service"].values()) == turns["turns"]
    assert details["tampered_references"]["original"]["f1"] > 0.9
    assert corpus_scores.output.startswith("scorer: lexical (lexical-2)\n")
    page = corpus_scores.text("report.html")
    assert not lacking(page, "Judged by the lexical scorer: rules on words", "SGSAcc (lexical)")
    assert corpus_scores.manifest["options"]["own_turns"] is True
