"""Plug-ins: the example of docs/plugin_example, installed and used by the commands; and those that are broken."""

import json
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kit import holding, json_of, lacking, raised, refused, run
from plugin_packages import bring, record

import parapet
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms.perturbations.speech import engine
from parapet.transforms.running import plugins

ROOT = Path(__file__).parents[1]


def refusal(group, given, wanted=(), part=""):
    return str(raised(InputError, plugins.make, plugins.choose(group, given, "--flag"), wanted, part))


# Each: the code of a module, what is called, what is given, and what is told.
BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "made", "", "cannot be imported: RuntimeError: no licence"),
    "syntax": ("def (", "made", "", "cannot be imported: SyntaxError"),
    "needs": ("import nosuch_package", "made", "", "cannot be imported: ModuleNotFoundError"),
    "attribute": ("", "made", "", "cannot be imported: AttributeError"),
    "number": ("made = 7", "made", "", "is a int, which cannot be called"),
    "none": ("def made(): pass", "made", "=x", "takes no argument: give it alone"),
    "one": ("def made(path): pass", "made", "", "requires an argument: give it=ARGUMENT"),
    "fails": ("def made(): raise OSError('down')", "made", "", "failed: OSError: down"),
    "lacks": ("def made(): return 7", "made", "", "returned a int without predict"),
    "told": (
        "from parapet.schemas.errors import InputError\ndef made(): raise InputError('set PIG_KEY')",
        *("made", "", "set PIG_KEY"),
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_told_with_where_it_is_from(kind, site):
    code, called, argument, said = BROKEN[kind]
    bring(site, f"broken_{kind}", plugins.MODELS, "it", f"broken_{kind}:{called}", code)
    assert plugins.names(plugins.MODELS) == ["keywords", "it"]  # nothing of it is imported for that
    told = refusal(plugins.MODELS, f"it{argument}", ("predict",))
    assert told.startswith(f"--flag: the plug-in 'it' (broken_{kind} 0.3) ")
    assert said in told
    run("evaluate", task="dst", model=f"it{argument}", output=site / "out", status=2)
    assert not (site / "out").exists()


def test_a_plugin_without_the_part_that_a_flag_asks_for(site):
    code = "class Synthesiser:\n    name = 'mute'\n"
    bring(site, "broken_speech", plugins.SPEECH_ENGINES, "mute", "broken_speech", code)
    assert "has no Recogniser" in refusal(plugins.SPEECH_ENGINES, "mute", part="Recogniser")
    told = refused("speech_errors", speaker="mute", output=site / "out")
    assert "--speaker: the plug-in 'mute' (broken_speech 0.3) returned a Synthesiser without parallel, " in told
    assert "default_voice, check" in told


def test_two_plugins_of_one_name_are_told(site):
    for name in ("broken_a", "broken_b"):
        bring(site, name, plugins.METRICS, "same", f"{name}:made")
    assert plugins.names(plugins.METRICS) == ["same"]
    with pytest.raises(InputError, match=r"'same', from broken_a 0\.3 and broken_b 0\.3: uninstall one"):
        plugins.find(plugins.METRICS, "same", "--metrics")


def test_names_are_those_built_in_and_those_installed(site):
    flags = plugins.Names(plugins.TRANSLATION_ENGINES, "memory")
    assert list(flags) == ["memory", "embedded", "google", "libretranslate", "local"]
    bring(site, "broken_engine", plugins.TRANSLATION_ENGINES, "pig", "broken_engine:made", "raise RuntimeError")
    bring(site, "broken_other", plugins.TRANSLATION_ENGINES, "google", "broken_other:made")
    assert list(flags) == ["memory", "embedded", "google", "libretranslate", "local", "pig"]
    assert plugins.choose(plugins.TRANSLATION_ENGINES, "google", "--engine").plugin.built_in
    assert not lacking(flags, "pig", "pig=a=b", "memory")
    assert not holding(flags, "memory=x", None)
    chosen = plugins.find(plugins.TRANSLATION_ENGINES, "pig=a=b", "--engine")
    assert chosen is not None
    assert chosen.argument == "a=b"


def test_an_installation_older_than_the_checkout_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(
        InputError, match="not even the built-in ones are registered: install Parapet again with pip install"
    ):
        plugins.choose(plugins.DISTANCES, "levenshtein", "--name_distance")


def test_a_translation_engine_with_an_argument(example, tmp_path):
    out = tmp_path / "out"
    run("back_translate", engine="pig_latin=ay", pivots="de", output=out)
    rows = pq.read_table(out / "memory.parquet").to_pylist()
    assert {(row["provider"], row["model"]) for row in rows} == {("pig_latin", "ending-ay")}
    there = {row["text"]: row["translation"] for row in rows if row["target"] == "de"}
    assert there["day of the crossing".capitalize()] == "ofay theay crossingay Dayay"
    services = json_of(out / "de" / "train" / "schema.json")
    words = json_of(ROOT / "schemas" / "sample" / "train" / "schema.json")[0]["description"].split()
    assert services[0]["description"].split() == [*words[1:], words[0]]
    assert record(out) == [(plugins.TRANSLATION_ENGINES, "pig_latin")]


@pytest.mark.thorough
def test_a_source_of_utterances(example, tmp_path):
    out = tmp_path / "out"
    run("ood", "--source", "proverbs=6", "--split", "test", "--rates", "0.2", "--quiet", output=out)
    rows = pq.read_table(out / "ood-20" / "turns").to_pylist()
    injected = {row["source"]: row["utterance"] for row in rows if row["label"] == "ood"}
    import parapet_example

    said = list(parapet_example.proverbs("6"))
    assert len(injected) == 10
    assert all(said[int(place.removeprefix("proverbs:")) - 1] == text for place, text in injected.items())
    assert record(out) == [(plugins.OOD_SOURCES, "proverbs")]
    assert "proverbs (plug-in)" in (out / "README.md").read_text()


def test_a_file_goes_before_a_source_of_its_name(example, tmp_path, monkeypatch):
    from parapet.transforms.perturbations.ood.sources import list_sources, read_source

    assert [file.kind for file in list_sources("proverbs")] == ["plug-in"]
    monkeypatch.chdir(tmp_path)
    Path("proverbs").write_text("a line\n", encoding="utf-8")
    assert [one.text for file in list_sources("proverbs") for one in read_source(file)] == ["a line"]


def test_what_a_source_gives_that_is_no_text(site):
    from parapet.transforms.perturbations.ood.sources import list_sources, read_source

    bring(site, "broken_source", plugins.OOD_SOURCES, "odd", "broken_source:made", "made = lambda: ['a', 7, '\\ud800']")
    assert [str(one) if isinstance(one, InputError) else one.text for one in read_source(list_sources("odd")[0])] == [
        "a",
        "odd: [2]: no_utterance: expected a text, found int",
        "odd: [3]: not_unicode: the text contains a lone surrogate, which is not valid Unicode",
    ]


def test_a_metric(example, tmp_path):
    out, said = tmp_path / "out", tmp_path / "said.jsonl"
    turns = [
        {"dialogue_id": one["dialogue_id"], "turn": i, "utterance": f"{turn['utterance']} indeed"}
        for one in json_of(ROOT / "schemas" / "sample" / "dev" / "dialogues_001.json")
        for i, turn in enumerate(one["turns"])
        if turn["speaker"] == "SYSTEM"
    ]
    said.write_text("\n".join(map(json.dumps, turns)), encoding="utf-8")
    flags = ["--split", "dev", "--predictions", str(said), "--metrics", "word_overlap", "--no_validation"]
    told = run("evaluate", *flags, task="generation", output=out).output
    expected = []
    for turn in turns:
        words = set(turn["utterance"].removesuffix(" indeed").lower().split())
        expected.append(len(words) / len(words | {"indeed"}))
    value = json_of(out / "metrics.json")["#ALL"]["word_overlap"]
    assert value == pytest.approx(sum(expected) / len(expected))
    rows = [row for row in pq.read_table(out / "rows.parquet").to_pylist() if row["kind"] == "turn"]
    assert sorted(row["word_overlap"] for row in rows) == pytest.approx(sorted(expected))
    assert f"word_overlap {100 * value:.2f}%" in told
    assert "word_overlap" in (out / "report.html").read_text()
    assert record(out) == [(plugins.METRICS, "word_overlap")]


WRONG_METRICS = {
    "few": ("[1.0]", "returned 1 values for "),
    "high": ("[1.5] * len(said)", "returned a value that is not between 0 and 1 for "),
    "nan": ("[float('nan')] * len(said)", "returned a value that is not between 0 and 1 for "),
    "text": ("['good'] * len(said)", "returned a value that is not between 0 and 1 for "),
}


@pytest.mark.parametrize("kind", WRONG_METRICS)
def test_a_metric_that_gives_no_shares(kind, site, tmp_path):
    given, told = WRONG_METRICS[kind]
    code = f"class Made:\n    def score(self, said, references):\n        return {given}\n"
    bring(site, f"broken_{kind}", plugins.METRICS, "odd", f"broken_{kind}:Made", code)
    flags = ["--split", "dev", "--predictions", "reference", "--metrics", "odd", "--no_validation"]
    said = refused("evaluate", *flags, task="generation", output=tmp_path / "out", status=1)
    assert f"the plug-in 'odd' (broken_{kind} 0.3) {told}" in said


def test_a_metric_cannot_have_a_name_that_is_taken(site):
    for name in ("bleu", "kind"):
        code = "class Made:\n    def score(self, said, references): ..."
        bring(site, f"broken_{name}", plugins.METRICS, name, f"broken_{name}:Made", code)
        flags = ["--predictions", "reference", "--metrics", name]
        told = refused("evaluate", *flags, task="generation", output=site / "out")
        assert "the rows have a column of that name" in told


@pytest.mark.thorough
def test_a_speech_engine(example, tmp_path):
    out = tmp_path / "out"
    run("speech_errors", "--engine", "modem", "--wer", "0.2", "--snr", "9,7,5", "--sample", "15", "--quiet", output=out)
    assert json_of(out / "statistics.json")["sets"]["SR-20"]["wer"] == pytest.approx(0.2, abs=0.02)
    options = json_of(out / "run.json")["options"]
    assert (options["synthesiser"], options["recogniser"]) == ("modem 1", "modem 1")
    assert record(out) == [(plugins.SPEECH_ENGINES, "modem")]


@pytest.mark.thorough
def test_two_processes_write_the_same(example, tmp_path):
    for name, more in (("one", []), ("two", ["--direct_running_mode=multi_processing", "--direct_num_workers=2"])):
        run("ood", "--source", "proverbs=6", "--rates", "0.1", "--quiet", *more, output=tmp_path / name)
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


PERTURBATION = "import parapet\nclass Made(parapet.Perturbation):\n    name = {name!r}\n    perturb = {perturb}\n"
WRONG_PERTURBATIONS = {
    "function": ("def Made(): pass", "is not a subclass of parapet.Perturbation"),
    "name": (
        PERTURBATION.format(name="other", perturb="print"),
        "has a different name in its class: add the line name",
    ),
    "nameless": ("import parapet\nclass Made(parapet.Perturbation): pass", "has a different name in its class"),
    "syntax": ("class Made(:", "cannot be imported: SyntaxError"),
    "lookup": ("{}['key']", "cannot be imported: KeyError: 'key'"),
}


@pytest.mark.parametrize("kind", WRONG_PERTURBATIONS)
def test_a_perturbation_that_cannot_be_used(kind, site):
    code, reason = WRONG_PERTURBATIONS[kind]
    bring(site, f"broken_{kind}", plugins.PERTURBATIONS, "odd", f"broken_{kind}:Made", code)
    caught = raised(InputError, parapet.perturb, parapet.load_corpus(), "odd", match="odd")
    assert not lacking(str(caught), f"the plug-in 'odd' (broken_{kind} 0.3) ", reason)
    assert parapet.perturb(parapet.load_corpus(), "typos").rows.num_rows  # the others are as they were


def test_two_perturbations_of_one_name(site):
    for name in ("broken_a", "broken_b"):
        bring(site, name, plugins.PERTURBATIONS, "same", f"{name}:Made")
    with pytest.raises(InputError, match=r"'same', from broken_a 0\.3 and broken_b 0\.3: uninstall one"):
        parapet.perturb(parapet.load_corpus(), "same")


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


def plainly_mentioned(folder):
    """The intent of each user frame; and of those with categorical values the share that was mentioned last."""
    slots = {
        (service["service_name"], slot["name"]): slot["possible_values"]
        for service in json_of(folder / "schema.json")
        for slot in service["slots"]
        if slot["is_categorical"]
    }
    intents, accuracies = [], []
    for dialogue in json_of(folder / "dialogues_001.json"):
        said: list[str] = []
        for turn in dialogue["turns"]:
            said.append(turn["utterance"].lower())
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                intents.append(frame["state"]["active_intent"])
                right = []
                for slot, wanted in frame["state"]["slot_values"].items():
                    if (frame["service"], slot) in slots:
                        values = slots[frame["service"], slot]
                        heard = [value for text in said for value in values if value.lower() in text]
                        right.append(heard[-1:] == wanted[:1])
                accuracies += [sum(right) / len(right)] if right else []
    return intents, accuracies


def test_a_model(example, tmp_path):
    out = tmp_path / "out"
    flags = ["--split", "dev", "--model", "mention", "--replicates", "0", "--quiet"]
    metrics = run("evaluate", "--task", "dst", *flags, "--output", out).json("metrics.json")["#ALL_SERVICES"]
    intents, accuracies = plainly_mentioned(ROOT / "schemas" / "sample" / "dev")
    assert metrics["active_intent_accuracy"] == intents.count("NONE") / len(intents)  # it always says NONE
    assert metrics["average_cat_accuracy"] == pytest.approx(sum(accuracies) / len(accuracies))
    assert (metrics["average_noncat_accuracy"], record(out)) == (0, [(plugins.MODELS, "mention")])


def test_a_perturbation_that_is_built_in_goes_before_a_plugin_of_its_name(site):
    bring(site, "broken_typos", plugins.PERTURBATIONS, "typos", "broken_typos:Made", "raise RuntimeError")
    assert parapet.perturbations()["typos"].__module__.startswith("parapet.")


def test_the_speech_engine_hears_what_it_says(example):
    chosen = engine.choose("speaker", "modem")
    speaker = engine.make("speaker", chosen, {})
    listener = engine.make("listener", engine.choose("listener", "modem"), {})
    text = "a table for two at 7 o'clock"
    assert (listener.hear(speaker.speak(text, speaker.default_voice)), chosen.plugin.name) == (text, "modem")
    raised(InputError, speaker.check, ["plain", "fancy"], match="no voice of the modem")
