"""Attribution of a release: CITATION.cff, BibTeX and LICENSE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from parapet.schemas.release import LICENCES, Author, Manifest
from parapet.transforms.report.markdown import is_url, one_line, quoted

KEYWORDS = (
    "dialogue",
    "task-oriented dialogue",
    "schema-guided dialogue",
    "dialogue state tracking",
    "robustness",
)


def licence_url(spdx: str) -> str:
    """Return the address of a licence's text; empty if Parapet does not know the licence."""
    return f"https://spdx.org/licenses/{spdx}.html" if spdx in LICENCES else ""


def licence_name(spdx: str) -> str:
    """Return the full name of a licence, or the identifier itself."""
    return LICENCES.get(spdx) or one_line(spdx)


def authors_line(authors: Sequence[Author]) -> str:
    """Join the authors, as they are written, in one line."""
    return "; ".join(one_line(author.name) for author in authors)


def title_of(manifest: Manifest) -> str:
    """Return the title of a release in one line."""
    return one_line(manifest.title) or manifest.name


def citation_cff(manifest: Manifest) -> str:
    """Create CITATION.cff in the Citation File Format 1.2.0, with the sources as references."""
    fields = {
        "cff-version": "1.2.0",
        "message": "If you use this dataset, please cite it, and the works that it is made from.",
        "type": "dataset",
        "title": title_of(manifest),
        "version": manifest.version,
        "date-released": manifest.created,
        "abstract": manifest.description.strip(),
        "authors": [_cff_author(author) for author in manifest.authors],
        "license": manifest.licence if manifest.licence in LICENCES else "",
        "url": quoted(manifest.homepage) if is_url(manifest.homepage) else "",
        "keywords": list(KEYWORDS),
        "references": [
            _filled(
                {
                    "type": "data",
                    "title": one_line(source.title),
                    "authors": [{"name": one_line(source.authors) or "anonymous"}],
                    "url": quoted(source.url) if is_url(source.url) else "",
                    "license": source.licence if source.licence in LICENCES else "",
                    "notes": one_line(source.citation),
                }
            )
            for source in manifest.sources
        ],
    }
    return str(yaml.safe_dump(_filled(fields), sort_keys=False, allow_unicode=True, width=100))


def _cff_author(author: Author) -> dict[str, str]:
    family, _, given = one_line(author.name).partition(", ")
    orcid = f"https://orcid.org/{author.orcid}" if author.orcid else ""
    if not given:  # an entity, which has no affiliation
        return _filled({"name": family or "anonymous", "orcid": orcid})
    names = {"family-names": family, "given-names": given}
    return _filled({**names, "affiliation": one_line(author.affiliation), "orcid": orcid})


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Drop empty values: CFF allows no empty text and no empty list."""
    return {key: value for key, value in fields.items() if value}


def bibtex(manifest: Manifest) -> str:
    """Create the BibTeX entry of a release."""
    # Braces keep the name of a group from being read as a person's.
    names = [_latex(author.name) for author in manifest.authors]
    authors = " and ".join(name if ", " in name else f"{{{name}}}" for name in names)
    fields = {
        "author": authors,
        "title": f"{{{_latex(title_of(manifest))}}}",
        "year": manifest.created[:4],
        "version": manifest.version,
        "url": _latex(quoted(manifest.homepage)) if is_url(manifest.homepage) else "",
        "note": f"Version {manifest.version}. {_latex(licence_name(manifest.licence))}",
    }
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{manifest.name}-{manifest.version}").strip("-").lower()
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@misc{{{key},\n{lines}}}\n"


def _latex(value: str) -> str:
    """Escape what LaTeX would read as a command; braces and the like, which have no plain escape, are left out."""
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[\\{}`~^]", "", one_line(value)))


def licence_text(manifest: Manifest, own: str = "") -> str:
    """Create LICENSE: the release's own licence text, if any, or the address of the licence, and all attributions."""
    address = licence_url(manifest.licence)
    parts = [
        own.strip(),
        f"{title_of(manifest)}, version {manifest.version}\nby {authors_line(manifest.authors)}",
        f"Licence: {licence_name(manifest.licence)}" + (f"\nText: {address}" if address else ""),
    ]
    if manifest.sources:
        parts.append(
            "This dataset is made from the works below. They were changed for it;\n"
            "their authors do not vouch for the result."
        )
    for source in manifest.sources:
        about = [source.title, source.authors, source.url, licence_name(source.licence), licence_url(source.licence)]
        lines = [one_line(line) for line in (*about, source.citation) if line.strip()]
        parts.append("- " + "\n  ".join(lines))
    return "\n\n".join(filter(None, parts)) + "\n"
