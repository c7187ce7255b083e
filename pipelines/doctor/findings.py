"""What ``parapet doctor`` says of one thing."""

from __future__ import annotations

from typing import Literal

import msgspec

# ``missing`` is what one may do without; ``wrong`` is what should not be so.
State = Literal["there", "missing", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report.

    Attributes:
      name: of what was looked for.
      enables: the commands and flags that it is for.
      detail: what was found, or what is wrong; never a secret.
      next: what to do, a command where there is one; empty where nothing is to be done.
    """

    name: str
    state: State
    enables: str = ""
    detail: str = ""
    next: str = ""
