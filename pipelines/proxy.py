"""``parapet proxy``: puts any agent under other wordings of its tools."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import urlsplit

from parapet.pipelines import app, command
from parapet.pipelines.command import say
from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core import fence, options
from parapet.transforms.core.options import OUTPUT, option

if TYPE_CHECKING:
    from parapet.transforms.proxy.server import Side, ToolServerSide

ORIGINAL = "original"


class Proxy(app.Command["dict[str, Side]"]):
    """``parapet proxy``."""

    name = "proxy"
    description = """\
Stands between an agent and its model, which sees the agent's tools in other words; its calls are mapped back, so that
the agent's own tools still run. Give the agent the printed address instead of that of its API: OpenAI's Chat
Completions or Responses, or Anthropic's Messages. With --mcp it stands between an MCP client and a server.

Tools without a variant and calls that cannot be mapped back pass as they are, and are counted. Credentials are passed
on and never written, and neither are texts without --log."""
    example = """\
  parapet proxy --variants my_variants --variant v3 --upstream https://api.openai.com/v1
  parapet proxy --variants my_variants --variant v3 --mcp -- python my_mcp_server.py
  parapet proxy --record tools.json --upstream http://127.0.0.1:8080/v1   # collects the tools to reword"""
    group = "server"
    stopped = "run the same command again"

    variants: str = options.folder("tool variants: output of 'compose' or 'back_translate'")
    variant: str = option(ORIGINAL, "the variant; all are below /x/NAME/, too", group=options.INPUT, metavar="NAME")
    upstream: str = option("", "address of the model's API", group=options.INPUT, metavar="URL")
    mcp: str = option("", "instead of --upstream: an MCP server", group=options.INPUT, metavar="URL|-- COMMAND")
    perturb: str = option("", "perturbation of what users say, such as typos", group=options.INPUT, metavar="NAME")
    seed: str = options.seed("--perturb")
    record: str = option("", "new file of the tools that pass by, for --schemas", group=OUTPUT, metavar="FILE")
    log: str = option("", "file to which requests and answers are appended", group=OUTPUT, rare=True, metavar="FILE")
    host: str = option("127.0.0.1", "address to listen on", metavar="ADDRESS")
    port: int = option(8400, "port; 0 for a free one", ge=0, le=65_535)

    @property
    def has_child(self) -> bool:
        """Whether the MCP server is a command, to which we speak by stdin and stdout."""
        return bool(self.mcp) and "://" not in self.mcp

    def check(self) -> dict[str, Side]:
        """Reads the variants. Raises InputError if an option cannot be used."""
        try:
            from parapet.transforms.proxy import server
        except ImportError as error:
            raise MissingExtra(str(error.name), "collect") from None
        from parapet.transforms.variants.matching import find_variants
        from parapet.transforms.variants.tool_variants import read_variant

        self._check_together()
        folders = find_variants(self.variants) if self.variants else {}
        variants = {ORIGINAL: None} | {name: read_variant(name, folder) for name, folder in folders.items()}
        if self.variant not in variants:
            raise InputError(f"there is no variant {self.variant!r} (found: {', '.join(variants)})", "--variant")
        record = server.Record(Path(self.record) if self.record else None)
        perturb = server.perturbing(self.perturb, self.seed) if self.perturb else None
        return {
            name: server.ToolServerSide(variant, record) if self.mcp else server.ModelSide(variant, record, perturb)
            for name, variant in variants.items()
        }

    def act(self, sides: dict[str, Side]) -> int:
        """Passes messages until Ctrl-C, or until the MCP server ends."""
        status, tell = 0, logging.info if self.has_child else say  # stdout belongs to the MCP client
        try:
            with open(self.log, "a", encoding="utf-8") if self.log else nullcontext() as log:
                if self.has_child:
                    from parapet.transforms.proxy import server

                    status = server.serve_stdio(shlex.split(self.mcp), cast("ToolServerSide", sides[self.variant]), log)
                else:
                    self._serve(sides, log)
        finally:
            sides[self.variant].record.write()
        for name, side in sides.items():
            for line in side.statistics.lines():
                tell(f"{name}: {line}")
        return status

    def _serve(self, sides: dict[str, Side], log: IO[str] | None) -> None:
        from parapet.transforms.core import web
        from parapet.transforms.proxy import server

        upstream = self.mcp or self.upstream
        with web.listen(self.host, self.port) as listener:
            host = f"[{self.host}]" if ":" in self.host else self.host
            address = f"http://{host}:{listener.getsockname()[1]}"
            say(f"{address} leads to {upstream}, variant {self.variant}; press Ctrl-C to stop")
            for name in sides:
                say(f"{address}/x/{name}: variant {name}")
            asyncio.run(server.serve(listener, upstream, sides, self.variant, log))

    def _check_together(self) -> None:
        address = "" if self.has_child else self.mcp or self.upstream
        if bool(self.mcp) == bool(self.upstream):
            raise InputError("give the address of a model's API, or an MCP server with --mcp", "--upstream")
        if address and not fence.SERVER.fullmatch(address):
            raise InputError("is not an address such as https://api.openai.com/v1", address)
        if self.perturb and self.mcp:
            raise InputError("is for --upstream: an MCP server does not receive what users say", "--perturb")
        if self.variant == ORIGINAL and self.has_child and self.variants:
            raise InputError("is required with the command of an MCP server", "--variant")
        if self.record and os.path.exists(self.record):
            raise InputError("exists already: give the name of a new file", self.record, "--record")
        if address.startswith("http://") and urlsplit(address).hostname not in fence.THIS_MACHINE:
            logging.warning("%s: credentials are sent there unencrypted", address)
        if self.host not in fence.THIS_MACHINE and not self.has_child:
            logging.warning("--host %s: whoever reaches this address can use the proxy", self.host)


COMMAND = Proxy


def run(argv: Sequence[str]) -> int:
    """Runs the command; what follows ``--mcp --`` is the command of the MCP server."""
    words = list(argv)
    if "--" in words and words[: words.index("--")][-1:] == ["--mcp"]:
        end = words.index("--")
        words[end - 1 :] = [f"--mcp={shlex.join(words[end + 1 :])}"]
    return command.run(COMMAND, words)
