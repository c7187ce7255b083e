"""Stopping: every HIT off offer, so that no further work comes in and no further money goes out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from parapet.transforms.mturk.batch import Batch
from parapet.transforms.mturk.calls import Call, Failure, Told, perform

# At once, whatever this machine's clock says: MTurk takes an end in the past.
_LONG_AGO = datetime(2015, 1, 1, tzinfo=UTC)


def open_hits(batch: Batch, submitted: Mapping[str, int], now: datetime) -> list[str]:
    """Ids of HITs that are on offer and may still get work.

    Args:
      batch: the batch.
      submitted: HIT id to assignments collected.
      now: with a time zone.
    """
    return [
        hit_id
        for hit_id, hit in batch.hits().items()
        if not hit.gone and hit.expiration > now and hit.wanted > submitted.get(hit_id, 0)
    ]


def stop(
    client: Any, batch: Batch, hit_ids: list[str], now: datetime, parallel: int = 1, told: Told | None = None
) -> list[Failure]:
    """Takes HITs off offer; those who are working on one may still hand it in. Gives what MTurk refused.

    Raises:
      InputError: no further call can go well.
    """

    def expire(call: Call) -> dict[str, Any]:
        # Doing it twice changes nothing.
        client.update_expiration_for_hit(**call.arguments)
        return {"hit_id": call.arguments["HITId"], "expiration": now.isoformat()}

    calls = [
        Call(f"prolong:stop:{each}", "update_expiration_for_hit", {"HITId": each, "ExpireAt": _LONG_AGO})
        for each in hit_ids
    ]
    return perform(batch.journal, calls, expire, parallel, told)
