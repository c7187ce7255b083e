"""What the pipelines that translate share: flags of the engines, the engine that they name, memories that are given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from parapet.pipelines.command import counted
from parapet.pipelines.flags import PARALLEL_CALLS, Parser
from parapet.schemas.errors import InputError
from parapet.schemas.layout import sample_root
from parapet.transforms import plugins

if TYPE_CHECKING:
    from parapet.schemas.rows import Translation
    from parapet.transforms.translation.engine import Engine

PAID = ".paid"  # below the output: every answer as it came, until the memory that is published has it
CHECKPOINT = "checkpoint"  # an engine of language_variations, which has two flags of the engine "local"
MEMORY = "memory"  # nobody is asked: what the memories have is replayed
ENGINE = "translation engine; memory only looks up --memory"  # the help of --engine
ENGINES = plugins.Names(plugins.TRANSLATION_ENGINES, MEMORY)

# The flags that only one of the engines has a use for.
_FLAGS_OF = {
    "google": ("google_project", "google_location", "google_model", "google_glossary", "google_endpoint"),
    "libretranslate": ("libretranslate_url",),
    "local": ("model", "beams", "sample", "temperature"),
}
FLAGS = ("memory", "parallel_calls", *(flag for flags in _FLAGS_OF.values() for flag in flags))


def add_flags(parser: Parser, rare: bool = False, more: str = "") -> None:
    """Adds the flags of all engines, but ``--engine`` and ``--pivots``.

    Args:
      parser: the parser.
      rare: whether translation is a side line.
      more: behind the help of ``--model``.
    """
    add = parser.group("translation")
    add(
        "--memory",
        nargs="+",
        default=[],
        metavar="PATH",
        reads=True,
        help="translation memories: Parquet, CSV, or folders (OUT/memory.parquet is always read)",
    )
    add(
        "--model",
        rare=rare,
        nargs="+",
        metavar="[PAIR=]DIR",
        help="models for --engine local: Marian, M2M100 or NLLB; for all pairs, or en-zh=DIR zh-en=DIR" + more,
    )
    add(
        "--libretranslate_url",
        rare=rare,
        metavar="URL",
        help="server of --engine libretranslate; key in LIBRETRANSLATE_API_KEY",
    )
    add(
        "--google_project",
        rare=rare,
        metavar="ID",
        help="project that pays for --engine google (default: GOOGLE_CLOUD_PROJECT)",
    )
    add("--parallel_calls", rare=True, type=int, metavar="N", help=f"{PARALLEL_CALLS} (default: 4)")
    add = parser.group("--engine google", rare=True)
    add("--google_location", metavar="PLACE", help="region (default: global)")
    add("--google_model", metavar="NAME", help="translation model (default: general/nmt)")
    add("--google_glossary", metavar="NAME", help="glossary of that project and region")
    add("--google_endpoint", metavar="HOST:PORT", help="another address; http://... without encryption")
    add = parser.group("--engine local", rare=True)
    add("--beams", type=int, metavar="N", help="beams of the search (default: 4)")
    add("--sample", action="store_true", default=None, help="sample words instead of searching, for diversity")
    add("--temperature", type=float, metavar="X", help="temperature of --sample (default: 1)")


def check_flags(args: argparse.Namespace) -> None:
    """Raises InputError where a flag of another engine is given."""
    for engine, flags in _FLAGS_OF.items():
        for flag in flags:
            shared = args.engine == CHECKPOINT and flag in ("model", "beams")
            if engine != args.engine and not shared and getattr(args, flag) is not None:
                raise InputError(f"is for --engine {engine}, and this is {args.engine}", f"--{flag}")


def parse_pivots(given: str) -> list[str]:
    """``zh,ja`` as codes of languages, each once. Raises InputError."""
    pivots = list(dict.fromkeys(pivot.strip() for pivot in given.split(",") if pivot.strip()))
    for pivot in pivots or [""]:
        if not pivot.isascii() or not pivot.replace("-", "").isalnum() or pivot == "en":
            raise InputError(f"{pivot!r} is no pivot: give codes of languages, such as zh,ja,ko", "--pivots")
    return pivots


def read_memories(args: argparse.Namespace, corpus: str | None) -> list[Translation]:
    """What is given, what an earlier run published, what one that was cut off has paid for.

    Args:
      args: with ``memory``, ``engine`` and ``output``.
      corpus: as it was given; nothing for the sample, which brings a memory.

    Raises:
      InputError: a memory that cannot be read.
    """
    from parapet.schemas.layout import is_there
    from parapet.transforms.files import join
    from parapet.transforms.translation.memory import MEMORY_FILE, merge, read_memory
    from parapet.transforms.translation.translate import read_parts

    given = list(args.memory)
    if not given and not corpus and args.engine == MEMORY:
        given = [str(sample_root() / "translations.csv")]
    before = join(args.output, MEMORY_FILE)
    if is_there(before):
        given.append(before)
    return merge(*(read_memory(path) for path in given), read_parts(join(args.output, PAID)))


def open_engine(args: argparse.Namespace, pivots: Sequence[str], seed: str | None) -> Engine | None:
    """The engine that the flags name, opened once so that wrong keys and addresses are told before a worker starts.

    Args:
      args: with the flags of :func:`add_flags`, ``engine`` and ``dry_run``, which opens nothing.
      pivots: the languages.
      seed: of a local model that draws.

    Returns:
      The engine; None for ``memory``.

    Raises:
      InputError: there can be none, or it does not open.
    """
    chosen = plugin_of(args)
    if chosen is None:
        return None
    from parapet.transforms.translation.engine import Engine as Protocol

    if args.parallel_calls is not None and not hasattr(plugins.load(chosen), "from_options"):
        raise InputError(f"{args.engine} decides itself how many", "--parallel_calls")
    options = {flag: getattr(args, flag) for flag in FLAGS if getattr(args, flag) is not None}
    options |= {"pivots": pivots, **({} if seed is None else {"seed": seed})}
    engine: Engine = plugins.make(chosen, plugins.members(Protocol), options=options)
    if not args.dry_run:
        engine.open()
        engine.close()
    return engine


def plugin_of(args: argparse.Namespace) -> plugins.Chosen | None:
    """What ``--engine`` names; None for ``memory``."""
    return None if args.engine == MEMORY else plugins.choose(plugins.TRANSLATION_ENGINES, args.engine, "--engine")


def bill(engine: str, dollars_per_million: float, counters: Mapping[str, int]) -> str:
    """What was sent to an engine and what it costs, given the run's counters."""
    characters, requests = counters.get("codepoints", 0), counters.get("requests", 0)
    dollars = characters * dollars_per_million / 1e6
    return f"sent to {engine}: {counted(characters, 'character')} in {counted(requests, 'request')}, ${dollars:,.2f}"
