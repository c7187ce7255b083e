"""Every public name has a docstring whose examples hold; the blocks of ``docs/python.md`` run in order."""

import doctest
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit import THOROUGH, raised

import parapet
import parapet.beam
from parapet.transforms.perturb.corpora import Corpus

# Names that need no example of their own: an error, a record, and classes that functions give.
WITHOUT = {"InputError", "Perturbed", "Corpus", "PerturbedCorpus", "Composition", "Scores"}

LONG = () if THOROUGH else ("parapet.compose", "parapet.beam.ScoreStates", "parapet.beam.Perturb")
PUBLIC = {
    **{f"parapet.{name}": getattr(parapet, name) for name in parapet.__all__},
    **{f"parapet.beam.{name}": getattr(parapet.beam, name) for name in parapet.beam.__all__},
}


@pytest.mark.parametrize("name", sorted(name for name in PUBLIC if callable(PUBLIC[name]) and name not in LONG))
@pytest.mark.usefixtures("bundled_sample")
def test_the_examples_of_a_public_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = PUBLIC[name]
    assert inspect.getdoc(found), name
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder().find(found, name, importlib.import_module(found.__module__)):
        runner.run(example)
    assert not runner.failures
    assert name.rpartition(".")[2] in WITHOUT or runner.tries


def test_the_public_names_are_those_that_it_lists():
    assert set(parapet.__all__) == set(parapet._PLACES)
    assert {*parapet.__all__, "beam"} <= set(dir(parapet))
    assert parapet.__version__
    raised(AttributeError, lambda: parapet.perturbe, match="no attribute 'perturbe'")


LOADED = """
import sys
before = set(sys.modules)
import parapet
heavy = {"apache_beam", "pyarrow", "numpy", "spacy", "nltk", "torch", "msgspec", "orjson", "jinja2"}
assert not heavy & (set(sys.modules) - before), heavy & set(sys.modules)
corpus = parapet.load_corpus()
assert sum(1 for _ in corpus.dialogues("test"))
from parapet.evaluation.dst.trackers import Names
parapet.score_states(corpus, Names()).frames
assert "apache_beam" not in sys.modules
"""


def test_the_import_loads_nothing_heavy_and_only_pipelines_need_beam():
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


COMPOSED = """
import sys
from parapet import compose
made = compose(sys.argv[1], sys.argv[1] + "/crowd/names.csv")
made.statistics, made.shortfall
made.save(sys.argv[2])
"""


@pytest.mark.thorough
def test_a_composition_prints_nothing(sample, tmp_path):
    command = [sys.executable, "-c", COMPOSED, str(sample), str(tmp_path / "out")]
    done = subprocess.run(command, check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


UNINSTALLED = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in getattr(finder, "__name__", repr(finder))]
import parapet
assert parapet.load_corpus().splits == ("train", "dev", "test")
import parapet.pipelines.main
"""


def test_it_runs_in_a_checkout_that_is_not_installed():
    subprocess.run([sys.executable, "-c", UNINSTALLED], check=True, cwd=Path(parapet.__file__).parents[1])


PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"^```python run\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.usefixtures("bundled_sample")
def test_the_blocks_run_in_order(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "my_corpus")
    for path in (sample / "crowd").iterdir():
        shutil.copy(path, tmp_path)
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert isinstance(names["corpus"], Corpus)
    assert capsys.readouterr().out.splitlines() == [
        "('train', 'dev', 'test') 4",
        "['typos', 'typos-env1', 'typos-env2', 'typos-env3']",
        "I nee a taxi to Fresno",
        "1420 ['v1', 'v2', 'v3', 'v4', 'v5']",
        "['Repairs_15']",
        "8.0 arrival_date",
        "12.0 start",
        "13.0 date_of_check_in",
        "0.56 0.8484848484848485",
        "75.3%",
    ]
    assert (tmp_path / "my_typos" / "turns" / "test" / "dialogues_001.parquet").is_file()
