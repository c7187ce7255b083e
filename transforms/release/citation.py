"""Attribution of a release: licences, CITATION.cff, BibTeX, LICENSE, and the parsing of names for them.

Identifiers of licences are from the SPDX list; tags are those of Hugging Face's dataset cards.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from parapet.schemas.release import Author, Manifest, Source
from parapet.transforms.reports.markdown import is_url, one_line, quoted

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
        """The licence's tag on Hugging Face."""
        return _TAGS.get(self.spdx, self.spdx.lower())

    @property
    def share_alike(self) -> bool:
        """Whether adaptations of the data must have the same licence."""
        return "-SA-" in self.spdx or self.spdx in _SHARE_ALIKE

    @property
    def commercial(self) -> bool:
        """Whether the licence allows commercial use."""
        return "-NC-" not in self.spdx

    @property
    def adaptation(self) -> bool:
        """Whether the licence allows publishing adaptations of the data."""
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
    """Return the licence with an identifier, case-insensitive as in SPDX; None if unknown."""
    return _BY_FOLDED.get(spdx.strip().casefold())


def problems(licence: str, sources: Sequence[Source], has_file: bool) -> Iterator[str]:
    """Explain why a release cannot be published under a licence, one sentence per reason; nothing if it can.

    Args:
      licence: the licence of the release.
      sources: the sources of the release.
      has_file: whether the release has its own licence text, whose author then answers for sources with licences that
        are not in ``LICENCES``.
    """
    ours = find(licence)
    named = {f"the licence {licence!r} is": licence}
    named |= {f"{source.title!r} is under {source.licence!r}, which is": source.licence for source in sources}
    for place, spdx in named.items():
        if find(spdx) is None and not has_file:
            near = difflib.get_close_matches(re.sub(r"[\s_]+", "-", spdx.strip()).casefold(), _BY_FOLDED, 1)
            hint = f" (did you mean {_BY_FOLDED[near[0]].spdx}?)" if near else ""
            yield (
                f"{place} not one that Parapet knows by name{hint}; give another, or licence_file and what the "
                "licence requires"
            )
    for source in sources:
        if theirs := find(source.licence):
            yield from _conflicts(licence, ours, source, theirs)


def _conflicts(licence: str, ours: Licence | None, source: Source, theirs: Licence) -> Iterator[str]:
    where = f"{source.title!r} is under {theirs.spdx}, which"
    if not theirs.adaptation:
        yield f"{where} does not allow publishing anything that is made from it"
    elif theirs.share_alike and not (ours and _carries_on(theirs.spdx, ours.spdx)):
        later = f", or {theirs.spdx[:-3]}4.0" if theirs.spdx.startswith("CC-") and theirs.spdx.endswith("3.0") else ""
        yield f"{where} requires the release to have the same licence{later}, but it has {licence}"
    elif not theirs.commercial and ours and ours.commercial:
        yield f"{where} does not allow commercial use, but {ours.spdx} does"


def _carries_on(theirs: str, ours: str) -> bool:
    """Whether a release under one licence may be derived from a source under another, share-alike licence.

    Creative Commons licences allow a later version with the same terms (CC BY-SA 3.0, section 4(b)).
    """
    if not theirs.startswith("CC-"):
        return theirs == ours
    terms, _, version = theirs.rpartition("-")
    our_terms, _, our_version = ours.rpartition("-")
    return terms == our_terms and float(our_version) >= float(version)


KEYWORDS = (
    "dialogue",
    "task-oriented dialogue",
    "schema-guided dialogue",
    "dialogue state tracking",
    "robustness",
)

