"""What a distribution requires, of itself and of its extras, against what is installed. Nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from parapet.pipelines.doctor.findings import Finding
from parapet.schemas.distribution import DISTRIBUTION, install_line

# What may be uninstalled, and why nothing is lost by it.
SPARE = {"python-levenshtein": "absent: rapidfuzz gives the same values"}

# What each extra is for. An extra that is not listed is shown without it.
ENABLES = {
    "azure": "speech_errors --engine azure",
    "docs": "make docs (for developers)",
    "gcp": "Dataflow; gs:// paths in every pipeline",
    "google": "back_translate, language_variations: --engine google",
    "hub": "release push",
    "lint": "make lint (for developers)",
    "local": "back_translate, language_variations: --engine local; evaluate --scorer nli; train: checkpoints",
    "models": "train and predict, without checkpoints",
    "moonshine": "speech_errors --listener moonshine",
    "mturk": "mturk",
    "notebooks": "the notebooks of docs/notebooks; Beam in any notebook",
    "pandas": "parapet.to_pandas",
    "sign": "release sign; release verify, of signed releases",
    "speech": "speech_errors, offline",
    "test": "make test (for developers)",
}

_SHOWN = 4


def python_is_enough(running: str) -> tuple[bool, str]:
    """Whether this Python is of a version that the distribution takes, and which it takes."""
    wanted = str(metadata(DISTRIBUTION)["Requires-Python"] or "")
    return SpecifierSet(wanted).contains(running, prereleases=True), wanted


def core() -> list[Finding]:
    """What the core needs: each problem, and a line on all that is installed.

    Raises:
      PackageNotFoundError: the distribution is not installed.
    """
    wanted = requirements_of(DISTRIBUTION)
    found: list[Finding] = []
    for one in wanted:
        wrong = list(problems(one))
        spare = SPARE.get(canonicalize_name(one.name))
        if wrong and spare and installed(one.name) is None:
            found.append(Finding(one.name, "missing", detail=spare, next=f"pip install '{one.name}{one.specifier}'"))
        elif wrong:
            detail = "; ".join(wrong)
            found.append(Finding(one.name, "wrong", "everything", detail, f"pip install '{one.name}{one.specifier}'"))
    good = len(wanted) - len(found)
    return [Finding("packages", "there", detail=f"{good} of {len(wanted)}, of versions in range"), *found]


def extras() -> list[Finding]:
    """Each extra: whether all of it is there, and what it is for."""
    return [_extra(name) for name in sorted(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())]


def _extra(name: str) -> Finding:
    wanted = requirements_of(DISTRIBUTION, name)
    wrong = [problem for one in wanted for problem in problems(one)]
    enables = ENABLES.get(name, "")
    install = install_line(name)
    if wrong:
        # Of a version out of range something is broken; what is only not there was never asked for.
        broken = all(installed(one.name) is not None for one in wanted)
        return Finding(name, "wrong" if broken else "missing", enables, _listed(wrong), install)
    return Finding(name, "there", enables, _listed([f"{one.name} {installed(one.name)}" for one in wanted]))


def _listed(of: list[str]) -> str:
    more = len(of) - _SHOWN
    return ", ".join(of[:_SHOWN]) + (f", and {more} more" if more > 0 else "")


def requirements_of(distribution: str, extra: str = "") -> list[Requirement]:
    """What a distribution requires here: by itself, or only with an extra."""
    found = []
    for line in requires(distribution) or ():
        one = Requirement(line)
        by_itself = one.marker is None or one.marker.evaluate({"extra": ""})
        if extra:
            wanted = not by_itself and one.marker is not None and one.marker.evaluate({"extra": extra})
        else:
            wanted = by_itself
        if wanted:
            found.append(one)
    return found


def problems(one: Requirement, seen: Iterable[str] = ()) -> Iterator[str]:
    """What is wrong with a requirement: it is not there, of another version, or lacks something of its own extras."""
    there = installed(one.name)
    if there is None:
        yield f"{one.name} is not installed"
    elif not one.specifier.contains(there, prereleases=True):
        yield f"{one.name} {there} is not {one.specifier}"
    else:
        for extra in sorted(one.extras - set(seen)):
            for further in requirements_of(one.name, extra):
                yield from problems(further, {*seen, extra})


@cache
def installed(name: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
