"""How a release is cited: CITATION.cff and BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from parapet.schemas.release_config import Source
from parapet.schemas.release_manifest import Manifest
from parapet.transforms.markdown import is_url, one_line, quoted
from parapet.transforms.release.documents.licences import find
from parapet.transforms.release.documents.names import Name, author_name, names_of, orcid_url, title_of

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
