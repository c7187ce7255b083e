"""Imported where local workers run: they print no tracebacks, for the command gets each of them and says the reason.

Worker processes import it as a Beam plug-in, before they do anything else.
"""

from __future__ import annotations

from apache_beam.runners.worker import sdk_worker


def _silent(*_: object, **__: object) -> None:
    """Stands for ``print`` in Beam's module, which has no option for it."""


vars(sdk_worker)["print"] = _silent
