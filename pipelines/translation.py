"""The options of commands that translate: engines, their memories, and what only one engine takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from parapet.pipelines.command import counted, say
from parapet.schemas.errors import InputError
from parapet.transforms.core import plugins
from parapet.transforms.core.options import PARALLEL_CALLS, Options, option

if TYPE_CHECKING:
    from parapet.transforms.translate.memory import Engine
    from parapet.transforms.translate.translate import Translating

PAID = ".paid"  # hidden folder in the output: answers are kept here as they arrive, until the final memory is published
EMBEDDED = "embedded"
MEMORY = "memory"  # no engine: only looks up translations in the memories

_GROUP = "translation"
_google = partial(option, group="--engine google", rare=True)


def _pivot(text: str) -> str:
    if not text.isascii() or not text.replace("-", "").isalnum() or text == "en":
        raise InputError(f"{text!r} is not a language code such as zh, ja or ko")
    return text


class TranslationOptions(Options):
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
    pivots: tuple[str, ...] = option(
        (),
        "pivot languages (default: pt with --engine embedded, else zh,ja,ko)",
        group=_GROUP,
        commas=True,
        parse=_pivot,
    )
    memory: list[str] = option(
        [],
        "translation memories: Parquet files, or folders of them (OUT/memory.parquet is always read)",
        group=_GROUP,
        metavar="PATH",
        reads=True,
    )
    model: list[str] = option(
        [],
        "models for --engine local: Marian, M2M100 or NLLB; for all pairs, or en-zh=DIR zh-en=DIR",
        group=_GROUP,
        metavar="[PAIR=]DIR",
    )
    google_project: str = option(
        "", "project that pays for --engine google (default: GOOGLE_CLOUD_PROJECT)", group=_GROUP, metavar="ID"
    )
    parallel_calls: int | None = option(None, f"{PARALLEL_CALLS} (default: 4)", group=_GROUP, rare=True)
    google_location: str = _google("", "region (default: global)", metavar="PLACE")
    google_model: str = _google("", "translation model (default: general/nmt)", metavar="NAME")
    google_endpoint: str = _google("", "another address; http://... without encryption", metavar="HOST:PORT")
    beams: int | None = option(None, "beams of the search (default: 4)", group="--engine local", rare=True, ge=1)

    def translating(self, output: str, engine: str, pivots: Sequence[str], dry: bool) -> Translating:
        """Reads the memories of ``--memory``, of an earlier run and of an interrupted one, and opens the engine.

        Args:
          output: the output folder.
          engine: the name of the engine.
          pivots: the languages.
          dry: whether the engine is not opened.

        Raises:
          InputError: a memory cannot be read, or the engine cannot be used.
        """
        from parapet.schemas.layout import is_there
        from parapet.transforms.core.files import join
        from parapet.transforms.translate import memory
        from parapet.transforms.translate.translate import Known, Translating, read_parts

        before, paid = join(output, memory.MEMORY_FILE), join(output, PAID)
        memories = [*self.memory, before] if is_there(before) else self.memory
        rows = memory.merge(*(memory.read_memory(path) for path in memories), read_parts(paid))
        opened = self.open_engine(engine, pivots)
        if opened and not dry:  # so that wrong keys and addresses are reported before any worker starts
            opened.open()
            opened.close()
        known = Known(memory.by_languages(rows, *((opened.provider, opened.model) if opened else ())))
        if not opened and not any(known.of("en", pivot) for pivot in pivots):
            reason = f"there are no translations into {', '.join(pivots)}: add a memory, or choose another --engine"
            raise InputError(f"the engine 'memory' only replays translations; {reason}", "--memory")
        return Translating(known, opened, paid, rows, pivots)

    def check_engine(self, engine: str) -> None:
        """Raises InputError if an option is for other engines."""
        for name, engines in self.engines.items():
            if engine not in engines and getattr(self, name):
                raise InputError(f"is for --engine {engines[0]}, but the engine is {engine}", f"--{name}")

    def open_engine(self, engine: str, pivots: Sequence[str]) -> Engine | None:
        """Makes an engine; ``memory`` is none. Raises InputError if the options do not fit it."""
        chosen = plugin_of(engine)
        if chosen is None:
            return None
        from parapet.transforms.translate.memory import Engine as Protocol

        values = {name: getattr(self, name) for name in ("parallel_calls", *self.engines)}
        options = {name: value for name, value in values.items() if value not in (None, "", [])}
        made: Engine = plugins.make(chosen, plugins.members(Protocol), options={**options, "pivots": pivots})
        return made

    def settle(self, how: Translating, counters: Mapping[str, int]) -> None:
        """Deletes the answers that the published memory now has, and says what the engine was sent, and the cost."""
        from parapet.transforms.core.files import clear

        clear(how.paid)
        if how.engine:
            characters, requests = counters.get("codepoints", 0), counters.get("requests", 0)
            sent = f"{counted(characters, 'character')} in {counted(requests, 'request')}"
            say(f"sent to {how.engine.provider}: {sent}, ${characters * how.engine.dollars_per_million / 1e6:,.2f}")


def plugin_of(engine: str) -> plugins.Chosen | None:
    """Looks up the engine of ``--engine``; None for ``memory``."""
    return None if engine == MEMORY else plugins.choose(plugins.TRANSLATION_ENGINES, engine, "--engine")
