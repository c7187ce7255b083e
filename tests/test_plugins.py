"""Plug-ins: the example of docs/plugin_example, installed and used by the commands; and those that are broken."""

import re
import sys
from pathlib import Path

import kit
import pyarrow.parquet as pq
import pytest
from kit import argv_of, cases, files_of, holding, json_of, lacking, raised, refused, run, write
from plugin_packages import bring, record

import parapet
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.core import plugins
from parapet.transforms.perturb.speech import engine

ROOT = Path(__file__).parents[1]


def perturbed_by(name, output):
    """The error of a perturbation that cannot be used; the others are as they were."""
    assert parapet.perturb(parapet.load_corpus(), "typos").rows.num_rows
    return str(raised(InputError, parapet.perturb, parapet.load_corpus(), name, match=name))


def scored_by(name, output):
    flags = ["--split", "dev", "--predictions", "reference", "--metrics", name, "--no_validation"]
    return refused("evaluate", *flags, task="generation", output=output, status=(1, 2))


# How a plug-in of each kind is asked for: the error.
USES = {
    plugins.MODELS: lambda name, output: refused("evaluate", task="dst", model=name, output=output),
    plugins.METRICS: scored_by,
    plugins.PERTURBATIONS: perturbed_by,
    plugins.DISTANCES: lambda name, output: str(raised(InputError, parapet.rank, "a", ["b"], by=name)),
    plugins.VETTING_RULES: lambda name, output: refused("compose", vetting_rules=name, output=output, status=(1, 2)),
}
INPUT_ERROR = "from parapet.schemas.errors import InputError\ndef made(): raise InputError('set PIG_KEY')"
METRIC = "class made:\n    def score(self, said, references):\n        return {}\n"
PERTURBATION = "import parapet\nclass made(parapet.Perturbation):\n    perturb = print\n    {}\n"
DISTANCE = "def made():\n    return lambda first, second: {}\n"
RULE = "class Rule:\n    {}\n    def __call__(self, answer): return {}\nmade = Rule\n"
WHOLE_RULE = "action = 'reject'; explanation = 'x'"
OTHER_NAME = "has a different name in its class"
NO_NUMBER = "expected a number of 0 or more"
NO_SHARE = "returned a value that is not between 0 and 1 for "
TAKEN = "the rows have a column of that name"
NO_ACTION = "has the action 'drop': must be 'reject' or 'review'"
NO_EXPLANATION = "returned a Rule without explanation: see docs/plugins.md"
NO_REASON = "has a name that cannot be used as a reason"


@cases(
    "group given code said",
    (plugins.MODELS, "it", "raise RuntimeError('no licence')", "cannot be imported: RuntimeError: no licence"),
    (plugins.MODELS, "it", "import nosuch_package", "cannot be imported: ModuleNotFoundError"),
    (plugins.MODELS, "it", "", "cannot be imported: AttributeError"),
    (plugins.MODELS, "it", "made = 7", "is a int, which cannot be called"),
    (plugins.MODELS, "it=x", "def made(): pass", "takes no argument: give it alone"),
    (plugins.MODELS, "it", "def made(path): pass", "requires an argument: give it=ARGUMENT"),
    (plugins.MODELS, "it", "def made(): raise OSError('down')", "failed: OSError: down"),
    (plugins.MODELS, "it", "def made(): return 7", "returned a int without predict"),
    (plugins.MODELS, "it", INPUT_ERROR, "set PIG_KEY"),
    (plugins.METRICS, "odd", METRIC.format("[1.0]"), "returned 1 values for "),
    (plugins.METRICS, "odd", METRIC.format("[1.5] * len(said)"), NO_SHARE),
    (plugins.METRICS, "odd", METRIC.format("[float('nan')] * len(said)"), NO_SHARE),
    (plugins.METRICS, "bleu", METRIC.format("..."), TAKEN),
    (plugins.PERTURBATIONS, "odd", "def made(): pass", "is not a subclass of parapet.Perturbation"),
    (plugins.PERTURBATIONS, "odd", PERTURBATION.format("name = 'other'"), f"{OTHER_NAME}: add the line name"),
    (plugins.PERTURBATIONS, "odd", "{}['key']", "cannot be imported: KeyError: 'key'"),
    (plugins.DISTANCES, "odd_nan", DISTANCE.format("float('nan')"), f"returned nan for 'a' and 'b': {NO_NUMBER}"),
    (plugins.DISTANCES, "odd_fails", DISTANCE.format("1 / 0"), "failed: ZeroDivisionError: division by zero"),
    (plugins.VETTING_RULES, "drops", RULE.format("action = 'drop'; explanation = 'x'", False), NO_ACTION),
    (plugins.VETTING_RULES, "lacks", RULE.format("action = 'reject'", False), NO_EXPLANATION),
    (plugins.VETTING_RULES, "blank", RULE.format(WHOLE_RULE, False), NO_REASON),
    (plugins.VETTING_RULES, "Odd", RULE.format(WHOLE_RULE, False), NO_REASON),
    (plugins.VETTING_RULES, "divides", RULE.format(WHOLE_RULE, "1 / 0"), "failed: ZeroDivisionError: division by zero"),
)
def test_a_broken_plugin_is_told_with_where_it_is_from(group, given, code, said, site):
    name = given.partition("=")[0]
    bring(site, "broken_it", group, name, "broken_it:made", code)
    assert not lacking(USES[group](given, site / "out"), f"the plug-in '{name}' (broken_it 0.3) ", said)
    assert group != plugins.MODELS or not (site / "out").exists()


