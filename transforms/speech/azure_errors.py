"""What Azure's refusals mean."""

from __future__ import annotations

import os
import re

from parapet.transforms.refusals import Refused, Stopped

KEY_VARIABLE = "AZURE_SPEECH_KEY"

DEADLINE, STALE, BROKEN = "Deadline", "Stale", "Broken"  # codes of our own, beside Azure's

_PASSING = {
    *(DEADLINE, STALE, BROKEN),
    *("TooManyRequests", "ConnectionFailure", "ServiceTimeout", "ServiceError", "ServiceUnavailable", "RuntimeError"),
}
# Azure closes connections as bad requests (1007) for these, too: https://github.com/Azure-Samples/
# cognitive-services-speech-sdk/issues/2785 and 1075.
_QUOTA = re.compile(r"quota", re.IGNORECASE)
_THROTTLED = re.compile(r"throttl|too many requests", re.IGNORECASE)

_NO_HOST = re.compile(r"DNS resolution failed|hostname not found", re.IGNORECASE)

_SECRETS = re.compile(r"\b[A-Za-z0-9+/]{32,}={0,2}|(?<![\w-])eyJ[\w-]+\.[\w.-]*|bearer +\S+|\b\w+://\S+", re.IGNORECASE)
_NOISE = re.compile(r"(SessionId|X-ConnectionId): *\w*|Content-Type: [^\n]*|USP state: .*|\[CALL STACK.*", re.DOTALL)


class Failed(Exception):
    """A try failed.

    Args:
      code: the name of Azure's ``CancellationErrorCode``, or one of ours.
      said: in Azure's words. They may have the address, never tell them as they are.
    """

    def __init__(self, code: str, said: str) -> None:
        super().__init__(code)
        self.code, self.said = code, said

    @property
    def passes(self) -> bool:
        """Whether the same request may go well in a while."""
        if _THROTTLED.search(self.said) and not _QUOTA.search(self.said):
            return True
        if _NO_HOST.search(self.said):
            return False
        return self.code in _PASSING and not _QUOTA.search(self.said) and "(404)" not in self.said

    @property
    def told(self) -> str:
        """What Azure said, in one line, without addresses or anything that looks like a key or token."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        said = self.said.replace(key, "…") if key else self.said
        return _SECRETS.sub("…", " ".join(_NOISE.sub("", said).split()))[:300] or self.code

    def meaning(self) -> Refused | Stopped:
        """What a failure means that no second try would mend."""
        if _QUOTA.search(self.said):
            return Stopped(f"quota: {self.told}: wait until it is filled again, or have it raised")
        if _NO_HOST.search(self.said):
            return Stopped("no_host: there is no such address: check the region, the endpoint and the network")
        if "(404)" in self.said:
            return Stopped(f"not_found: {self.told}: check the region, or the endpoint")
        if self.code == "Forbidden" or (self.code == "AuthenticationFailure" and "(403)" in self.said):
            advice = "check that the Speech resource is enabled for you and your network, and its quota not used up"
            return Stopped(f"denied: {self.told}: {advice}")
        if self.code == "AuthenticationFailure":
            advice = f"check that {KEY_VARIABLE} is a key of a Speech resource in this region"
            return Stopped(f"credentials: Azure does not take them ({self.told}): {advice}")
        if self.code == "BadRequest":
            return Refused(f"invalid: {self.told}")
        return Refused(f"failed: {self.told} ({self.code})")
