"""Servers on this machine: their sockets, and their end."""

import socket
from types import FrameType
from typing import Any

import uvicorn

from parapet.schemas.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket. Raises InputError if the address is in use or not on this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise InputError(f"cannot listen at {host} port {port}: {error.strerror or error}", "--port") from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so only for sockets that it makes
    return listener


class Server(uvicorn.Server):
    """A server without logs of requests.

    It ends in an orderly way on Ctrl-C and termination signals, which uvicorn would raise again after stopping.

    Args:
      app: the ASGI application.
      settings: further settings of uvicorn.
    """

    def __init__(self, app: Any, **settings: Any) -> None:
        silent: dict[str, Any] = {"log_config": None, "log_level": "critical", "server_header": False}
        super().__init__(
            uvicorn.Config(app, ws="none", lifespan="off", timeout_graceful_shutdown=5, **silent, **settings)
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops serving."""
        self.should_exit = True
