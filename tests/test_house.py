"""The house stands as CONTRIBUTING.md describes it: imports run downhill, and help needs no Beam."""

import ast
import functools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from parapet.pipelines.collect import ACTIONS as COLLECT_ACTIONS
from parapet.pipelines.evaluate import TASKS
from parapet.pipelines.main import PIPELINES
from parapet.pipelines.mturk import ACTIONS
from parapet.pipelines.release import ACTIONS as RELEASE_ACTIONS

ROOT = Path(__file__).parents[1]

# What each folder may import of ours.
DOWNHILL = {
    "schemas": {"schemas"},
    "transforms": {"transforms", "schemas"},
    "crowd_templates": set(),
    "evaluation": {"evaluation", "transforms", "schemas"},
    "pipelines": {"pipelines", "evaluation", "transforms", "schemas", "crowd_templates"},
    "parapet": {"parapet", "pipelines", "evaluation", "transforms", "schemas", "crowd_templates"},
}
OURS = {*DOWNHILL, "tests", "benchmarks"}


@functools.cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path):
    return {name for node in nodes_of(path) if isinstance(node, ast.Import | ast.ImportFrom) for name in named(node)}


def named(node):
    if isinstance(node, ast.Import):
        return {folder_of(alias.name) for alias in node.names}
    return {folder_of(node.module)} if node.module else set()


def folder_of(module):
    """``parapet.schemas.layout`` is in ``schemas``; what has one name is itself."""
    return ".".join(module.split(".")[1:2]) or module if module.startswith("parapet.") else module.partition(".")[0]


@pytest.mark.parametrize("folder", sorted(DOWNHILL))
def test_imports_run_downhill(folder):
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules
    uphill = {str(path.relative_to(ROOT)): imported(path) & OURS - DOWNHILL[folder] for path in modules}
    assert not {path: names for path, names in uphill.items() if names}


def test_records_need_no_beam():
    assert not [path for path in (ROOT / "schemas").rglob("*.py") if "apache_beam" in imported(path)]


# Each line of help in one process: the first that loads what is heavy is told with what it loaded.
HELP = """
import contextlib, io, json, sys
from parapet.pipelines.main import main
heavy = {"apache_beam", "spacy", "nltk", "pyarrow", "sacrebleu", "wordfreq", "numpy", "boto3", "botocore"}
helps = {}
for command in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    helps[command] = said.getvalue(), sorted(heavy & set(sys.modules))
print(json.dumps(helps))
"""


COMMANDS = [
    "",
    *PIPELINES,
    *(f"collect {action}" for action in COLLECT_ACTIONS),
    *(f"mturk {action}" for action in ACTIONS),
    *(f"release {action}" for action in RELEASE_ACTIONS),
    *(f"evaluate --task {task}" for task in TASKS),
]


def test_a_typo_can_be_made_without_the_rest():
    """Pure functions are imported without the framework that runs them."""
    code = "import sys, parapet.transforms.perturb.typos; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len([name for name in told.split() if name.startswith("parapet")]) <= 12  # five of them are packages


@pytest.mark.parametrize("module", ["transforms.proxy.server", "evaluation.ood"])
def test_what_is_quick_or_long_lived_needs_no_beam(module):
    code = f"import sys, parapet.{module}; assert not {{'apache_beam', 'pandas'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_is_complete_and_loads_nothing_heavy():
    told = subprocess.run([sys.executable, "-c", HELP, *COMMANDS], capture_output=True, text=True, check=True).stdout
    for command, (said, loaded) in json.loads(told).items():
        assert not loaded, command
        assert f"parapet {command} " in said.partition("example:")[2] if command else "parapet suite sample" in said


def test_metrics_need_no_torch():
    for path in (ROOT / "evaluation").rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        loaded = {name for node in body if isinstance(node, ast.Import | ast.ImportFrom) for name in named(node)}
        assert "models" in path.parts or not loaded & {"torch", "transformers"}, path


# The most code lines of each room: a number may fall, and rises only with a new feature. A module belongs to the first
# room whose prefix fits.
BUDGETS = {
    "transforms/perturb": 6_947,
    "transforms/crowd/": 5_778,
    "transforms/variants/": 1_372,
    "transforms/translate/": 594,
    "transforms/proxy/": 812,
    "transforms/splits/": 812,
    "transforms/simulators/": 2_896,
    "transforms/anonymise/": 919,
    "transforms/release/": 1_489,
    "transforms/report/": 626,
    "transforms/": 2_527,
    "evaluation/models/": 5_113,
    "evaluation/": 9_157,
    "pipelines/": 7_093,
    "schemas/": 2_800,
    "parapet/": 650,
    "tests/": 33_885,
}


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(path):
    """The number of lines of a module that are neither blank, nor comments, nor docstrings."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in nodes_of(path):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
    return sum(not line.lstrip().startswith("#") for line in lines if line.strip())


def test_rooms_stay_within_their_budgets():
    lines = Counter()
    for folder in (*DOWNHILL, "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            relative = str(path.relative_to(ROOT))
            if room := next((room for room in BUDGETS if relative.startswith(room)), None):
                lines[room] += code_lines(path)
    assert not {room: (n, BUDGETS[room]) for room, n in lines.items() if n > BUDGETS[room]}


# Words that STYLE forbids as names of variables, and how often they still occur: a number may fall, not rise.
NAMES = {
    **{"found": 44, "given": 45, "one": 37, "what": 37, "said": 33, "of": 31, "asked": 25, "there": 14, "made": 10},
    **{"told": 8, "who": 1, "standing": 0, "fates": 0},
}
# Phrases that make readers stop, and jargon of our own, in documentation, help and messages.
PHRASES = re.compile(
    r"\bis no share\b|\b(?:is|are) none of\b|\bheld against\b|\bWho (?:uses|has|does)\b|\bshort of answers\b"
    r"|\bmay pass for\b|\bis told\b|\bgoes by\b|\bof itself\b|\bat hand is\b|\bWhere there (?:is|are) none\b"
    r"|\bno more than is\b|\bmend(?:ed|s)?\b|\bstands twice\b|\bis there twice\b|\bOf (?:a|the) \w+ the\b"
    r"|\bframe, zero\b|\bdisposition of\b|\bput off offer\b|\boff offer\b"
)


def sources():
    """The modules of the product, each once."""
    return [path for folder in DOWNHILL for path in sorted((ROOT / folder).rglob("*.py")) if not path.is_symlink()]


def test_names_say_what_they_hold():
    counts = Counter()
    for path in sources():
        for node in nodes_of(path):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts[node.id] += 1
            elif isinstance(node, ast.arg):
                counts[node.arg] += 1
    assert not {name: counts[name] for name, most in NAMES.items() if counts[name] > most}


def texts_of(path):
    """The strings of a module that are not docstrings, with ``{}`` for what is put into them."""
    nodes = nodes_of(path)
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped = inside | {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # and docstrings
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def test_no_page_or_message_has_a_phrase_that_makes_readers_stop():
    pages = {path: [path.read_text(encoding="utf-8")] for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
    texts = pages | {path: texts_of(path) for path in sources() if "test" not in path.name}
    assert not [
        (str(path.relative_to(ROOT)), match[0])
        for path, strings in texts.items()
        for text in strings
        for match in PHRASES.finditer(text)
    ]
