"""What of a tool's description stays in every variant: formats, defaults, examples and units."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases

from parapet.schemas.tools import Toolset, parts_of

AGENTS = Path(os.environ.get("PARAPET_DATA", "/none")) / "agents"


@cases(
    "description meaning reworded",
    ("The city.", "The city.", "X."),
    ("The city", "The city", "X"),
    ("The distance travelled in miles.", "The distance travelled.", "X (in miles)."),
    ("Acceleration of the object, m/s^2.", "Acceleration of the object.", "X (m/s^2)."),
    ("Points, rebounds, minutes.", "Points, rebounds, minutes.", "X."),
    ("The market. Default is 'NASDAQ'", "The market.", "X. Default is 'NASDAQ'"),
    ("The place, such as 'San Jose, CA'.", "The place.", "X (such as 'San Jose, CA')."),
    ("The day, in the format YYYY-MM-DD. It may lie in the past.", "The day. It may lie in the past.",
     "X (in the format YYYY-MM-DD)."),
    ("The amount of time (in minutes) it takes.", "The amount of time it takes.", "X (in minutes)."),
    ("The loss (optional). Default is 0", "The loss.", "X (optional). Default is 0"),
    ("The name (of the firm).", "The name (of the firm).", "X."),
    ("The type, e.g., 'a', 'b', etc. Default is 'all'.", "The type.", "X (e.g., 'a', 'b', etc). Default is 'all'."),
    ("Whether the song should be played.", "Whether the song should be played.", "X."),
    ("e.g. 7", "e.g. 7", "X"),
    ("Weather in a city. If using state, then use short form like CA.", "Weather in a city.",
     "X. If using state, then use short form like CA."),
    ("Default is 'a'.", "Default is 'a'.", "X."),
)  # fmt: skip
def test_what_stays(description, meaning, reworded):
    parts = parts_of(description)
    assert (parts.meaning, parts.reworded("X")) == (meaning, reworded)


@given(st.text("ab .,'(0)\n-eg/", max_size=60))
def test_any_text_has_a_meaning_and_nothing_that_stays_is_lost(text):
    parts = parts_of(text)
    assert parts.meaning or not text
    said = parts.reworded("X")
    assert all(part in said for part in (*parts.clauses, *parts.sentences))
    assert all(part in text for part in (*parts.clauses, *parts.sentences))


@pytest.mark.skipif(not os.environ.get("PARAPET_DATA"), reason="PARAPET_DATA is not set: real tools")
def test_defaults_and_quoted_values_of_real_tools_stay():
    """Of some sentences that say several things at once they go with the meaning: one in fifty at most."""
    lost, total = [], 0
    for path in (AGENTS / "bfcl").glob("BFCL*.json"):
        for line in path.read_text().splitlines():
            for tool in Toolset("t", json.loads(line)["function"], lambda i, pointer: "").tools:
                for text in (each.description for each in tool.parameters.all):
                    if "default" in text.lower() or "e.g." in text:
                        total += 1
                        said = parts_of(text).reworded("X").lower()
                        lost += [text] if "default" not in said and "e.g." not in said else []
    assert total > 1000
    assert len(lost) <= total / 50, lost
