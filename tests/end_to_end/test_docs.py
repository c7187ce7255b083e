"""The README and ``docs/``: their examples run, their links lead somewhere, their tables are complete.

The README and the tutorial run as printed in ``make test-all``: every block, in an empty folder, by bash and Python.
On the README and all other pages every ``parapet`` line of a ``console`` or ``sh`` block runs, in order, in this
process, in a folder with the sample as ``my_corpus`` and its crowd files beside it. A block that begins with
``# NAME`` is saved as that file; ``no-test`` after the language excepts a block. A line with ``parapet collect serve``
is done with as if the sample's workers had come and Ctrl-C were pressed then. A page with ``parapet mturk`` has a fake
MTurk as if it were Amazon's sandbox; its workers work at a comment ``<!-- workers: 7 -->``, or ``FILE`` for that
file's answers.
"""

import itertools
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from fake_mturk import FakeMTurk, invented, play, scripts_from_jsonl
from kit import BUNDLED, as_nobody, rows_of, write
from markdown_it import MarkdownIt
from page_form import PageForm
from tiny_checkpoints import save_roberta

from parapet.pipelines.app import beam_parser
from parapet.pipelines.main import PIPELINES, actions_of, canonical, main, parser_of
from parapet.schemas.decisions import COLUMNS
from parapet.schemas.json_schemas import RECORDS
from parapet.schemas.rows import DISPOSITIONS, RESPONSES, Assignment, DeadLetter
from parapet.transforms.crowd.answer_files import FilledForm, read_responses
from parapet.transforms.crowd.mturk import batch as batches
from parapet.transforms.crowd.mturk import pay as decide
from parapet.transforms.crowd.mturk.batch import SANDBOX, Entry, Event
from parapet.transforms.crowd.mturk.status import Row, Status, TaskStatus
from parapet.transforms.crowd.report import SHEET_COLUMNS
from parapet.transforms.crowd.rules import EXPLANATIONS
from parapet.transforms.crowd.schema_task import SHORTFALL_COLUMNS
from parapet.transforms.crowd.serving import site as serving

ROOT = Path(__file__).parents[2]
PATHS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PATHS}
# Pages whose examples take more than some seconds: `make test-all` runs them.
LONG = "your_model mturk running ratings perturb models release variants dialogues collect failures compose planning"
# Flags of programs other than ours and Beam's that the pages mention.
OTHER_FLAGS = {
    *("--build", "--build-arg", "--env", "--file", "--rm", "--tag", "--tags", "--user", "--volume", "--help"),
    "--count",  # of 'perturb distractors', which is no perturbation of dialogues
    *("--gcs-location", "--version", "--model-base-url"),
    *("--directory", "--answers", "--check", "--service_port", "--write", "--folder", "--output_dir"),
    *("--copy_files", "--bundle", "--insecure-ignore-tlog", "--no-deps"),  # the last two are others'
}

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")
_REASON_ID = re.compile(r"""f?"([a-z]+(?:_[a-z]+)*): """)
# What differs from run to run, and what is put for it.
_VOLATILE = (
    (re.compile(r"\b\d+\.\d s\b"), "N s"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?"), "TIME"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:N"),
    (re.compile(r"join/0-\w+"), "join/0-S"),
    (re.compile(r"\b3[A-Z0-9]{29}\b"), "ID"),
)
_MAKES_DEAD_LETTERS = ("answer_files.py", "ingest.py", "vet.py", "compose.py", "task.py", "schema_task.py")


class Step(msgspec.Struct):
    """A command of a page: its line, its flags, what must be in its output, and the status it must end with."""

    line: str
    argv: list[str]
    shown: list[str] = []
    status: int = 0


def blocks(text):
    """The fenced blocks of a page, without those marked ``no-test``."""
    tokens = MarkdownIt().parse(text)
    return [token for token in tokens if token.type == "fence" and "no-test" not in token.info.split()]