_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[012])-(0[1-9]|[12][0-9]|3[01])")
# CFF 1.2.0 uses the SPDX identifiers of May 2021; these are newer.
_NOT_IN_CFF = frozenset({"CDLA-Permissive-2.0"})
# Words common in the names of groups, but rare in the names of people.
_GROUP = re.compile(
    r"the\b.*|.*\b(?:authors|collaboration|college|community|company|consortium|contributors|corporation|department"
    r"|developers|foundation|group|inc|institute|lab|laboratory|labs|llc|ltd|maintainers|network|organi[sz]ation"
    r"|project|research|team|university)\b.*",
    re.IGNORECASE,
)
_ORCID = re.compile(r"(?:https?://orcid\.org/)?([0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X])")
_LATEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_"},
        **dict.fromkeys("{}`", ""),
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def citation_cff(manifest: Manifest) -> str:
    """Create CITATION.cff in the Citation File Format 1.2.0, with the sources as references."""
    licence = find(manifest.licence)
    fields = {
        "cff-version": "1.2.0",
        "message": "If you use this dataset, please cite it, and the works that it is made from.",
        "type": "dataset",
        "title": title_of(manifest),
        "version": manifest.version,
        "date-released": release_date(manifest),
        "abstract": manifest.description.strip(),
        "authors": _unique(
            _cff_author(author_name(author), one_line(author.affiliation), orcid_url(author))
            for author in manifest.authors
        ),
        "license": licence.spdx if licence and licence.spdx not in _NOT_IN_CFF else "",
        "license-url": licence.url if licence and licence.spdx in _NOT_IN_CFF else "",
        "url": quoted(manifest.homepage) if is_url(manifest.homepage) else "",
        "keywords": list(KEYWORDS),
        "references": _unique(_reference(source) for source in manifest.sources),
    }
    return str(yaml.safe_dump(_filled(fields), sort_keys=False, allow_unicode=True, width=100))


def release_date(manifest: Manifest) -> str:
    """Return the date of publication, ``2026-01-31``; empty if the manifest has none."""
    match = _DATE.match(manifest.created)
    return match[0] if match else ""


def _cff_author(name: Name, affiliation: str = "", orcid: str = "") -> dict[str, str]:
    if not name.given:  # an entity, which has no affiliation
        return _filled({"name": name.family, "orcid": orcid})
    return _filled({"family-names": name.family, "given-names": name.given, "affiliation": affiliation, "orcid": orcid})


