"""The help of every command: groups, lengths, words, and flags in which ``-`` and ``_`` are alike."""

import functools
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

import pytest
from kit import THOROUGH, cases, lacking, raised, run, write

from parapet.pipelines import doctor
from parapet.pipelines.app import wrap_commands
from parapet.pipelines.evaluate import TASKS
from parapet.pipelines.main import PIPELINES, actions_of, canonical, parser_of, parser_on
from parapet.pipelines.release import ACTIONS as RELEASE_ACTIONS
from parapet.schemas.errors import DISTRIBUTION, install_line
from parapet.transforms.core import plugins

COMMON_LINES, ALL_LINES = 45, 100
PERTURBATIONS = [plugin.name for plugin in plugins.installed(plugins.PERTURBATIONS) if plugin.built_in]


PAIRS = [(pipeline, action) for pipeline in PIPELINES for action in actions_of(pipeline) or ("",)]
PAIRS += [("perturb", name) for name in PERTURBATIONS]
COMMANDS = {" ".join(pair).strip(): pair for pair in PAIRS}


@pytest.fixture(autouse=True)
def _on_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


parser_once = functools.cache(parser_of)


@pytest.fixture(params=COMMANDS)
def parser(request):
    return parser_once(*COMMANDS[request.param])


def long_flags(parser):
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]


def test_the_common_flags_fit_on_a_screen(parser):
    common, whole = parser.format_help().splitlines(), parser.format_help(rare=True).splitlines()
    assert not [line for line in [*common, *whole] if len(line) > 80]
    assert len(common) <= (len(whole) if "perturb" in parser.prog else COMMON_LINES)
    assert len(whole) <= ALL_LINES


def test_help_shows_the_common_flags_and_help_all_every_flag(parser, capsys):
    rare = [action for action in parser._actions if action.dest in parser.rare and action.dest != "help_all"]
    printed = {}
    for flag in ("--help", "--help-all", "--help_all"):
        raised(SystemExit, parser.parse, [flag], match="0")
        printed[flag] = capsys.readouterr().out
    heads = {flag: re.findall(r"^  (?:-h, )?(--\S+(?: \S+)*)", text, re.M) for flag, text in printed.items()}
    flag_names = r"(?:^|, )(--[\w-]+)"
    shown = {flag: {name for head in of for name in re.findall(flag_names, head)} for flag, of in heads.items()}
    assert shown["--help-all"] == set(long_flags(parser))
    hidden = {flag for action in rare for flag in action.option_strings} | {"--help-all"}
    assert (shown["--help"], printed["--help_all"]) == (set(long_flags(parser)) - hidden, printed["--help-all"])
    more = [f"{len(rare)} more flag{'s' * (len(rare) > 1)}"] * bool(rare) + ["notes"] * bool(parser.kind.note)
    assert not more or printed["--help"].splitlines()[-1] == f"'{parser.prog} --help-all' shows {' and '.join(more)}."
    required = [action for action in parser._actions if action.required]
    usage = " ".join(printed["--help"].partition("\n\n")[0].split())
    assert usage.startswith(f"usage: {parser.prog} ")
    assert usage.endswith(" [flags]")
    assert all((action.option_strings or [action.metavar])[-1] in usage for action in required)


def test_an_unknown_flag_names_the_nearest(parser, capsys):
    flags = long_flags(parser)
    for flag in flags if THOROUGH else (flags[1], flags[-1]):
        raised(SystemExit, parser.parse, [f"{flag}x=1".replace("_", "-")], match="2")
        assert f"unknown flag {flag.replace('_', '-')}x: did you mean {flag}?" in capsys.readouterr().err


def test_a_flag_of_beams_own_tests_is_unknown(capsys):
    """Beam has a ``--dry_run NAME``, which does nothing for a command without such a flag."""
    raised(SystemExit, parser_of("ood").parse, ["--output", "out", "--dry-run"], match="2")
    assert "parapet ood: unknown flag --dry-run" in capsys.readouterr().err


@cases(
    "line usage",
    ("back-translate --help", "parapet back_translate"),
    ("help back-translate", "parapet back_translate"),
    ("train sgp-dst --help", "parapet train sgp_dst"),
    ("help predict sgp-dst", "parapet predict sgp_dst"),
    ("perturb speech-errors --help", "parapet perturb speech_errors"),
    ("mturk site_csv --help", "parapet mturk site-csv"),
    ("evaluate --task=dst --help", "parapet evaluate --task dst"),
    ("help evaluate --task dst", "parapet evaluate --task dst"),
    ("help evaluate", "parapet evaluate --task TASK"),
    ("help train", "parapet train MODEL"),
    ("help perturb", "parapet perturb PERTURBATION"),
    ("perturb --help-all", "parapet perturb PERTURBATION"),
    ("help", "parapet COMMAND"),
    ("--help-all", "parapet COMMAND"),
)
def test_names_of_commands_and_help_as_a_command(line, usage):
    printed = run(*line.split()).output
    assert printed.startswith(f"usage: {usage} ")
    assert not [text for text in printed.splitlines() if len(text) > 80]


