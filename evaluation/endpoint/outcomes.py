"""What became of the requests of a prediction by a language model, from the counts in its ``run.json``."""

from collections.abc import Mapping
from fractions import Fraction

from parapet.schemas.errors import InputError

# Kinds of counts: refused requests by reason, and (with its name) a parameter that was left out.
REFUSALS, WITHOUT = "refusals", "without_"

Counts = Mapping[str, int]  # by KIND/NAME, or KIND


def totals(counts: Counts) -> dict[str, int]:
    """Sums the counts by kind."""
    sums: dict[str, int] = {}
    for name, n in counts.items():
        kind = name.partition("/")[0]
        sums[kind] = sums.get(kind, 0) + n
    return sums


def left_out(counts: Counts) -> str:
    """Lists the parameters that the endpoint does not take."""
    return ", ".join(sorted(kind.removeprefix(WITHOUT) for kind in totals(counts) if kind.startswith(WITHOUT)))


def refusals(counts: Counts) -> tuple[int, int, str]:
    """Returns the numbers of refused and of all requests, and the most frequent reason in the endpoint's words."""
    sums = totals(counts)
    refused = sums.get("refused", 0)
    reasons = sorted((-n, name) for name, n in counts.items() if name.startswith(f"{REFUSALS}/"))
    return refused, refused + sums.get("answers_had", 0), reasons[0][1].partition("/")[2] if reasons else ""


def check_refusals(counts: Counts, max_bad: Fraction) -> None:
    """Raises InputError if a larger share of the requests was refused."""
    refused, requests, reason = refusals(counts)
    if refused > max_bad * requests:
        text = f"{refused:,} of {requests:,} requests were refused, more than --max_bad {float(max_bad):.2%}: {reason}"
        raise InputError(f"{text}; the answers are kept, run the same command again to ask for the others")
