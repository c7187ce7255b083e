from release_manifests import change, follows, manifest

from parapet.transforms.release.documents import changelog


def test_newest_first():
    first = changelog(manifest(version="1.0.0", created="", release_notes="One."), "")
    second = changelog(manifest(version="1.0.1", release_notes="Two.", **follows(level="patch")), first)
    third = changelog(
        manifest(
            version="2.0.0",
            title="Renamed",
            release_notes="Three.",
            **follows(
                change(added=1),
                change(config="v1", split="test", added=0, changed=0, removed=2),
            ),
        ),
        second,
    )
    assert third == (
        "# Changelog of Renamed\n\n"
        "## 2.0.0 (2026-02-03)\n\n"
        "Three.\n\n"
        "Against 1.0.0, major (rows of an existing split were added, removed or changed, or a column or split was "
        "removed):\n\n"
        "- original, train: 1 rows added, 0 removed, 1,200 changed\n"
        "- v1, test: 0 rows added, 2 removed, 0 changed\n\n"
        "## 1.0.1 (2026-02-03)\n\nTwo.\n\nThe same rows as 1.0.0.\n\n"
        "## 1.0.0\n\nOne.\n\nThe first version.\n"
    )