def _reference(source: Source) -> dict[str, Any]:
    licence = find(source.licence)
    fields = {
        "type": "data",
        "title": one_line(source.title),
        "authors": _unique(_cff_author(name) for name in names_of(source.authors)),
        "url": quoted(source.url) if is_url(source.url) else "",
        "license": licence.spdx if licence and licence.spdx not in _NOT_IN_CFF else "",
        "notes": one_line(source.citation),
    }
    return _filled(fields)


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty values: CFF allows no empty text and no empty list."""
    return {key: value for key, value in found.items() if value}


def _unique(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for item in found:
        if item not in kept:
            kept.append(item)
    return kept


def bibtex(manifest: Manifest) -> str:
    """Create the BibTeX entry of a release."""
    url = quoted(manifest.homepage).replace("#", "\\#").replace("%", "\\%") if is_url(manifest.homepage) else ""
    licence = find(manifest.licence)
    fields = {
        "author": " and ".join(_bibtex_name(author_name(author)) for author in manifest.authors),
        "title": f"{{{_latex(title_of(manifest))}}}",
        "year": release_date(manifest)[:4],
        "version": manifest.version,
        "url": url,
        "note": f"Version {manifest.version}. {_latex(licence.name if licence else manifest.licence)}",
    }
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{manifest.name}-{manifest.version}").strip("-").lower()
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{key},\n{lines}}}\n"


def _bibtex_name(name: Name) -> str:
    return f"{_latex(name.family)}, {_latex(name.given)}" if name.given else f"{{{_latex(name.family)}}}"


def _latex(value: str) -> str:
    return one_line(value).translate(_LATEX)


def references(sources: Sequence[Source]) -> list[str]:
    """Return the papers of the sources as citations without duplicates."""
    return list(dict.fromkeys(one_line(source.citation) for source in sources if source.citation.strip()))


# LICENSE.


def licence_text(manifest: Manifest, own: str = "") -> str:
    """Create LICENSE: the notice of a licence with the address of its text, and the attributions of all sources.

    Args:
      manifest: the manifest of the release.
      own: the text of the release's own licence, which comes first; may be empty.
    """
    year = f" {manifest.created[:4]}" if manifest.created else ""
    known = find(manifest.licence)
    claim = "Made by" if known and known.spdx in PUBLIC_DOMAIN else f"Copyright{year}"
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
    asks = {
        "name the authors above and the sources below": known.spdx not in PUBLIC_DOMAIN,
        "publish what you make from this dataset under the same licence": known.share_alike,
        "make no commercial use of it": not known.commercial,
        "publish nothing that is made from it": not known.adaptation,
    }
    lines = [f"- {ask}" for ask, applies in asks.items() if applies]
    summary = ["", "A summary, which does not replace the text:", *lines] if lines else []
    return "\n".join([f"Licence: {known.name} ({known.spdx})", f"Text: {known.url}", *summary])


def _attribution(source: Source) -> str:
    known = find(source.licence)
    lines = [
        f"by {one_line(source.authors)}" if source.authors else "",
        one_line(source.url),
        f"{known.name}, {known.url}" if known else one_line(source.licence),
        one_line(source.citation),
        "Changes were made.",
    ]
    return "\n".join([f"- {one_line(source.title)}", *(f"  {line}" for line in lines if line)])


# Names.


class Name(msgspec.Struct, frozen=True):
    """The family and given names of a person; the name of a group is a family name alone."""

    family: str
    given: str = ""


def name_of(name: str, is_person: bool = False) -> Name:
    """Parse a name: ``Family, Given``, or ``Given Family`` split at the last space.

    A single word, or words such as Team, make it the name of a group.

    Args:
      name: the name as written.
      is_person: whether it is known to be a person, for example because of an ORCID.
    """
    name = one_line(name) or "anonymous"
    family, comma, given_names = (part.strip() for part in name.partition(","))
    if not is_person and _GROUP.fullmatch(name):
        return Name(name)
    if comma and family and given_names:
        return Name(family, given_names)
    given_names, _, family = name.rpartition(" ")
    return Name(family, given_names)


def author_name(author: Author) -> Name:
    """Parse an author's name; an author with an ORCID is a person."""
    return name_of(author.name, bool(_ORCID.fullmatch(author.orcid.strip())))


def orcid_url(author: Author) -> str:
    """Return the address of an author's ORCID; empty if it is missing or invalid."""
    match = _ORCID.fullmatch(author.orcid.strip())
    return f"https://orcid.org/{match[1]}" if match else ""


def names_of(line: str) -> list[Name]:
    """Parse the names in one line of authors, as in citations.

    Accepts ``A B and C D``, ``A B, C D``, ``B, A and D, C``, ``A B; C D``; any other line, such as "A B et al.", is a
    single name.
    """
    line = one_line(line)
    if not line or re.search(r"\bet al\b", line):
        return [name_of(line) if not line else Name(line)]
    parts = [part.strip(" ,") for part in re.split(r";|,?(?<!\s)\s+(?:and|&)\s+", line)]
    # A comma separates people if both sides have a given and a family name.
    names = [part.split(",") for part in parts]
    parts = [
        name
        for names_here in names
        for name in (names_here if all(" " in segment.strip() for segment in names_here) else [",".join(names_here)])
    ]
    return [name_of(part) for part in parts if part.strip()] or [Name(line)]


def title_of(manifest: Manifest) -> str:
    """Return the title of a release in one line."""
    return one_line(manifest.title) or manifest.name


def in_line(authors: Sequence[Author]) -> str:
    """Join authors in one line: ``A``, ``A and B``, ``A, B and C``."""
    names_here = [author_name(author) for author in authors]
    names = [f"{name.given} {name.family}".strip() for name in names_here]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])
