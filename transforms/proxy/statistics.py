"""What the proxy has done in a variant."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    from parapet.transforms.proxy.conversation import RewordedTools

_MOST_UNMAPPED = 1_000  # different calls that are counted, as models invent names
_MOST_TIMES = 10_000  # the latest requests whose time is known
_MOST_LINES = 10
_OTHERS = ("others", "", "others")


class Statistics:
    """Counts of requests, tools and calls.

    Args:
      called: counts the calls by the original name of the tool, in all variants.
    """

    def __init__(self, called: Counter[str]) -> None:
        self._called, self.counts, self._unknown = called, Counter[str](), Counter[str]()
        self._unmapped = Counter[tuple[str, str, str]]()
        self._milliseconds = deque[float](maxlen=_MOST_TIMES)

    def count_tools(self, tools: RewordedTools) -> None:
        """Counts the tools of a request."""
        self.counts["tools_reworded"] += tools.reworded
        self.counts["tools_hosted"] += tools.hosted
        self._unknown.update(tools.unknown)

    def count_call(self, name: str, original: str, problem: str) -> None:
        """Counts a call.

        Args:
          name: the name that the model called.
          original: the name of the tool; empty if there is none.
          problem: why the call cannot be mapped; empty if it can.
        """
        self.counts["calls_unmapped" if problem else "calls_mapped"] += 1
        if original:
            self._called[original] += 1
        if problem:
            call = (name, original, problem)
            has_room = call in self._unmapped or len(self._unmapped) < _MOST_UNMAPPED
            self._unmapped[call if has_room else _OTHERS] += 1

    def count_time(self, seconds: float) -> None:
        """Counts the time that the proxy itself needed for a request and its answer."""
        self._milliseconds.append(1_000 * seconds)

    def table(self) -> dict[str, Any]:
        """Returns all of it, for JSON."""
        names = ("requests", "tools_reworded", "tools_hosted", "calls_mapped")
        unmapped = [
            {"called": called, "original": original or None, "problem": problem, "times": times}
            for (called, original, problem), times in self._unmapped.most_common()
        ]
        percentiles = quantiles([*self._milliseconds] * 2, n=100) if self._milliseconds else [0.0] * 99
        return {
            **{name: self.counts[name] for name in names},
            "tools_without_variant": dict(self._unknown.most_common()),
            "calls_unmapped": unmapped,
            "milliseconds_added": {"p50": round(percentiles[49], 3), "p99": round(percentiles[98], 3)},
        }

    def lines(self) -> Iterator[str]:
        """Yields what people want to know at the end; nothing if there was no request."""
        counts, milliseconds = self.counts, self.table()["milliseconds_added"]
        if not counts["requests"]:
            return
        reworded, mapped = counted(counts["tools_reworded"], "tool"), counted(counts["calls_mapped"], "call")
        yield f"{counted(counts['requests'], 'request')}, {reworded} reworded, {mapped} mapped, " + (
            "{:,} not; {p50:.1f} ms added (median), {p99:.1f} ms (99th percentile)"
        ).format(counts["calls_unmapped"], **milliseconds)
        for name, times in self._unknown.most_common(_MOST_LINES):
            yield f"tool {name!r} has no variant with these parameters: passed unchanged {counted(times, 'time')}"
        for (called, original, problem), times in self._unmapped.most_common(_MOST_LINES):
            tool = f"{called!r} ({original!r})" if original else repr(called)
            yield f"call of {tool} passed as it is {counted(times, 'time')}: {problem}"