def test_dashes_and_underscores_are_alike(parser):
    """No two flags differ by them only, and each is understood in either spelling, with a value or without."""
    known = long_flags(parser)
    assert len({canonical(flag) for flag in known}) == len(known)
    for flag in known:
        for other in (flag, "--" + flag[2:].replace("_", "-"), "--" + flag[2:].replace("-", "_")):
            assert parser.spelled([other, "a-b_c"]) == [flag, "a-b_c"]
            assert parser.spelled([f"{other}=a-b_c"]) == [f"{flag}=a-b_c"]
    assert parser.spelled(["--", "--no-flag"]) == ["--", "--no-flag"]


def test_every_flag_has_a_group_and_a_help_in_one_style(parser):
    for title, actions in parser.shown_groups():
        assert title not in ("options", "positional arguments"), [action.dest for action in actions]
        for action in actions:
            text = action.help or ""
            assert text, action.dest
            assert text.endswith("...") or not text.endswith("."), text
            assert text.count("(default") <= 1 or "with --checkpoint" in text, text
            assert len(text) <= 140 or "perturb" in parser.prog, text  # a perturbation's is its docstring


def test_long_command_lines_are_broken_before_flags():
    a, b = "a" * 30, "b" * 20
    line = f"  parapet rewrite --sgd {a} --variants {b} --output out   # a comment"
    broken = f"  # a comment\n  parapet rewrite --sgd {a} \\\n      --variants {b} --output out"
    assert wrap_commands(line) == [broken]
    assert wrap_commands("  # of both\n  a  # short\n  b") == ["  # of both\n  a  # short", "  b"]
    assert wrap_commands("  a \\\n    --b") == ["  a --b"]


# Commands whose first example needs nothing but the bundled sample.
ON_THE_SAMPLE = (
    *(
        "perturb typos",
        "compose",
        "compose_variations",
        "statistics",
        "augment",
        "back_translate",
        "language_variations",
    ),
    *("unseen_entities", "ood", "few_shot", "evaluate dst", "doctor"),
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ON_THE_SAMPLE)
def test_the_first_example_works_on_the_sample(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = parser_of(*COMMANDS[name]).kind.example.splitlines()[0].partition("#")[0]
    assert run(*example.format(name="typos").split()[1:]).status == 0


# Completion: a real bash that asks; and for every command the flags that its parser has.


# Sources the script, then asks what may follow each line that it reads.
ASK = r"""
eval "$(register-python-argcomplete parapet)"
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
  _python_argcomplete parapet
  (IFS=' '; echo "${COMPREPLY[*]}")
done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_flags_values_and_files(tmp_path):
    write(tmp_path / "my_corpus" / "schema.json", "")
    offered = {
        "parapet lang": ["language_variations"],
        "parapet mturk s": ["status", "stop", "site-csv"],
        "parapet mturk publish --min": ["--min_approval", "--min_approved"],
        "parapet release ": ["--help", *RELEASE_ACTIONS],
        "parapet evaluate --task ": list(TASKS),
        "parapet evaluate --task ood --p": ["--predictions"],
        "parapet evaluate --task ood --split ": ["train", "dev", "test"],
        "parapet back_translate --engine=l": ["local"],
        "parapet hits --schemas my_corpus/s": ["my_corpus/schema.json"],
        "parapet nosuch --x": [],
    }
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    given = {"input": "".join(f"{line}\n" for line in offered), "capture_output": True, "text": True, "check": True}
    told = subprocess.run(["bash", "--norc", "-c", ASK], **given, env=environment, cwd=tmp_path)
    assert [line.split() for line in told.stdout.splitlines()] == list(offered.values())


def test_every_flag_of_every_command_is_offered():
    def flags_of(parser):
        return {flag for action in parser._actions for flag in action.option_strings}

    for pipeline, action in COMMANDS.values():
        if not (pipeline == "perturb" and action):
            task = ["--task"] * (pipeline == "evaluate")
            offered = flags_of(parser_on([pipeline, *task, *filter(None, [action])])[1])
            assert offered == flags_of(parser_of(pipeline, action)) | {*task}, (pipeline, action)
    for words in ([], ["nosuch"], ["mturk", "nosuch"], ["evaluate"], ["evaluate", "--task", "nosuch"]):
        assert "--help" in flags_of(parser_on(words)[1])


# ``parapet doctor``: what is installed and on the PATH, and what each is for.


def test_what_an_extra_lacks_and_how_to_install_it(monkeypatch):
    for number, told in ((None, f"boto3 is not installed: {install_line('mturk')}"), ("1", "boto3 1 is installed, ")):

        def version_of(name, number=number):
            if name == "boto3" and number is None:
                raise PackageNotFoundError(name)
            return number if name == "boto3" else version(name)

        monkeypatch.setattr(doctor, "version", version_of)
        assert told in run("doctor").output


def test_every_extra_and_tool_is_listed_and_those_for_users_with_their_purpose(tmp_path, monkeypatch):
    write(tmp_path / "gcloud", "#!/bin/sh\n").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    output = run("doctor").output
    extras = metadata(DISTRIBUTION).get_all("Provides-Extra")
    assert not lacking(output, *extras)
    assert set(doctor.ENABLES) <= set(extras)
    lines = [line.split() for line in output.splitlines()]
    assert {line[1] for line in lines if line[-2:] == ["for", "developers"]} <= {"docs", "lint", "test"}
    assert [line[:2] for line in lines if "credentials" in line] == [["missing", "aws"], ["installed", "gcloud"]]