def test_a_plugin_without_the_part_that_a_flag_asks_for(site):
    bring(site, "broken_speech", plugins.SPEECH_ENGINES, "mute", "broken_speech", "class Synthesiser: name = 'mute'\n")
    chosen = plugins.choose(plugins.SPEECH_ENGINES, "mute", "--flag")
    raised(InputError, plugins.make, chosen, (), "Recogniser", match="has no Recogniser")
    told = refused("speech_errors", speaker="mute", output=site / "out")
    assert "--speaker: the plug-in 'mute' (broken_speech 0.3) returned a Synthesiser without parallel, " in told
    assert "default_voice, check" in told


@cases(
    "group find",
    (plugins.METRICS, lambda: plugins.find(plugins.METRICS, "same", "--metrics")),
    (plugins.PERTURBATIONS, lambda: parapet.perturb(parapet.load_corpus(), "same")),
)
def test_two_plugins_of_one_name_are_told(group, find, site):
    for name in ("broken_a", "broken_b"):
        bring(site, name, group, "same", f"{name}:made")
    assert "same" in plugins.names(group)
    raised(InputError, find, match=r"'same', from broken_a 0\.3 and broken_b 0\.3: uninstall one")


def test_names_are_those_built_in_and_those_installed(site):
    flags = plugins.Names(plugins.TRANSLATION_ENGINES, "memory")
    assert list(flags) == ["memory", "embedded", "google", "local"]
    bring(site, "broken_engine", plugins.TRANSLATION_ENGINES, "pig", "broken_engine:made", "raise RuntimeError")
    bring(site, "broken_other", plugins.TRANSLATION_ENGINES, "google", "broken_other:made")
    assert list(flags) == ["memory", "embedded", "google", "local", "pig"]
    assert plugins.choose(plugins.TRANSLATION_ENGINES, "google", "--engine").plugin.built_in
    assert not lacking(flags, "pig", "pig=a=b", "memory")
    assert not holding(flags, "memory=x", None)
    assert plugins.find(plugins.TRANSLATION_ENGINES, "pig=a=b", "--engine").argument == "a=b"


def test_an_installation_older_than_the_checkout_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    told = "not even the built-in ones are registered: install Parapet again with pip install"
    raised(InputError, plugins.choose, plugins.DISTANCES, "levenshtein", "--name_distance", match=told)


def test_a_translation_engine_with_an_argument(example, tmp_path):
    out = tmp_path / "out"
    run("back_translate", engine="pig_latin=ay", pivots="de", output=out)
    rows = pq.read_table(out / "memory.parquet").to_pylist()
    assert {(row["provider"], row["model"]) for row in rows} == {("pig_latin", "ending-ay")}
    there = {row["text"]: row["translation"] for row in rows if row["target"] == "de"}
    assert there["Day of the crossing."] == "ofay theay crossing.ay Dayay"
    # "of the crossing. Day" is refused.
    audit = pq.read_table(out / "translations.parquet").to_pylist()
    fates = {(row["reason"], row["emitted"]) for row in audit if row["text"] == "Day of the crossing."}
    assert fates == {("other_words", "Day of the crossing")}
    assert record(out) == [(plugins.TRANSLATION_ENGINES, "pig_latin")]