def save_file(block, folder):
    """Writes the file that a block prints; returns whether it is one."""
    name = re.match(r"# ([\w./-]+\.\w+)\n", block.content)
    if name:
        content = block.content.partition("\n")[2] if ".json" in name[1] else block.content  # JSON has no comments
        write(folder / name[1], content)
    return bool(name)


def steps(text):
    """The commands of a page, in order; ``ls`` among them, as ``ls FOLDER`` with the names it must show.

    Workers are among them as ``parapet workers: WHO``.
    """
    found = []
    text = re.sub("^<!-- workers: (.*) -->$", r"```sh\nparapet workers: '\1'\n```", text, flags=re.M)
    for block in blocks(text):
        if block.info not in ("console", "sh"):
            continue
        current = None
        status_follows = False
        for line in block.content.replace("\\\n", " ").splitlines():
            command = line[2:] if line.startswith("$ ") else line if block.info == "sh" else None
            if command is None:
                if status_follows:
                    found[-1].status, status_follows = int(line), False
                elif current is not None and line.strip():
                    current.shown.append(line)
                continue
            argv = shlex.split(command, comments=True)
            assert not argv or argv[0] in ("parapet", "python", "ls", "echo"), f"nothing runs {command!r}"
            if argv[:1] in (["parapet"], ["python"], ["ls"]):
                current = Step(command, argv)
                found.append(current)
            status_follows = argv == ["echo", "$?"]
    return found


def settled(text):
    """Without seconds, times, ports, ids and what practice workers choose."""
    for pattern, put in _VOLATILE:
        text = pattern.sub(put, text)
    return text


@pytest.fixture
def folder(tmp_path, bundled_sample, monkeypatch):
    """Where the pages' examples run."""
    shutil.copytree(bundled_sample, tmp_path / "my_corpus")
    shutil.copytree(bundled_sample / "crowd", tmp_path, dirs_exist_ok=True)
    sheet = (bundled_sample / "crowd" / "decisions.csv").read_text(encoding="utf-8")
    release = re.search(r"^```toml\n(.*?)^```$", PAGES["docs/release.md"], re.M | re.S)[1]
    files = {"anna.csv": sheet, "ben.csv": sheet.replace(",reject,", ",accept,", 1), "release.toml": release}
    for name, text in files.items():
        write(tmp_path / name, text)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mturk(tmp_path, monkeypatch):
    """What a page has for Amazon's sandbox."""
    as_nobody(monkeypatch, tmp_path)
    with FakeMTurk(tmp_path / "mturk") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_MTURK", server.url)
        yield server


def work(server, who):
    """Workers do what a comment says: a number of them, or the answers of a file; with "none", they can do nothing."""
    who, _, none = who.partition(", ")
    scripts = invented(server, 0, int(who)) if who.isdigit() else scripts_from_jsonl(Path(who))
    assert bool(play(server, scripts)) != bool(none)


def collect(argv):
    """Runs ``collect serve`` until nobody has a task, with people who give the sample's answers or choose."""
    sets = {}
    for name in ("names.csv", "descriptions.csv"):
        for read in read_responses(str(BUNDLED / "crowd" / name), b"key", "utf-8"):
            if isinstance(read, Assignment):
                sets.setdefault(f"{read.service_name}:{read.task}", []).append(read.answers)
    next_set = {task_id: itertools.cycle(answers) for task_id, answers in sets.items()}

    def work(site):
        store, clock = site.store, itertools.count(1_700_000_000, 600)
        store.now = lambda: next(clock)
        for n, (person, _) in enumerate(store.people()):
            while assignment_id := store.begin(person):
                form, _, _ = store.assignment(person, assignment_id)
                said = next(next_set.get(form.task_id, itertools.repeat({})))
                chance = random.Random(f"{n} {form.key}")
                said |= {field: chance.choice(values) for field, values in PageForm(form.html).choices.items()}
                answers = {field: said.get(field) or "some other words" for field in form.fields}
                assert store.submit(person, assignment_id, FilledForm(answers=answers)) == ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "server", lambda site: SimpleNamespace(run=lambda sockets: work(site)))
        return main([*argv[1:], "--port", "0"])


