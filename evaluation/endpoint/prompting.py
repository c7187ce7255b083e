"""Prompts: Jinja templates with a block for the system message and one for the user message, built in or the user's."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_text

_FLAG = "--prompt"


class Prompt(msgspec.Struct, frozen=True):
    """A template with the block ``user`` and optionally ``system``.

    Attributes:
      text: the text of the template.
      path: the path of its file.
    """

    text: str
    path: str

    def messages(self, **context: Any) -> list[dict[str, str]]:
        """Renders the messages of a request.

        Raises:
          InputError: the template uses an unknown name, or fails otherwise.
        """
        template = _compiled(self.text, self.path)
        messages = []
        for role in ("system", "user"):
            if block := template.blocks.get(role):
                try:
                    content = "".join(block(template.new_context(context))).strip()
                except (jinja2.TemplateError, TypeError, AttributeError) as error:
                    raise InputError(f"block {role}: {error}", self.path, _FLAG) from None
                messages += [{"role": role, "content": content}] if content else []
        return messages

    @property
    def about(self) -> dict[str, str]:
        """Describes the prompt for ``run.json``, by text and hash."""
        return {"sha256": hashlib.sha256(self.text.encode()).hexdigest(), "template": self.text}


def prompt_of(task: str, path: str | None = None) -> Prompt:
    """Returns the prompt of a task, or reads that of a file.

    Args:
      task: ``states``, ``ood``, ``utterances``, ``babi`` or ``entailment``.
      path: the path of a user's template, which has the same variables.

    Raises:
      InputError: the file cannot be read, is not a template, or has no block ``user``.
    """
    if path is None:
        folder = resources.files(__package__) / "templates"
        return Prompt((folder / f"{task}.jinja").read_text(encoding="utf-8"), f"{task}.jinja")
    prompt = Prompt(read_text(path), path)
    if "user" not in _compiled(prompt.text, path).blocks:
        raise InputError("requires {% block user %} ... {% endblock %}, the prompt for each example", path, _FLAG)
    return prompt


@cache
def _compiled(text: str, path: str) -> jinja2.Template:
    environment = jinja2.Environment(  # noqa: S701 - plain text for a model, no page
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    try:
        return environment.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"not a template: {error.message}", path, f"line {error.lineno}") from None
