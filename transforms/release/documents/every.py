"""The documents of a release, all from its manifest: no clock, no order of arrival, nothing of the machine."""

from __future__ import annotations

from parapet.schemas.release_manifest import CARD, CHANGELOG, CITATION, CROISSANT, LICENCE, REPORT, Manifest
from parapet.transforms.release.documents.card import card
from parapet.transforms.release.documents.changelog import changelog
from parapet.transforms.release.documents.citation import citation_cff
from parapet.transforms.release.documents.croissant import croissant
from parapet.transforms.release.documents.licences import licence_text
from parapet.transforms.release.documents.report import release_report
from parapet.transforms.report import page


def documents(manifest: Manifest, previous_changelog: str, licence_file_text: str) -> dict[str, bytes]:
    """Path in the release to bytes, sorted by path.

    Args:
      manifest: with the files of the data, and not yet those of the documents.
      previous_changelog: CHANGELOG.md of the release that this one follows, or nothing.
      licence_file_text: the licence's text where the release brings its own, or nothing.
    """
    found = {
        CARD: card(manifest),
        CHANGELOG: changelog(manifest, previous_changelog),
        CITATION: citation_cff(manifest),
        LICENCE: licence_text(manifest, licence_file_text),
        REPORT: page(release_report(manifest)),
    }
    made = {CROISSANT: croissant(manifest), **{path: text.encode() for path, text in found.items()}}
    return dict(sorted(made.items()))
