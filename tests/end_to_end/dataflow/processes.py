"""Commands as processes of their own, to be watched, interrupted and killed."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

# Whoever runs the tests may have Ctrl-C ignored, as a shell does for what runs in the background. And Beam would look
# for credentials for half a minute.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from apache_beam.internal.gcp import auth
auth._Credentials._credentials_init = True
from parapet.pipelines.main import main
sys.exit(main(sys.argv[1:]))
"""


def start(*flags: object) -> subprocess.Popen[str]:
    """Starts a command."""
    command = [sys.executable, "-c", COMMAND, *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(holds: Callable[[], Any], process: subprocess.Popen[Any], seconds: float = 60) -> None:
    """Until something holds. Fails where the process ends before it does, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < deadline, f"still not after {seconds} s"
        time.sleep(0.01)