def test_a_metric(example, tmp_path):
    texts = ("Hello there!", "North or south of it?")
    turns = [kit.turn("SYSTEM", text, kit.frame("Inns_1", kit.act("GOODBYE"))) for text in texts]
    root = kit.corpus(tmp_path / "sgd", [kit.service("Inns_1", [])], dev=[kit.dialogue("1_00000", *turns)])
    said = [{"dialogue_id": "1_00000", "turn": i, "utterance": f"{text} indeed"} for i, text in enumerate(texts)]
    predictions = write(tmp_path / "said.jsonl", said)
    flags = argv_of("--no_validation", split="dev", reference=root, predictions=predictions, metrics="word_overlap")
    made = run("evaluate", *flags, task="generation", output=tmp_path / "out")
    expected = [2 / 3, 5 / 6]
    value = made.json("metrics.json")["#ALL"]["word_overlap"]
    assert value == pytest.approx(sum(expected) / 2)
    assert [row["word_overlap"] for row in made.rows() if row["kind"] == "turn"] == pytest.approx(expected)
    assert f"word_overlap {100 * value:.2f}%" in made.output
    assert "word_overlap" in made.text("report.html")
    assert record(made.folder) == [(plugins.METRICS, "word_overlap")]


@pytest.mark.thorough
def test_a_speech_engine(example, tmp_path):
    out = tmp_path / "out"
    run("speech_errors", "--engine", "modem", "--wer", "0.2", "--snr", "9,7,5", "--quiet", output=out)
    assert json_of(out / "statistics.json")["sets"]["SR-20"]["wer"] == pytest.approx(0.2, abs=0.02)
    options = json_of(out / "run.json")["options"]
    assert (options["synthesiser"], options["recogniser"]) == ("modem 1", "modem 1")
    assert record(out) == [(plugins.SPEECH_ENGINES, "modem")]


@pytest.mark.thorough
def test_two_processes_write_the_same(example, tmp_path):
    for name, more in (("one", []), ("two", ["--direct_running_mode=multi_processing", "--direct_num_workers=2"])):
        run("perturb", "dropped_articles", "--quiet", *more, output=tmp_path / name)
    assert (tmp_path / "one" / "run.json").read_bytes() == (tmp_path / "two" / "run.json").read_bytes()


def test_a_perturbation_in_a_pipeline(example):
    import apache_beam as beam
    from apache_beam.testing.util import assert_that, equal_to

    original = parapet.load_corpus(sample_root() / "test")
    expected = parapet.perturb(original, "dropped_articles", seed=3)
    with beam.Pipeline() as pipeline:
        dialogues = pipeline | beam.Create([*original.dialogues()])
        outputs = dialogues | parapet.beam.Perturb("dropped_articles", seed=3).with_outputs()
        assert_that(outputs.dialogues, equal_to([*expected.dialogues()]), "dialogues")
        assert_that(outputs.rows, equal_to(expected.rows.to_pylist()), "rows")


