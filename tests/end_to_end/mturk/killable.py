"""Runs commands in forked children that SIGKILL themselves at a chosen point; reads JSON lines from standard input.

A point is any moment at which being cut off could hurt: before a journal line, in its middle (half of it is on the
disk), after it; before a request is sent, after it was answered; before and after a file takes its name.
"""

import json
import mmap
import os
import signal
import struct
import sys
import threading
from typing import Any


class Points:
    """Counts points over threads and tells the parent how many there were; kills at the chosen one."""

    def __init__(self, shared: mmap.mmap, kill_at: int) -> None:
        self.shared, self.kill_at, self.n, self.lock = shared, kill_at, 0, threading.Lock()

    def passed(self) -> bool:
        """Whether this is the point to die at; the caller may leave a mess first."""
        with self.lock:
            self.n += 1
            self.shared[:8] = struct.pack("q", self.n)
            return self.n == self.kill_at

    def point(self) -> None:
        if self.passed():
            os.kill(os.getpid(), signal.SIGKILL)


def patch(points: Points) -> None:
    import botocore.endpoint
    import botocore.httpsession

    from parapet.transforms.crowd.mturk import batch
    from parapet.transforms.storage import disk

    botocore.endpoint.time.sleep = lambda _: None
    send, write, replace = botocore.httpsession.URLLib3Session.send, os.write, os.replace

    def killable_send(session: Any, request: Any) -> Any:
        points.point()
        answer = send(session, request)
        points.point()
        return answer

    class Os:
        """``os`` for the journal and the whole files."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        @staticmethod
        def write(handle: int, data: bytes) -> int:
            points.point()
            if points.passed():
                write(handle, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return write(handle, data)

        @staticmethod
        def fsync(handle: int) -> None:
            os.fsync(handle)
            points.point()

        @staticmethod
        def replace(source: Any, target: Any) -> None:
            points.point()
            replace(source, target)
            points.point()

    botocore.httpsession.URLLib3Session.send = killable_send
    batch.os = disk.os = Os()


def child(argv: list[str], kill_at: int, shared: mmap.mmap, told: str) -> int:
    from parapet.pipelines.main import main

    handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    patch(Points(shared, kill_at))
    status = main(argv)
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    import boto3
    import pyarrow.parquet

    from parapet.pipelines.mturk import ask, pay
    from parapet.transforms.crowd.mturk import client
    from parapet.transforms.reports import report

    # Loaded once here, not in every child. A session reads megabytes of service descriptions, and keeps them.
    assert all((pyarrow.parquet, ask, pay))
    report.environment().get_template("report.html.jinja")
    session = boto3.session.Session(region_name=client.REGION)
    boto3.session.Session = lambda **_: session
    client.connect("http://127.0.0.1:1")
    shared = mmap.mmap(-1, 8)
    for line in sys.stdin:
        order = json.loads(line)
        shared[:8] = struct.pack("q", 0)
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                status = child(order["argv"], order["kill_at"], shared, order["told"])
            finally:
                os._exit(status)
        _, ended = os.waitpid(pid, 0)
        status = -os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
        print(json.dumps({"status": status, "points": struct.unpack("q", shared[:8])[0]}), flush=True)


if __name__ == "__main__":
    main()
