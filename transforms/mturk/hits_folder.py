"""A folder that ``parapet hits`` made, checked before money is spent on it."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, parapet_version
from parapet.transforms.hits.records import PageRecord
from parapet.transforms.hits.terms import Terms, up_to_cent
from parapet.transforms.mturk.client import PRODUCTION, SANDBOX

MOST = 9  # workers a HIT: one more, and MTurk's fee doubles; and a HIT of nine or fewer can never get a tenth


class Hit(msgspec.Struct, frozen=True):
    """A HIT to publish: its line of the manifest, and its cost.

    Attributes:
      fee: MTurk's, in dollars for one assignment, not rounded.
    """

    record: PageRecord
    folder: str
    fee: Decimal

    @property
    def key(self) -> str:
        """Task, part and page: what makes it the same HIT on every run."""
        return f"{self.record.task_id}:{self.record.part}:{self.record.sha256[:16]}"

    @property
    def cost(self) -> Decimal:
        """Dollars for all assignments, fees included."""
        assignments = self.record.assignments
        return Decimal(self.record.reward) * assignments + up_to_cent(self.fee * assignments)

    def question(self) -> str:
        """The HTMLQuestion. Raises InputError where it is not the one in the manifest."""
        path = Path(self.folder) / self.record.question
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path) from None
        if hashlib.sha256(data).hexdigest() != self.record.sha256:
            raise InputError("was changed since 'parapet hits' wrote it: run that again", path)
        return data.decode("utf-8")


def read_hits(folder: str, endpoint: str, allow_extra_fee: bool = False, top_up: bool = False) -> list[Hit]:
    """The HITs of a folder, in its order.

    Args:
      folder: OUT of ``parapet hits``.
      endpoint: where they are to be published; the pages must post their forms to the same place.
      allow_extra_fee: whether HITs of ten workers or more are meant.
      top_up: whether the folder must be one that asks only for what is missing.

    Raises:
      InputError: no such folder, made by another version, changed since, or for another place.
    """
    run = _run(Path(folder) / "run.json")
    options = run.get("options", {})
    if top_up and options.get("only") is None:
        raise InputError("this folder asks for everything again: make it with 'parapet hits --shortfall'", folder)
    for place, sandbox, advice in ((PRODUCTION, True, "without --sandbox"), (SANDBOX, False, "with --sandbox")):
        if endpoint == place and bool(options.get("sandbox")) is sandbox:
            where = "the sandbox" if sandbox else "production"
            raise InputError(f"these pages post their forms to {where}: run 'parapet hits' again, {advice}", folder)
    path = Path(folder) / "manifest.jsonl"
    try:
        records = [msgspec.json.decode(line, type=PageRecord) for line in path.read_bytes().splitlines()]
        terms = msgspec.convert(json.loads((Path(folder) / "plan.json").read_bytes())["terms"], Terms, strict=False)
        hits = [Hit(record, folder, _fee(record, terms)) for record in records]
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"cannot be read: {error}; run 'parapet hits' again", path) from None
    if not records:
        raise InputError("there is no HIT in this folder", path)
    many = max(record.assignments for record in records)
    if many > MOST and not allow_extra_fee:
        raise InputError(
            f"{many} workers a HIT: from ten on MTurk takes another 20 %; run 'parapet hits --assignments {MOST}', "
            "or say --allow_extra_fee",
            path,
        )
    return hits


def _fee(record: PageRecord, terms: Terms) -> Decimal:
    rate = terms.fee + (terms.extra_fee if record.assignments >= terms.extra_fee_from else 0)
    return max(Decimal(record.reward) * rate, terms.minimum_fee)


def _run(path: Path) -> dict[str, Any]:
    try:
        run = json.loads(path.read_bytes())
        made_by, pipeline = str(run["version"]), run["pipeline"]
        dict(run.get("options", {}))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError("no finished folder of 'parapet hits' (it has no run.json)", path.parent) from None
    if pipeline != "hits":
        raise InputError(f"made by 'parapet {pipeline}', not by 'parapet hits'", path.parent)
    if made_by != parapet_version():
        raise InputError(
            f"made by Parapet {made_by}, this is {parapet_version()}: run 'parapet hits' again (it costs nothing)",
            path.parent,
        )
    return dict(run)
