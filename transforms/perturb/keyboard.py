"""The letters of a QWERTY keyboard, and which of them lie side by side."""

from __future__ import annotations

from math import hypot

# Each row stands so far to the right of the first, in widths of a key.
ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75))
_NEAR = 1.26  # between the middles of two keys: those of its own row, and of the next those that touch it


def _places() -> dict[str, tuple[float, float]]:
    return {letter: (shift + x, float(y)) for y, (row, shift) in enumerate(ROWS) for x, letter in enumerate(row)}


def _neighbours() -> dict[str, str]:
    places = _places()
    near = {
        letter: "".join(
            other
            for other, (x, y) in sorted(places.items())
            if other != letter and hypot(x - at[0], y - at[1]) <= _NEAR
        )
        for letter, at in places.items()
    }
    return near | {letter.upper(): keys.upper() for letter, keys in near.items()}


NEIGHBOURS = _neighbours()  # letter to the letters around it, upper case to upper case
