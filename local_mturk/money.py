"""What an assignment or a bonus costs. Kept as whole ten-thousandths of a dollar, in which every fee is exact."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

_UNIT = Decimal("0.0001")
_CENT = Decimal("0.01")
_MINIMUM_FEE = _CENT  # per assignment and per bonus

FEE = Decimal("0.20")
EXTRA_FEE = Decimal("0.20")
EXTRA_FEE_FROM = 10  # assignments of a HIT


def units(amount: Decimal) -> int:
    """Dollars as stored."""
    return int((amount / _UNIT).to_integral_value(ROUND_DOWN))


def dollars(stored: int) -> Decimal:
    """What is stored as dollars, exactly."""
    return stored * _UNIT


def shown(stored: int) -> str:
    """What is stored as the API says it: dollars and cents, a broken cent left out."""
    return f"{dollars(stored).quantize(_CENT, rounding=ROUND_DOWN):f}"


def cost_of_assignment(reward: Decimal, assignments: int) -> Decimal:
    """Reward and fee for one assignment of a HIT that has so many."""
    rate = FEE + (EXTRA_FEE if assignments >= EXTRA_FEE_FROM else 0)
    return reward + max(reward * rate, _MINIMUM_FEE)


def cost_of_bonus(amount: Decimal) -> Decimal:
    """A bonus and its fee."""
    return amount + max(amount * FEE, _MINIMUM_FEE)