def write_bonuses(argv):
    """The file of ``--bonuses``, whose ids are of this run: half a dollar for the first assignment of the batch."""
    path = Path(argv[argv.index("--bonuses") + 1])
    first = rows_of(Path(argv[argv.index("--batch") + 1]) / "ledger.csv")[0]
    path.write_text(f"assignment_id,amount,reason\n{first['assignment_id']},0.50,Careful work\n", encoding="utf-8")


@pytest.mark.thorough  # a process for each line; the next test runs the lines of the README in this one
@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md"])
def test_a_newcomer_can_run_it_as_printed(page, tmp_path, monkeypatch):
    """Runs every block, from the first to the last, in an empty folder of a user who has never run Parapet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PARAPET_WORKER_KEY")
    folder = tmp_path / "empty"
    folder.mkdir()

    def output(program, code):
        result = subprocess.run(program, input=code, cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0, f"{code}\nsays\n{result.stdout}{result.stderr}"
        told = re.sub("warning: left out: predictions.*", "", result.stderr)  # a system that needs a model
        assert "warning:" not in told, f"{code}\nsays\n{result.stderr}"
        return result.stdout

    for block in blocks(PAGES[page]):
        if save_file(block, folder):
            continue
        if block.info == "python":
            output([sys.executable, "-"], block.content)
        else:
            assert block.info == "console", f"{page}: nothing runs a block of {block.info!r}"
            for example in re.split(r"^\$ ", block.content, flags=re.M)[1:]:
                command, _, shown = example.replace("\\\n", "").partition("\n")
                printed = output(["bash", "-e"], command)
                if command.startswith("ls "):
                    assert sorted(printed.split()) == sorted(shown.split()), command
                    continue
                lines = iter(printed.splitlines())  # those that are shown come in this order
                missing = [line for line in shown.splitlines() if line and line not in lines]
                assert not missing, f"{command}\nsays\n{printed}"


EXAMPLES = [
    pytest.param(name, marks=pytest.mark.thorough) if Path(name).stem in LONG.split() else name
    for name, text in PAGES.items()
    if name != "docs/getting_started.md" and steps(text)
]


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_run_and_say_what_is_shown(page, folder, mturk, capsys):
    made = []
    for block in blocks(PAGES[page]):
        save_file(block, folder)
    if page == "docs/your_model.md":
        save_roberta(folder / "my_nli", length=512)  # random and tiny
    for step in steps(PAGES[page]):
        if step.argv[1:3] in (["suite", "sample"], ["suite", "tools"]):
            continue  # those are in test_sample_suite.py
        if page == "README.md" and "--variants" in step.argv:
            continue  # two slow lines: `make test-all` runs them as printed
        if step.argv[0] == "ls":
            there = {path.name for path in (folder / step.argv[1]).iterdir() if not path.name.startswith(".")}
            assert {name for line in step.shown for name in line.split()} == there, step.line
            continue
        if "--bonuses" in step.argv:
            write_bonuses(step.argv)
        if step.argv[0] == "python":
            subprocess.run(["bash", "-ec", f"{sys.executable}{step.line.removeprefix('python')}"], check=True)
            continue
        if step.argv[1] == "workers:":
            work(mturk, step.argv[2])
        elif step.argv[1:3] == ["collect", "serve"] and "--export_only" not in step.argv:
            assert collect(step.argv) == step.status, step.line
        else:
            assert main(step.argv[1:]) == step.status, step.line
        captured = capsys.readouterr()
        said = settled((captured.out + captured.err).replace(mturk.url, SANDBOX))
        for line in step.shown:
            assert settled(line) in said, f"{step.line}\nsays\n{said}"
        if "--output" in step.argv and step.status == 0 and "--dry_run" not in step.argv:
            made.append(folder / step.argv[step.argv.index("--output") + 1])
    assert all(any(out.iterdir()) for out in made)


def anchors(text):
    """The anchors that GitHub gives to the headings."""
    headings = [inline.content for start, inline in pairwise(MarkdownIt().parse(text)) if start.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


# Every command that has flags; of mturk and release each action has its own.
OF_ACTIONS = {name: actions for name in PIPELINES if (actions := actions_of(name))}
PARSERS = [parser_of(name, action) for name in PIPELINES for action in OF_ACTIONS.get(name, ("",))]
FLAGS = {flag for parser in PARSERS for argument in parser._actions for flag in argument.option_strings}


def section(text, heading):
    """A section down to the next heading of its level or above."""
    level = len(heading.split()[0])
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{level}}} |\Z)", text, re.M | re.S)
    assert found, f"no section {heading}"
    return found[1]


def test_no_page_names_a_flag_that_is_not():
    known = {canonical(flag) for flag in FLAGS | set(beam_parser()._option_string_actions) | OTHER_FLAGS}
    for page, text in PAGES.items():
        if page == "CHANGELOG.md":  # it also names flags that are gone
            continue
        wrong = {flag for flag in _FLAG.findall(text) if canonical(flag) not in known}
        assert wrong <= {"--selction"}, page  # the mistake that docs/compose.md shows


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 120


def test_every_command_is_in_the_table():
    table = section(PAGES["docs/index.md"], "## All commands")
    assert re.findall(r"^\| `(\w+)`", table, re.M) == list(PIPELINES)


@pytest.mark.parametrize("name", ["collect", "mturk", "release"])
def test_every_action_is_on_its_page(name):
    rows = re.findall(r"^\| `(.*?)` \|", PAGES[f"docs/{name}.md"].partition("\n## ")[0], re.M)
    assert sorted(rows) == sorted(OF_ACTIONS[name])


def test_every_ground_of_a_rejection_is_on_the_page_of_mturk():
    paying = section(PAGES["docs/mturk.md"], "## Paying")
    assert not [reason for reason in decide.CARELESS if f"`{reason}`" not in paying]


def test_every_reason_is_explained():
    page = PAGES["docs/vetting.md"]
    tables = "".join(section(page, f"## {heading}") for heading in ("Rejected", "Held for review", "Not used"))
    rows = {row[1]: row[0] for row in re.findall(r"^(\| `(\w+)` \|.*)$", tables, re.M)}
    assert rows.keys() == EXPLANATIONS.keys()
    assert not [reason for reason, sentence in EXPLANATIONS.items() if sentence not in rows[reason]]


def test_every_dead_letter_is_explained():
    sources = [path for pattern in _MAKES_DEAD_LETTERS for path in ROOT.glob(f"transforms/crowd/{pattern}")]
    found = {one for path in sources for one in _REASON_ID.findall(path.read_text(encoding="utf-8"))}
    assert "broken_row" in found
    ids = set(re.findall(r"^\| `\w+` \| `(\w+)`", section(PAGES["docs/vetting.md"], "## Dead letters"), re.M))
    assert found - EXPLANATIONS.keys() == ids


def test_every_column_and_schema_is_in_formats():
    text = PAGES["docs/formats.md"]
    for heading, names in {
        "## responses.parquet": (*RESPONSES.names, *DISPOSITIONS),
        "## shortfall.csv": SHORTFALL_COLUMNS,
        "## dead_letters.jsonl": DeadLetter.__struct_fields__,
        "### journal.jsonl": (*Entry.__struct_fields__, *get_args(Event)),
        "### assignments.jsonl": (*batches._MEMBERS, "RequesterAnnotation"),
        "### ledger.csv": Row.__struct_fields__,
        "### mturk status --json": (*Status.__struct_fields__, *TaskStatus.__struct_fields__),
        "## Decisions": (*COLUMNS, *SHEET_COLUMNS),
    }.items():
        assert not [name for name in names if f"`{name}`" not in section(text, heading)], heading
    assert not [name for name in RECORDS if f"(../schemas/json/{name}.schema.json)" not in text]


def test_images_are_small():
    assert [path.name for path in sorted(ROOT.glob("docs/images/*")) if path.stat().st_size > 150_000] == []
