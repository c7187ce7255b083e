"""Whose a release is and how it is cited: CITATION.cff, BibTeX, LICENSE, and names taken apart for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from parapet.schemas.release import Author, Manifest, Source
from parapet.transforms.markdown import is_url, one_line, quoted
from parapet.transforms.release.documents.licences import PUBLIC_DOMAIN, find

KEYWORDS = (
    "dialogue",
    "task-oriented dialogue",
    "schema-guided dialogue",
    "dialogue state tracking",
    "robustness",
)

_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[012])-(0[1-9]|[12][0-9]|3[01])")
# CFF 1.2.0 has the SPDX identifiers of May 2021; these were added later.
_NOT_IN_CFF = frozenset({"CDLA-Permissive-2.0"})
# Words that groups have in their names, and people hardly.
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
    """CITATION.cff in the Citation File Format 1.2.0; the sources are its references."""
    licence = find(manifest.licence)
    found = {
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
    return str(yaml.safe_dump(_filled(found), sort_keys=False, allow_unicode=True, width=100))


def release_date(manifest: Manifest) -> str:
    """The day of publication, ``2026-01-31``; nothing where the manifest has none."""
    found = _DATE.match(manifest.created)
    return found[0] if found else ""


def _cff_author(name: Name, affiliation: str = "", orcid: str = "") -> dict[str, str]:
    if not name.given:  # an entity, which has no affiliation
        return _filled({"name": name.family, "orcid": orcid})
    return _filled({"family-names": name.family, "given-names": name.given, "affiliation": affiliation, "orcid": orcid})


def _reference(source: Source) -> dict[str, Any]:
    licence = find(source.licence)
    return _filled(
        {
            "type": "data",
            "title": one_line(source.title),
            "authors": _unique(_cff_author(name) for name in names_of(source.authors)),
            "url": quoted(source.url) if is_url(source.url) else "",
            "license": licence.spdx if licence and licence.spdx not in _NOT_IN_CFF else "",
            "notes": one_line(source.citation),
        }
    )


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty: CFF allows no empty text and no empty list."""
    return {key: value for key, value in found.items() if value}


def _unique(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for one in found:
        if one not in kept:
            kept.append(one)
    return kept


def bibtex(manifest: Manifest) -> str:
    """The BibTeX entry of a release."""
    names = [_bibtex_name(author_name(author)) for author in manifest.authors]
    year = release_date(manifest)[:4]
    licence = find(manifest.licence)
    fields = {
        "author": " and ".join(names),
        "title": f"{{{_latex(title_of(manifest))}}}",
        "year": year,
        "version": manifest.version,
        "url": quoted(manifest.homepage).replace("#", "\\#").replace("%", "\\%") if is_url(manifest.homepage) else "",
        "note": f"Version {manifest.version}. {_latex(licence.name if licence else manifest.licence)}",
    }
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{manifest.name}-{manifest.version}").strip("-").lower()
    return _entry(key, {name: value for name, value in fields.items() if value})


def _entry(key: str, fields: Mapping[str, str]) -> str:
    return f"@misc{{{key},\n" + "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items()) + "}\n"


def _bibtex_name(name: Name) -> str:
    return f"{_latex(name.family)}, {_latex(name.given)}" if name.given else f"{{{_latex(name.family)}}}"


def _latex(value: str) -> str:
    return one_line(value).translate(_LATEX)


def references(sources: Sequence[Source]) -> list[str]:
    """The papers of the sources, as they are cited, each once."""
    return list(dict.fromkeys(one_line(source.citation) for source in sources if source.citation.strip()))


# LICENSE.


def licence_text(manifest: Manifest, own: str = "") -> str:
    """LICENSE: the notice of a licence with the address of its text, and the attributions of all sources.

    Args:
      manifest: of the release.
      own: a licence's text, which then comes first.
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
    lines = [f"Licence: {known.name} ({known.spdx})", f"Text: {known.url}"]
    asks = []
    if known.spdx not in PUBLIC_DOMAIN:
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


# Names.


class Name(msgspec.Struct, frozen=True):
    """A person's family and given names; of a group the family name alone is there."""

    family: str
    given: str = ""


def name_of(name: str, is_person: bool = False) -> Name:
    """Takes a name apart: ``Family, Given``, or ``Given Family`` at the last space.

    One word, or words such as Team, are a group's.

    Args:
      name: as it is written.
      is_person: whether that is known, say from an ORCID.
    """
    name = one_line(name) or "anonymous"
    family, comma, given = (part.strip() for part in name.partition(","))
    if not is_person and _GROUP.fullmatch(name):
        return Name(name)
    if comma and family and given:
        return Name(family, given)
    given, _, family = name.rpartition(" ")
    return Name(family, given)


def author_name(author: Author) -> Name:
    """An author's name; one with an ORCID is a person."""
    return name_of(author.name, bool(_ORCID.fullmatch(author.orcid.strip())))


def orcid_url(author: Author) -> str:
    """The address of an author's ORCID; nothing where there is none, or what is given is none."""
    found = _ORCID.fullmatch(author.orcid.strip())
    return f"https://orcid.org/{found[1]}" if found else ""


def names_of(line: str) -> list[Name]:
    """The names of one line of authors, as they are cited.

    ``A B and C D``, ``A B, C D``, ``B, A and D, C``, ``A B; C D``; a line that is none of these ("A B et al.") is one
    name.
    """
    line = one_line(line)
    if not line or re.search(r"\bet al\b", line):
        return [name_of(line) if not line else Name(line)]
    parts = [part.strip(" ,") for part in re.split(r";|,?(?<!\s)\s+(?:and|&)\s+", line)]
    # A comma separates people where each side has a given and a family name.
    parts = [name for part in parts for name in (part.split(",") if _lists_people(part) else [part])]
    return [name_of(part) for part in parts if part.strip()] or [Name(line)]


def _lists_people(part: str) -> bool:
    found = part.split(",")
    return len(found) > 1 and all(" " in name.strip() for name in found)


def title_of(manifest: Manifest) -> str:
    """What a release is called, in one line."""
    return one_line(manifest.title) or manifest.name


def in_line(authors: Sequence[Author]) -> str:
    """Authors in one line: ``A``, ``A and B``, ``A, B and C``."""
    found = [author_name(author) for author in authors]
    names = [f"{name.given} {name.family}".strip() for name in found]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])
