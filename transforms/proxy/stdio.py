"""Runs an MCP server as a child process, and passes messages between it and the client over stdin and stdout."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO

from msgspec import Raw

from parapet.schemas.errors import InputError
from parapet.transforms.proxy.sides import ToolServerSide, write_log
from parapet.transforms.proxy.statistics import Statistics

_LONGEST = 64 << 20  # bytes of a message; a longer one passes unchanged


def run(command: Sequence[str], side: ToolServerSide, log: IO[str] | None) -> int:
    """Pass messages until the server ends, as it does when the client closes its stdin. Returns its exit status.

    Args:
      command: the server's command.
      side: what is done with messages.
      log: receives all messages; None to keep none.

    Raises:
      InputError: the command cannot be run.
    """
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    except OSError as error:
        raise InputError(f"cannot be run: {error.strerror}", command[0], "--mcp") from None
    assert server.stdin is not None
    assert server.stdout is not None
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    # Not sys.stdin: Python would wait at its end for the thread that reads it.
    from_client = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    relay = partial(_relay, statistics=side.statistics, log=log)
    threading.Thread(target=relay, args=("client", from_client, server.stdin, side.to_server), daemon=True).start()
    relay("server", server.stdout, sys.stdout.buffer, side.whole)
    return server.wait()


def _relay(
    sender: str,
    source: IO[bytes],
    target: IO[bytes],
    change: Callable[[Raw], Raw],
    statistics: Statistics,
    log: IO[str] | None,
) -> None:
    """Pass messages, a line each, until the source ends or the target is closed."""
    with suppress(OSError, ValueError), target:
        for line in iter(lambda: source.readline(_LONGEST), b""):
            message = Raw(line.rstrip(b"\r\n"))
            begun = time.perf_counter()
            changed = change(message)
            statistics.count_time(time.perf_counter() - begun)
            target.write(line if changed is message else bytes(changed) + b"\n")
            target.flush()
            if log:
                write_log(log, sender, received=bytes(message), sent=bytes(changed))
