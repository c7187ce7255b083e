"""The command reference: a page for each command, made from its parser when the site is built."""

from __future__ import annotations

import argparse
import re
from functools import partial
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from parapet.pipelines.app import Formatter, Parser, wrap_commands
from parapet.pipelines.main import PIPELINES, actions_of, parser_of, usage_of

DOCS = Path(__file__).parents[1]
INDEX = """# Commands

The flags of this version, as `parapet COMMAND --help-all` shows them. [What do you want to
do?](../index.md#what-do-you-want-to-do) leads to the page for a task. Flags that Parapet does not know go to Apache
Beam.
"""
TABLE = "| | what it does |\n|---|---|"

# The page that explains each command, as docs/index.md has it.
GUIDES = dict(re.findall(r"^\| `(\w+)` \|.*\]\((\w+\.md)", (DOCS / "index.md").read_text(encoding="utf-8"), re.M))

_CODE = re.compile(r"'((?:parapet |--)[^']+)'|(?<![\w-])(--[a-z]\w*)")
_USAGE_WIDTH = 100


def on_config(config: MkDocsConfig) -> None:
    """Adds the pages to the navigation."""
    for entry in config.nav or []:
        entry.get("Commands", []).extend(f"commands/{name}.md" for name in PIPELINES)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    files.append(File.generated(config, "commands/index.md", content=index()))
    for name in PIPELINES:
        files.append(File.generated(config, f"commands/{name}.md", content=page_of(name)))
    return files


def index() -> str:
    """The page that lists the commands."""
    rows = (f"| [`{name}`]({name}.md) | {_text(what)} |" for name, what in PIPELINES.items())
    return "\n".join([INDEX, TABLE, *rows, ""])


def page_of(pipeline: str) -> str:
    """The page of a command, with a section for each of its actions."""
    parts = [f"---\ntitle: {pipeline}\n---\n\n# parapet {pipeline}\n"]
    if guide := GUIDES.get(pipeline):
        parts.append(f"[How to use `parapet {pipeline}`](../{guide}){{ .reference }}\n")
    actions = actions_of(pipeline)
    if not actions:
        return "\n".join([*parts, command(parser_of(pipeline), "##")])
    usage = usage_of(pipeline)
    _, description, _ = usage.split("\n\n", 2)
    parts += [_paragraphs(description), _code("text", usage.partition("\n\n")[0].removeprefix("usage: ")), TABLE]
    for action, what in actions.items():
        parts.append(f"| [`{action}`](#{_anchor(_name(pipeline, action))}) | {_text(what)} |")
    parts += ["", _code("sh", usage.partition("\nexample:\n")[2].partition("\n\n")[0]), ""]
    for action in actions:
        name = _name(pipeline, action)
        parts += [f"## {name} {{ #{_anchor(name)} }}\n", command(parser_of(pipeline, action), "###")]
    return "\n".join(parts)


def command(parser: Parser, level: str) -> str:
    """Description, usage, flags and examples of one parser; its sections have headings of this level."""
    parser.formatter_class = partial(Formatter, width=_USAGE_WIDTH)
    parts = [_paragraphs(parser.description or ""), _code("text", parser.format_usage().removeprefix("usage: "))]
    parts += [_title(title) + flags(parser, actions) for title, actions in parser.shown_groups()]
    parts.append(_code("sh", "\n".join(wrap_commands(parser.kind.example, _USAGE_WIDTH))))
    parts += [_paragraphs(parser.kind.note)] if parser.kind.note else []
    return "\n".join(parts)


def flags(parser: argparse.ArgumentParser, actions: list[argparse.Action]) -> str:
    """A list of definitions, each with an anchor such as ``parapet-compose--seed``."""
    return "<dl class=flags>\n" + "\n".join(_flag(parser, action) for action in actions) + "\n</dl>\n"


def _title(text: str) -> str:
    html = f"<code>{escape(text)}</code>" if text.startswith("--") else _html(text[:1].upper() + text[1:])
    return f"<p class=flags-of>{html}</p>\n\n" if text else ""


def _flag(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = Formatter(parser.prog, width=10_000)
    invocation = formatter._format_action_invocation(action)
    meaning = _html(formatter._expand_help(action)).replace(" (required)", " <span class=required>required</span>")
    flag = next((flag for flag in action.option_strings if flag.startswith("--")), f"-{action.dest}")
    anchor = _anchor(parser.prog) + flag
    return f'<dt id="{escape(anchor)}"><code>{escape(invocation)}</code></dt><dd>{meaning}</dd>'


def _name(pipeline: str, action: str) -> str:
    return f"parapet {pipeline} --task {action}" if pipeline == "evaluate" else f"parapet {pipeline} {action}"


def _anchor(prog: str) -> str:
    return re.sub(r"\W+", "-", prog)


def _html(text: str) -> str:
    html = escape(text, quote=False).replace("-&gt;", "→")
    return _CODE.sub(lambda code: f"<code>{code[1] or code[2]}</code>", html)


def _text(text: str) -> str:
    """Plain text in a cell of a Markdown table: nothing in it is markup."""
    return re.sub(r"([\\`*_{}\[\]#|!])", r"\\\1", escape(text, quote=False).replace("-&gt;", "→"))


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{_html(paragraph)}</p>\n" for paragraph in text.strip().split("\n\n"))


def _code(language: str, text: str) -> str:
    lines = [line.removeprefix("  ") for line in text.strip("\n").split("\n")] if language == "sh" else [text.strip()]
    return "\n".join([f"~~~ {language}", *lines, "~~~", ""])
