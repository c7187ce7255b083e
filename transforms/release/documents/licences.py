"""Licences of data that Parapet knows by their SPDX identifier, and what they ask.

Identifiers are those of the SPDX licence list; tags are those that Hugging Face's dataset cards know.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import msgspec

from parapet.schemas.release import Source

_CC = "https://creativecommons.org"
_ODC = "https://opendatacommons.org/licenses"
_WORDS = {"BY": "Attribution", "NC": "NonCommercial", "SA": "ShareAlike", "ND": "NoDerivatives"}
_TAGS = {"ODC-By-1.0": "odc-by", "ODbL-1.0": "odbl", "PDDL-1.0": "pddl"}
_SHARE_ALIKE = ("ODbL-1.0", "CDLA-Sharing-1.0")
PUBLIC_DOMAIN = ("CC0-1.0", "PDDL-1.0")


class Licence(msgspec.Struct, frozen=True):
    """A licence: its SPDX identifier, its full name, and the address of its canonical text."""

    spdx: str
    name: str
    url: str

    @property
    def tag(self) -> str:
        """Its tag on Hugging Face."""
        return _TAGS.get(self.spdx, self.spdx.lower())

    @property
    def share_alike(self) -> bool:
        """Whether what is made from the data must carry the same licence."""
        return "-SA-" in self.spdx or self.spdx in _SHARE_ALIKE

    @property
    def commercial(self) -> bool:
        """Whether it allows commercial use."""
        return "-NC-" not in self.spdx

    @property
    def adaptation(self) -> bool:
        """Whether it allows publishing what is made from the data."""
        return "-ND-" not in self.spdx


def _creative_commons(terms: str, version: str) -> Licence:
    kind = "International" if version == "4.0" else "Unported"
    name = f"Creative Commons {'-'.join(_WORDS[part] for part in terms.split('-'))} {version} {kind}"
    return Licence(f"CC-{terms}-{version}", name, f"{_CC}/licenses/{terms.lower()}/{version}/")


_TERMS = ("BY", "BY-SA", "BY-NC", "BY-NC-SA", "BY-NC-ND")
_LICENCES = [
    *(_creative_commons(terms, version) for terms in _TERMS for version in ("4.0", "3.0")),
    _creative_commons("BY-ND", "4.0"),
    Licence("CC0-1.0", "Creative Commons Zero 1.0 Universal", f"{_CC}/publicdomain/zero/1.0/"),
    Licence("ODC-By-1.0", "Open Data Commons Attribution License 1.0", f"{_ODC}/by/1-0/"),
    Licence("ODbL-1.0", "Open Data Commons Open Database License 1.0", f"{_ODC}/odbl/1-0/"),
    Licence("PDDL-1.0", "Open Data Commons Public Domain Dedication and License 1.0", f"{_ODC}/pddl/1-0/"),
    *(
        Licence(
            f"CDLA-{terms}", f"Community Data License Agreement {terms.replace('-', ' ')}", f"https://cdla.dev/{page}/"
        )
        for terms, page in (
            ("Permissive-2.0", "permissive-2-0"),
            ("Permissive-1.0", "permissive-1-0"),
            ("Sharing-1.0", "sharing-1-0"),
        )
    ),
    Licence("MIT", "MIT License", "https://opensource.org/license/mit"),
    Licence("Apache-2.0", "Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
    Licence("BSD-3-Clause", "BSD 3-Clause License", "https://opensource.org/license/bsd-3-clause"),
]
LICENCES = {licence.spdx: licence for licence in _LICENCES}
_BY_FOLDED = {spdx.casefold(): licence for spdx, licence in LICENCES.items()}


def find(spdx: str) -> Licence | None:
    """The licence of an identifier; case-insensitive, as in SPDX."""
    return _BY_FOLDED.get(spdx.strip().casefold())


def problems(licence: str, sources: Sequence[Source], has_file: bool) -> Iterator[str]:
    """Why a release cannot be published under a licence, in a sentence each; nothing where it can.

    Args:
      licence: the release's.
      sources: what it is made from.
      has_file: whether the release brings a licence's text of its own, and with it the answer for what it says of
        sources whose licence is not in ``LICENCES``.
    """
    ours = find(licence)
    if ours is None and not has_file:
        yield f"the licence {licence!r} is not one that Parapet knows by name{_hint(licence)}; or give licence_file"
    for source in sources:
        theirs = find(source.licence)
        if theirs is None:
            if not has_file:
                yield (
                    f"{source.title!r} is under {source.licence!r}, which is not one that Parapet knows by name"
                    f"{_hint(source.licence)}; or give licence_file, with what that licence asks"
                )
        else:
            yield from _conflicts(licence, ours, source, theirs)


def _conflicts(licence: str, ours: Licence | None, source: Source, theirs: Licence) -> Iterator[str]:
    where = f"{source.title!r} is under {theirs.spdx}, which"
    if not theirs.adaptation:
        yield f"{where} does not allow to publish anything that is made from it"
    elif theirs.share_alike and not (ours and _carries_on(theirs.spdx, ours.spdx)):
        later = f", or {theirs.spdx[:-3]}4.0" if theirs.spdx.startswith("CC-") and theirs.spdx.endswith("3.0") else ""
        yield f"{where} asks that the release carry the same licence{later}; it has {licence}"
    elif not theirs.commercial and ours and ours.commercial:
        yield f"{where} does not allow commercial use; {ours.spdx} does"


def _carries_on(theirs: str, ours: str) -> bool:
    """Whether a release under one licence may follow from a source under another, which is share-alike.

    Creative Commons allow a later version with the same terms (CC BY-SA 3.0, section 4(b)).
    """
    if not theirs.startswith("CC-"):
        return theirs == ours
    terms, _, version = theirs.rpartition("-")
    our_terms, _, our_version = ours.rpartition("-")
    return terms == our_terms and float(our_version) >= float(version)


def _hint(licence: str) -> str:
    near = difflib.get_close_matches(re.sub(r"[\s_]+", "-", licence.strip()).casefold(), _BY_FOLDED, 1)
    return f" (is {_BY_FOLDED[near[0]].spdx} meant?)" if near else ""
