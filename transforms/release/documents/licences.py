"""Licences of data that Parapet knows by their SPDX identifier, what they ask, and the LICENSE file of a release.

Identifiers are those of the SPDX licence list; tags are those that Hugging Face's dataset cards know.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import msgspec

from parapet.schemas.release_config import Source
from parapet.schemas.release_manifest import Manifest
from parapet.transforms.markdown import one_line
from parapet.transforms.release.documents.names import in_line, title_of


class Licence(msgspec.Struct, frozen=True):
    """A licence.

    Attributes:
      spdx: its identifier.
      name: in full.
      url: of its canonical text.
      tag: on Hugging Face; ``other`` where they have none.
      share_alike: what is made from the data must carry the same licence.
      commercial: whether it allows commercial use.
      adaptation: whether it allows to publish what is made from the data.
    """

    spdx: str
    name: str
    url: str
    tag: str
    share_alike: bool = False
    commercial: bool = True
    adaptation: bool = True


_CC = "https://creativecommons.org"


def _creative_commons(terms: str, version: str) -> Licence:
    words = {"BY": "Attribution", "NC": "NonCommercial", "SA": "ShareAlike", "ND": "NoDerivatives"}
    parts = terms.split("-")
    kind = "International" if version == "4.0" else "Unported"
    return Licence(
        f"CC-{terms}-{version}",
        f"Creative Commons {'-'.join(words[part] for part in parts)} {version} {kind}",
        f"{_CC}/licenses/{terms.lower()}/{version}/",
        f"cc-{terms.lower()}-{version}",
        share_alike="SA" in parts,
        commercial="NC" not in parts,
        adaptation="ND" not in parts,
    )


_ODC = "https://opendatacommons.org/licenses"
LICENCES = {
    licence.spdx: licence
    for licence in (
        *(
            _creative_commons(terms, version)
            for terms in ("BY", "BY-SA", "BY-NC", "BY-NC-SA", "BY-NC-ND")
            for version in ("4.0", "3.0")
        ),
        _creative_commons("BY-ND", "4.0"),
        Licence("CC0-1.0", "Creative Commons Zero 1.0 Universal", f"{_CC}/publicdomain/zero/1.0/", "cc0-1.0"),
        Licence("ODC-By-1.0", "Open Data Commons Attribution License 1.0", f"{_ODC}/by/1-0/", "odc-by"),
        Licence("ODbL-1.0", "Open Data Commons Open Database License 1.0", f"{_ODC}/odbl/1-0/", "odbl", True),
        Licence("PDDL-1.0", "Open Data Commons Public Domain Dedication and License 1.0", f"{_ODC}/pddl/1-0/", "pddl"),
        Licence(
            "CDLA-Permissive-2.0",
            "Community Data License Agreement Permissive 2.0",
            "https://cdla.dev/permissive-2-0/",
            "cdla-permissive-2.0",
        ),
        Licence(
            "CDLA-Permissive-1.0",
            "Community Data License Agreement Permissive 1.0",
            "https://cdla.dev/permissive-1-0/",
            "cdla-permissive-1.0",
        ),
        Licence(
            "CDLA-Sharing-1.0",
            "Community Data License Agreement Sharing 1.0",
            "https://cdla.dev/sharing-1-0/",
            "cdla-sharing-1.0",
            share_alike=True,
        ),
        Licence("MIT", "MIT License", "https://opensource.org/license/mit", "mit"),
        Licence("Apache-2.0", "Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0", "apache-2.0"),
        Licence("BSD-3-Clause", "BSD 3-Clause License", "https://opensource.org/license/bsd-3-clause", "bsd-3-clause"),
    )
}
_PUBLIC_DOMAIN = ("CC0-1.0", "PDDL-1.0")
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


def licence_text(manifest: Manifest, own: str = "") -> str:
    """LICENSE: the notice of a licence with the address of its text, and the attributions of all sources.

    Args:
      manifest: of the release.
      own: a licence's text, which then comes first.
    """
    year = f" {manifest.created[:4]}" if manifest.created else ""
    known = find(manifest.licence)
    claim = "Made by" if known and known.spdx in _PUBLIC_DOMAIN else f"Copyright{year}"
    parts = [own.strip()] if own.strip() else []
    parts.append(f"{title_of(manifest)}, version {manifest.version}\n{claim} {in_line(manifest.authors)}")
    parts.append(_terms(manifest.licence, bool(own.strip())))
    if manifest.sources:
        parts.append(
            "This dataset is made from the works below. They were changed for it;\n"
            "their authors do not vouch for the result."
        )
        parts += [_attribution(source) for source in manifest.sources]
    return "\n\n".join(parts) + "\n"


def _terms(spdx: str, has_own: bool) -> str:
    known = find(spdx)
    if known is None:
        return f"Licence: {one_line(spdx)}{', as above' if has_own else ''}."
    lines = [f"Licence: {known.name} ({known.spdx})", f"Text: {known.url}"]
    asks = []
    if known.spdx not in _PUBLIC_DOMAIN:
        asks.append("name the authors above and the sources below")
    if known.share_alike:
        asks.append("publish what you make from this dataset under the same licence")
    if not known.commercial:
        asks.append("make no commercial use of it")
    if not known.adaptation:
        asks.append("publish nothing that is made from it")
    if asks:
        lines += ["", "A summary, which does not replace the text:", *(f"- {ask}" for ask in asks)]
    return "\n".join(lines)


def _attribution(source: Source) -> str:
    known = find(source.licence)
    lines = [f"- {one_line(source.title)}", f"  by {one_line(source.authors)}" if source.authors else ""]
    lines.append(f"  {one_line(source.url)}" if source.url else "")
    lines.append(f"  {known.name}, {known.url}" if known else f"  {one_line(source.licence)}")
    lines.append(f"  {one_line(source.citation)}" if source.citation else "")
    lines.append("  Changes were made.")
    return "\n".join(line for line in lines if line.strip())
