"""Options of commands, models and perturbations, declared once as fields of frozen dataclasses.

A field is a flag of the command line, a key of a suite's step, a keyword argument in Python and an entry of ``options``
in ``run.json``::

    class Simulate(Pipeline):
        epochs: int = option(20, "most epochs", ge=1)
        sizes: tuple[str, ...] = option(("50", "100"), "sizes of the sets", commas=True)
        schedule: Literal["constant", "linear"] = option("linear", "how the learning rate falls", rare=True)
        seed: str = seed()

The type is that of the values: ``str``, ``int``, ``float``, ``bool`` for a switch, a ``Literal`` of choices, a list or
tuple of several values, or any type that ``parse`` makes of a text. Each may be ``None``, too. A field that is not
declared by :func:`option` is not a flag; a subclass may change the default of a field (``epochs: int = 3``).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field
from fractions import Fraction
from typing import Any, dataclass_transform

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, as_path

INPUT, OUTPUT, RUNNING = "input", "output", "running"
REQUIRED: Any = MISSING  # the default of an option that must be given


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """A command, or a group of options: each subclass becomes a frozen dataclass with keyword arguments."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        dataclass(frozen=True, kw_only=True)(cls)


def option(
    default: Any,
    text: str,
    *,
    group: str = "",
    rare: bool = False,
    also: Sequence[str] = (),
    metavar: str = "",
    reads: bool = False,
    path: bool = False,
    commas: bool = False,
    positional: bool = False,
    repeated: bool = False,
    extend: bool = False,
    choices: Iterable[Any] = (),
    completes: Sequence[str] = (),
    parse: Callable[[str], Any] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """Declares an option.

    Args:
      default: its default, or :data:`REQUIRED`.
      text: the help; ``{NAME}`` stands for the class variable of this name.
      group: the section of the help; by default that of the command.
      rare: only ``--help-all`` shows it.
      also: further names of the flag.
      metavar: the name of its value in the help.
      reads: its values are files or folders that must exist.
      path: its values are files or folders that are checked elsewhere, or may be.
      commas: several values are one text with commas; else they are several words.
      positional: the command line has its value without a flag.
      repeated: each of several values has the flag before it.
      extend: the values of all occurrences count; else only those of the last.
      choices: the allowed values, where the type is no ``Literal``; a container that is filled when it is asked.
      completes: values that the shell proposes.
      parse: makes the value of its text; raises InputError for a text that it cannot use.
      ge, gt, le, lt: the range of a number: at least, above, at most, below.
    """
    facts = {
        "text": text, "group": group, "rare": rare, "also": also, "metavar": metavar, "reads": reads,
        "path": path or reads, "commas": commas, "choices": choices, "completes": completes, "parse": parse,
        "positional": positional, "repeated": repeated, "extend": extend, "ge": ge, "gt": gt, "le": le, "lt": lt
    }  # fmt: skip
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=facts)
    return field(default=default, metadata=facts)


def parse_share(text: str) -> Fraction:
    """Parses ``5%`` or ``0.05``. Refuses a bare 1, which could mean 1% or 100%."""
    words = text.strip()
    try:
        number = Fraction(words.removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        number = Fraction(-1)
    if not words.endswith("%") and number >= 1:
        raise InputError(f"{text!r} is ambiguous: write {words}% or 100%")
    share = number / 100 if words.endswith("%") else number
    if not 0 <= share <= 1:
        raise InputError(f"{text!r} is not a share: give a percentage from 0% to 100%, or a fraction such as 0.05")
    return share


# Options that many commands share.

_SAMPLE = "(default: the bundled sample)"
PARALLEL_CALLS = "requests at a time, up to 32"
SCHEMA_VARIANTS = "schema variants: output of 'compose', or sgd_x/data"


def output_folder() -> Any:
    """``--output``, a folder."""
    return option(REQUIRED, "folder to write, local or gs://", group=OUTPUT, metavar="OUT", parse=_folder)


def _folder(text: str) -> str:
    if any(letter in text for letter in "*?["):
        raise InputError(f"{text}: the name must not contain *, ? or [, which Beam reads as patterns")
    as_path(text)
    return text.rstrip("/") or "/"


def sgd() -> Any:
    """``--sgd``, the corpus; empty for the sample."""
    return option("", f"corpus in the SGD format {_SAMPLE}", group=INPUT, metavar="ROOT", reads=True)


def schemas() -> Any:
    """``--schemas``; empty for the sample."""
    return option("", f"corpus, schemas or tools {_SAMPLE}", group=INPUT, metavar="ROOT", reads=True)


def split(default: str = "test", many: bool = False) -> Any:
    """``--split``; if ``many``, it takes several, with commas."""
    text = "train, dev, test, comma-separated" if many else "train, dev or test"
    return option(default, text, group=INPUT, metavar="LIST" if many else "NAME", completes=SPLITS)


def folder(text: str, metavar: str = "DIR", default: Any = "", group: str = INPUT, **facts: Any) -> Any:
    """A file or folder that must exist, if it is given; several if the default is a list."""
    return option(default, text, group=group, metavar=metavar, reads=True, **facts)


def variant() -> Any:
    """``--variant``, which selects variants from the folder ``--variants``."""
    return option("", "variants to use, such as v1,v3 (default: all)", group=INPUT, rare=True, metavar="LIST")


def seed(of: str = "", default: str | int = "0") -> Any:
    """``--seed``, a text, or a number if the field is one. ``of`` names the part of the run that is random."""
    return option(default, f"random seed{f' of {of}' * bool(of)}", group=RUNNING)


def repeats(text: str) -> Any:
    """``--repeats``, the number of runs of a system."""
    return option(1, f"independent {text}", group=RUNNING, metavar="N", ge=1, le=1000)


def max_bad(records: str = "dialogues") -> Any:
    """``--max_bad``, the share of the input records that may be unusable, a Fraction."""
    text = f"share of {records} that may be unusable (default: 1%)"
    return option(Fraction(1, 100), text, group=RUNNING, metavar="SHARE", parse=parse_share)


def dry_run() -> Any:
    """``--dry_run``."""
    return option(False, "print what would be done, and its cost; do nothing", group=RUNNING)


def workers() -> Any:
    """``--workers``, the number of local processes."""
    text = "local processes (default: 1; for large inputs one for each core, up to 8)"
    return option(None, text, group=RUNNING, rare=True, metavar="N", ge=1)
