"""The options of commands that translate: engines, their memories, and what only one engine takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from parapet.pipelines.command import counted
from parapet.schemas.errors import InputError
from parapet.transforms.running import plugins
from parapet.transforms.running.options import PARALLEL_CALLS, option

if TYPE_CHECKING:
    from parapet.schemas.rows import Translation
    from parapet.transforms.translation.memory import Engine

PAID = ".paid"  # hidden folder in the output: answers are kept here as they arrive, until the final memory is published
CHECKPOINT = "checkpoint"  # an engine of language_variations that takes two options of the engine "local"
EMBEDDED = "embedded"
MEMORY = "memory"  # no engine: only looks up translations in the memories

MODELS = "models for --engine local: Marian, M2M100 or NLLB; for all pairs, or en-zh=DIR zh-en=DIR"
PROJECT = "project that pays for --engine google (default: GOOGLE_CLOUD_PROJECT)"
_GROUP, _GOOGLE = "translation", "--engine google"


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """The engine, its memories, and what only some engines take.

    Attributes:
      engines: the engines that an option is for, if these are not all.
    """

    engines: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys(("google_project", "google_location", "google_model", "google_endpoint"), ("google",)),
        **dict.fromkeys(("model", "beams"), ("local",)),
    }

    engine: str = option(
        "",
        "translation engine; memory only looks up --memory (default: memory with --memory, else embedded)",
        group=_GROUP,
        choices=plugins.Names(plugins.TRANSLATION_ENGINES, MEMORY),
    )
    pivots: str = option(
        "", "pivot languages (default: pt with --engine embedded, else zh,ja,ko)", group=_GROUP, metavar="LIST"
    )
    memory: list[str] = option(
        [],
        "translation memories: Parquet, CSV, or folders (OUT/memory.parquet is always read)",
        group=_GROUP,
        metavar="PATH",
        reads=True,
    )
    model: list[str] = option([], MODELS, group=_GROUP, metavar="[PAIR=]DIR")
    google_project: str = option("", PROJECT, group=_GROUP, metavar="ID")
    parallel_calls: int | None = option(None, f"{PARALLEL_CALLS} (default: 4)", group=_GROUP, rare=True)
    google_location: str = option("", "region (default: global)", group=_GOOGLE, metavar="PLACE", rare=True)
    google_model: str = option("", "translation model (default: general/nmt)", group=_GOOGLE, metavar="NAME", rare=True)
    google_endpoint: str = option(
        "", "another address; http://... without encryption", group=_GOOGLE, metavar="HOST:PORT", rare=True
    )
    beams: int | None = option(None, "beams of the search (default: 4)", group="--engine local", rare=True, ge=1)

    def read_memories(self, output: str) -> list[Translation]:
        """Reads the memories of ``--memory``, of an earlier run's output, and of an interrupted run.

        Raises InputError if a memory cannot be read.
        """
        from parapet.schemas.layout import is_there
        from parapet.transforms.storage.files import join
        from parapet.transforms.translation.memory import MEMORY_FILE, merge, read_memory
        from parapet.transforms.translation.translate import read_parts

        before = join(output, MEMORY_FILE)
        memories = [*self.memory, before] if is_there(before) else self.memory
        return merge(*(read_memory(path) for path in memories), read_parts(join(output, PAID)))

    def check_engine(self, engine: str) -> None:
        """Raises InputError if an option is for other engines."""
        for name, engines in self.engines.items():
            if engine not in engines and getattr(self, name):
                raise InputError(f"is for --engine {engines[0]}, but the engine is {engine}", f"--{name}")

    def open_engine(self, engine: str, pivots: Sequence[str], dry: bool) -> Engine | None:
        """Opens an engine, so that wrong keys and addresses are reported before any worker starts.

        Args:
          engine: its name; ``memory`` is none.
          pivots: the languages.
          dry: whether nothing is opened.

        Raises:
          InputError: the options do not fit the engine, or it cannot be opened.
        """
        chosen = plugin_of(engine)
        if chosen is None:
            return None
        from parapet.transforms.translation.memory import Engine as Protocol

        if self.parallel_calls is not None and not hasattr(plugins.load(chosen), "from_options"):
            raise InputError(f"cannot be set for --engine {engine}, which decides it itself", "--parallel_calls")
        values = {name: getattr(self, name) for name in ("parallel_calls", *self.engines)}
        options = {name: value for name, value in values.items() if value not in (None, "", [])}
        opened: Engine = plugins.make(chosen, plugins.members(Protocol), options={**options, "pivots": pivots})
        if not dry:
            opened.open()
            opened.close()
        return opened


def parse_pivots(text: str) -> list[str]:
    """Parses a list such as ``zh,ja`` to language codes without duplicates. Raises InputError for an invalid code."""
    pivots = list(dict.fromkeys(pivot.strip() for pivot in text.split(",") if pivot.strip()))
    for pivot in pivots or [""]:
        if not pivot.isascii() or not pivot.replace("-", "").isalnum() or pivot == "en":
            raise InputError(f"{pivot!r} is not a language code such as zh, ja or ko", "--pivots")
    return pivots


def plugin_of(engine: str) -> plugins.Chosen | None:
    """Looks up the engine of ``--engine``; None for ``memory``."""
    return None if engine == MEMORY else plugins.choose(plugins.TRANSLATION_ENGINES, engine, "--engine")


def bill(engine: str, dollars_per_million: float, counters: Mapping[str, int]) -> str:
    """Formats the numbers of characters and requests sent to an engine, and their cost, from the run's counters."""
    characters, requests = counters.get("codepoints", 0), counters.get("requests", 0)
    dollars = characters * dollars_per_million / 1e6
    return f"sent to {engine}: {counted(characters, 'character')} in {counted(requests, 'request')}, ${dollars:,.2f}"
