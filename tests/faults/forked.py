"""Runs commands in forked children below ``operations.c``; reads JSON lines from standard input.

Beam takes seconds to load: it is loaded once, here, and nothing has run when a child is forked.
"""

import ctypes
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable


def publish(output: str, contents: str) -> int:
    """What a pipeline does in the end, without the pipeline."""
    from parapet.transforms.core import files

    files.prepare(output, "compose")
    written = [files.write_staged(output, path, text.encode()) for path, text in json.loads(contents).items()]
    files.publish(output, files.manifest_of({"pipeline": "compose", "version": "1"}, {}, written))
    return 0


def load(path: str) -> int:
    """Reads a corpus to its end."""
    import parapet

    corpus = parapet.load_corpus(path)
    for split in corpus.splits:
        assert list(corpus.dialogues(split))
    return 0


CALLS = {"publish": publish, "load_corpus": load}


def reported(call: Callable[..., int], *given: object) -> int:
    """Calls a function, and reports an error as a command does."""
    from parapet.schemas.errors import DiskError, InputError

    try:
        return call(*given)
    except (DiskError, InputError) as error:
        print(f"error: {error}")
        return 1


def child(order: dict) -> int:
    os.setsid()
    handle = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(order["folder"])
    os.environ.update(order["environment"], FAULTS=order["state"])
    preloaded = ctypes.CDLL(None)
    preloaded.faults_attach(order["state"].encode())
    preloaded.faults_lead()
    command, *rest = order["argv"]
    if command in CALLS:
        return reported(CALLS[command], *rest)
    from parapet.pipelines.main import main

    return main(order["argv"])


def main() -> None:
    import apache_beam.runners.portability.fn_api_runner
    import pyarrow.parquet

    import parapet.transforms.perturb.files

    assert all((apache_beam, pyarrow, parapet))
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                status = child(order)
            except SystemExit as stop:
                status = int(stop.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(pid, 0)
        print(json.dumps(os.waitstatus_to_exitcode(ended)), flush=True)


if __name__ == "__main__":
    main()
