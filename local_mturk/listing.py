"""Pages of long lists, as the API gives them."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Sequence
from typing import Any

from parapet.local_mturk.errors import MTurkError
from parapet.local_mturk.store import Store

Params = dict[str, Any]
Answer = dict[str, Any]

_DEFAULT_SIZE = 10


def page(
    store: Store, params: Params, operation: str, sql: str, values: Sequence[Any], newest_first: bool = False
) -> tuple[list[sqlite3.Row], Answer]:
    """The rows of one page, and ``NumResults`` and ``NextToken`` for the answer.

    A full page has a token even where nothing follows, so a client must stand an empty last page. Assumption: it is
    what clients of MTurk are written for.

    Args:
      store: the state.
      params: the request, with ``NextToken`` and ``MaxResults``.
      operation: makes the tokens of one list useless for others.
      sql: selects rows with a column ``n`` and ends in a condition.
      values: for its placeholders.
      newest_first: goes down in ``n``.
    """
    size = params.get("MaxResults", _DEFAULT_SIZE)
    token = params.get("NextToken")
    condition, order = ("n < ?", "DESC") if newest_first else ("n > ?", "ASC")
    start = (1 << 62) if newest_first else 0
    place = _place(token, operation) if token else start
    rows = store.all(f"{sql} AND {condition} ORDER BY n {order} LIMIT ?", *values, place, size)
    answer: Answer = {"NumResults": len(rows)}
    if rows and len(rows) == size:
        answer["NextToken"] = base64.urlsafe_b64encode(f"{operation}:{rows[-1]['n']}".encode()).decode()
    return rows, answer


def _place(token: str, operation: str) -> int:
    try:
        name, _, place = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
        if name == operation:
            return int(place)
    except (binascii.Error, ValueError):
        pass
    # Assumption: the code; the documentation names none.
    raise MTurkError("The NextToken is not valid for this request.", "InvalidParameterValue")