def test_the_page_on_perturbations(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    section = re.search(r"^## A perturbation\n(.*)", page, re.M | re.S)
    assert section
    first, second = re.findall(r"^```python\n(.*?)^```$", section[1], re.M | re.S)
    names = {}
    exec(compile(first, "docs/plugins.md", "exec"), names)
    expected = parapet.perturb(parapet.load_corpus(), "dropped_articles", rate=0.8, seed=1)
    assert capsys.readouterr().out == f"{expected.rows.to_pylist()[0]}\n"
    assert [*parapet.load_corpus("without_articles").dialogues()] == [*expected.dialogues()]
    assert (tmp_path / "without_articles" / "turns" / "test" / "dialogues_001.parquet").is_file()
    exec(compile(second, "docs/plugins.md", "exec"), names)
    rows = parapet.perturb(parapet.load_corpus(sample_root() / "test"), "dropped_articles", rate=0.8, seed=1).rows
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(map(str, rows.to_pylist()))


def test_a_model(example, tmp_path):
    """Of the values that the second user wants the model has heard one as the last of its slot."""
    slots = [kit.slot("area", "", "north", "south"), kit.slot("price", "", "cheap", "dear"), kit.slot("name")]
    schema = [kit.service("Inns_1", slots, [kit.intent("FindInn", area="")])]
    wanted = kit.state("FindInn", area=["south"], price=["dear"], name=["Inn"])
    turns = [
        kit.turn("USER", "Hello!", kit.frame("Inns_1", state=kit.state())),
        kit.turn("SYSTEM", "North or south?", kit.frame("Inns_1")),
        kit.turn("USER", "A cheap inn in the South, please.", kit.frame("Inns_1", state=wanted)),
    ]
    root = kit.corpus(tmp_path / "sgd", schema, train=[], dev=[kit.dialogue("1_00000", *turns)])
    flags = argv_of(task="dst", split="dev", model="mention", reference=root, replicates=0, quiet=True)
    made = run("evaluate", *flags, output=tmp_path / "out")
    metrics = made.json("metrics.json")["#ALL_SERVICES"]
    assert metrics["active_intent_accuracy"] == 1 / 2  # it always says NONE
    assert (metrics["average_cat_accuracy"], metrics["average_noncat_accuracy"]) == (1 / 2, 0)
    assert record(made.folder) == [(plugins.MODELS, "mention")]


def test_a_perturbation_that_is_built_in_goes_before_a_plugin_of_its_name(site):
    bring(site, "broken_typos", plugins.PERTURBATIONS, "typos", "broken_typos:Made", "raise RuntimeError")
    assert parapet.perturbations()["typos"].__module__.startswith("parapet.")


def test_the_speech_engine_hears_what_it_says(example):
    chosen = plugins.choose(plugins.SPEECH_ENGINES, "modem", "--engine")
    speaker, listener = (
        plugins.make(chosen, plugins.members(protocol), protocol.__name__, {})
        for protocol in (engine.Synthesiser, engine.Recogniser)
    )
    text = "a table for two at 7 o'clock"
    assert (listener.hear(speaker.speak(text, speaker.default_voice)), chosen.plugin.name) == (text, "modem")
    raised(InputError, speaker.check, ["plain", "fancy"], match="no voice of the modem")


# Distances and vetting rules.

CROWD = ROOT / "schemas" / "sample" / "crowd"


def test_a_distance_ranks(example, tmp_path):
    import parapet_example

    names = ["city_of_show", "event_city", "town"]
    expected = [(parapet_example.Ngrams("3")("city_of_event", name), name) for name in names]
    assert parapet.rank("city_of_event", names[::-1], by="ngrams=3") == expected
    out = tmp_path / "out"
    run("compose", name_distance="ngrams=3", decisions=CROWD / "decisions.csv", output=out)
    rows = [row for row in pq.read_table(out / "responses.parquet").to_pylist() if row["disposition"] == "used"]
    slots = [row for row in rows if row["field"] == "name" and "/slot/" in row["element_id"]]
    assert len(slots) > 50
    for row in slots:
        assert row["distance"] == parapet_example.Ngrams("3")(row["element_id"].split("/")[2], row["canonical"])
    assert record(out) == [(plugins.DISTANCES, "ngrams")]
    assert json_of(out / "run.json")["options"]["names"] == "ngrams distance"


def test_a_distance_that_is_not_there(site):
    assert "invalid choice: 'cosine' (choose from " in refused("compose", name_distance="cosine", output=site / "out")
    told = refused("compose", name_distance="jaccard=x", output=site / "out")
    assert "name_distance: jaccard takes no argument: give jaccard alone" in told


def answers_with(place, text):
    """The sample's descriptions, of which one says something else; gives its file."""
    lines = (CROWD / "descriptions.csv").read_text(encoding="utf-8")
    before = next(row["text"] for row in composed(place / "before") if row["field"] == "description")
    assert before in lines
    return write(place / "descriptions.csv", lines.replace(before, text, 1))


def composed(out, *flags):
    run("compose", *flags, output=out)
    rows = pq.read_table(out / "responses.parquet").to_pylist()
    return [row for row in rows if flags or row["disposition"] == "used"]


def test_a_vetting_rule_takes_part_when_it_is_named(example, tmp_path):
    text = "The thing that our company wants"
    files = [str(CROWD / "names.csv"), str(answers_with(tmp_path, text))]
    flags = ["--schemas", str(ROOT / "schemas" / "sample"), "--responses", *files]
    (row,) = [row for row in composed(tmp_path / "unasked", *flags) if row["text"] == text]
    assert row["disposition"] != "review"
    assert "plugins" not in json_of(tmp_path / "unasked" / "run.json")
    out = tmp_path / "out"
    (row,) = [row for row in composed(out, *flags, "--vetting_rules", "first_person") if row["text"] == text]
    assert (row["disposition"], row["reason"]) == ("review", "first_person")
    assert "Speaks of the worker: I, me, my, we, our." in (out / "review.csv").read_text()
    assert "Speaks of the worker" in (out / "report.html").read_text()
    assert record(out) == [(plugins.VETTING_RULES, "first_person")]
    assert "is named twice" in refused("compose", vetting_rules="first_person,first_person", output=tmp_path / "twice")
    assert json_of(out / "statistics.json")["method"]["vetting rules"] == "first_person"
    parapet.compose(ROOT / "schemas" / "sample", files, vetting_rules="first_person").save(tmp_path / "saved")
    assert files_of(tmp_path / "saved") == files_of(out)
