"""The ``parapet`` program: runs the pipeline that the first argument names. Imports nothing heavy, so help is quick."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence

from parapet.pipelines import dispatch, stopping

USAGE = """\
usage: parapet COMMAND [flags]

Builds datasets that show how robust a dialogue system or an agent is, and
scores systems on them. Without a corpus, a command uses the bundled sample.
{commands}
example:
  parapet suite sample --output sample          # every stage, on the sample
  parapet perturb typos --sgd my_corpus --output my_typos
  parapet evaluate --task dst --model names --output my_scores

'parapet COMMAND --help' shows the common flags and an example, '--help-all' all
flags. In flags and names, - and _ are alike.
"""


def usage() -> str:
    """Formats the commands by purpose."""
    groups = (
        f"\n{title}:\n" + "".join(f"  {name:22}{summary}\n" for name, summary in commands.items())
        for title, commands in dispatch.GROUPS.items()
    )
    return USAGE.format(commands="".join(groups))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one pipeline. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    if argv is None:
        if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions, see docs/running.md
            from parapet.pipelines.completion import answer

            answer()
        atexit.register(gc.freeze)  # msgspec 0.22 may crash when the last collection frees structs within structs
        return stopping.run_program(lambda: main(sys.argv[1:]))
    if argv[:1] == ["--version"]:
        from parapet.schemas.errors import parapet_version

        print(f"parapet {parapet_version()}")
        return 0
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    return dispatch.hand_over("parapet", "command", dispatch.PIPELINES, usage(), argv, dispatch.run)
