"""Vetting rules of plug-ins, which ``--vetting_rules`` names: they follow the rules that are built in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Literal, Protocol

from parapet.transforms import plugins
from parapet.transforms.crowd.vet import EXPLANATIONS, Answer, Rule, Rules

FLAG = "--vetting_rules"

_REASON = re.compile(r"[a-z][a-z0-9_]*")


class VettingRule(Protocol):
    """What a plug-in of the group ``parapet.vetting_rules`` gives. Its name is the reason that answers get.

    Attributes:
      action: ``reject``, or ``review`` for answers that a person is to look at.
      explanation: a sentence for reviewers and requesters.
    """

    action: Literal["reject", "review"]
    explanation: str

    def applies(self, answer: Answer) -> bool:
        """Whether it rejects or holds the answer. The same answer must always get the same verdict."""


def choose(named: Sequence[str]) -> dict[str, tuple[plugins.Chosen, VettingRule]]:
    """The rules by reason, in the order in which they are named.

    Args:
      named: ``NAME`` or ``NAME=ARGUMENT`` of each.

    Raises:
      InputError: there is no such rule, one is named twice, or cannot be one.
    """
    rules: dict[str, tuple[plugins.Chosen, VettingRule]] = {}
    for name in named:
        chosen = plugins.choose(plugins.VETTING_RULES, name, FLAG)
        reason = chosen.plugin.name
        if not _REASON.fullmatch(reason) or reason in EXPLANATIONS or reason.startswith("reviewer"):
            raise chosen.refused("has a name that cannot be a reason of its own: snake_case, and none of ours")
        if reason in rules:
            raise chosen.refused("is named twice")
        rule: VettingRule = plugins.make(chosen, plugins.members(VettingRule))
        if rule.action not in ("reject", "review"):
            raise chosen.refused(f"has the action {rule.action!r}: expected 'reject' or 'review'")
        if not isinstance(rule.explanation, str):
            raise chosen.refused(f"has an explanation that is a {type(rule.explanation).__name__}, not a text")
        rules[reason] = chosen, rule
    return rules


@lru_cache(maxsize=8)
def rules_of(named: tuple[str, ...]) -> Rules:
    """The rules as answers are vetted by them. Raises InputError, as :func:`choose`."""
    by_action: dict[str, list[Rule]] = {"reject": [], "review": []}
    for reason, (chosen, rule) in choose(named).items():
        by_action[rule.action].append((reason, partial(_applies, chosen, rule)))
    return Rules(tuple(by_action["reject"]), tuple(by_action["review"]))


def _applies(chosen: plugins.Chosen, rule: VettingRule, answer: Answer) -> bool:
    return bool(plugins.call(chosen, rule.applies, answer))


def explanations(named: Sequence[str]) -> dict[str, str]:
    """What a reviewer should know of each reason, those that are built in first."""
    return EXPLANATIONS | {reason: rule.explanation for reason, (_, rule) in choose(named).items()}
