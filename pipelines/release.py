"""``parapet release``: build, verify, diff and push versioned dataset releases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from parapet.pipelines.command import run_checked, run_command
from parapet.pipelines.dispatch import hand_over
from parapet.pipelines.flags import INPUT, Parser, StrictParser, add_json

ACTIONS = {
    "build": "build a release from a release.toml: card, manifest, checksums",
    "verify": "check a release against its checksums, manifest and schemas",
    "diff": "compare two releases row by row, and suggest a version number",
    "push": "upload a release to the Hugging Face Hub",
}

USAGE = f"""usage: parapet release ACTION [flags]

Builds versioned dataset releases: Parquet for 'datasets' and pandas, SGD JSON for
the published scripts, a dataset card, a manifest of all inputs, checksums. A
release never changes; a new version is written beside it.

actions:
{chr(10).join(f"  {name:8}{what}" for name, what in ACTIONS.items())}

example:
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0
  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0
  parapet release push releases/my_dataset --repo ada/my_dataset

'parapet release ACTION --help' shows the flags of an action.
"""


_RELEASE = "NAME/VERSION, or NAME for its latest; local or gs://"

# The description, example and note of each action's help.
_HELP = {
    "build": (
        "Builds a release from the outputs of other commands: OUT/NAME/VERSION with Parquet, SGD JSON, a card, a "
        "manifest and checksums. docs/release.md shows a release.toml.",
        "  parapet release build --config release.toml --output releases",
    ),
    "verify": (
        "Checks a release: every file against its checksum, the manifest, columns and numbers of rows, and "
        " dialogues against their schemas. Prints a line for each mismatch.",
        "  parapet release verify releases/my_dataset          # the version that latest.json names",
        "exit status: 0 without findings, 1 with findings, 2 if there is no release.\n"
        "A release that somebody changed as a whole, hashes included, passes: docs/release.md shows how to sign one.",
    ),
    "diff": (
        "Compares two releases row by row: which rows were added, removed and changed, in which columns the changed "
        "rows differ, and which version number that requires. A release with files that are missing, or are not "
        "those that its manifest lists, is not compared: what is wrong with it is printed.",
        "  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0",
        "exit status: 0 whether or not they differ, 1 if one is not as its manifest says, 2 if there is no release.",
    ),
    "push": (
        "Uploads a release to a dataset repository on the Hugging Face Hub: verifies it, creates the repository "
        "if there is none, uploads the folder, and tags the commit with the version. A version that is already there "
        "is never changed.",
        "  parapet release push releases/my_dataset --repo ada/my_dataset --private",
        "The token is read from HF_TOKEN, or from the file that 'hf auth login' writes; it must be able to write.\n"
        "HF_ENDPOINT is the address of another Hub. Exit status: 0 if the version was uploaded, 1 if it was not, 2 for "
        "wrong usage, without a token or the extra.",
    ),
}


def _build_parser() -> Parser:
    flags = Parser("release build", *_HELP["build"])
    text = "release.toml: inputs, name, version, licence"
    flags.group(INPUT)("--config", required=True, metavar="FILE", reads=True, help=text)
    return flags


def parser(action: str) -> StrictParser:
    """Builds the command line of an action."""
    if action == "build":
        return _build_parser()
    flags = StrictParser(f"release {action}", *_HELP[action])
    add = flags.group(INPUT)
    if action == "diff":
        add("old", metavar="OLD", help=_RELEASE)
        add("new", metavar="NEW", help="the release to compare with it")
    else:
        add("release", metavar="PATH", help=_RELEASE)
    if action == "push":
        add = flags.group("the Hub")
        add("--repo", metavar="OWNER/NAME", help="dataset repository (default: 'hub' of release.toml)")
        add("--private", action="store_true", help="create the repository as private (default: public)")
    if action == "verify":
        add_json(flags)
    return flags


_STOPPED = {  # the message after Ctrl-C
    "verify": "nothing was changed",
    "diff": "nothing was changed",
    "push": "run the same command again to continue",
}


def _step(action: str, step: int) -> Callable[..., Any]:
    """Returns a step of an action; its module, and Beam, are imported only when it is called, so help is quick."""

    def call(*arguments: Any) -> Any:
        from parapet.pipelines.release_actions import STEPS

        return STEPS[action][step](*arguments)

    return call


def run_action(action: str, argv: Sequence[str]) -> int:
    """Runs an action. Returns the exit status."""
    if action == "build":
        return run_command(_build_parser(), argv, *(_step(action, i) for i in range(4)))
    return run_checked(parser(action), argv, _step(action, 0), _step(action, 1), _STOPPED[action])


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet release``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet release", "action", ACTIONS, "", USAGE, argv, run_action)
