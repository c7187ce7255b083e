"""Renders the Jinja2 pages of ``crowd_templates``.

Everything in them is escaped as HTML unless a template says otherwise. Nothing is in ``.md.jinja``: Markdown has other
escapes, see ``parapet.transforms.markdown``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2


@cache
def environment() -> jinja2.Environment:
    """Autoescape for every page, an error for every name that a template misses."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("parapet.crowd_templates", ""),
        autoescape=jinja2.select_autoescape((), disabled_extensions=("md.jinja",), default=True),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **context: Any) -> str:
    """The page as text. Raises jinja2.UndefinedError where the template uses a name that ``context`` lacks."""
    return environment().get_template(template).render(**context)
