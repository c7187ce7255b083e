from release_manifests import change, follows, manifest

from parapet.transforms.release.card import changelog


def test_newest_first():
    first = changelog(manifest(version="1.0.0", created="", release_notes="One."), "")
    second = changelog(manifest(version="1.0.1", release_notes="Two.", **follows(level="patch")), first)
    third = changelog(
        manifest(
            version="2.0.0",
            title="Renamed",
            release_notes="# Three\n\n## 9.9.9",
            **follows(
                change(added=1, columns_added=["a|b", "c"]),
                change(config="v1", split="test", added=0, changed=0, removed=2, columns_removed=["d"]),
                change(config="v2", split="test", added=0, changed=0),
            ),
        ),
        second,
    )
    assert third == (
        "# Changelog of Renamed\n\n"
        "## 2.0.0 (2026-02-03)\n\n"
        "### Three\n\n#### 9.9.9\n\n"
        "Against 1.0.0, major (rows of an existing split were added, removed or changed, or a column or split was "
        "removed):\n\n"
        "- `original`, `train`: 1 row added, 1,200 rows changed; new columns a\\|b, `c`\n"
        "- `v1`, `test`: 2 rows removed; removed column `d`\n"
        "- `v2`, `test`: other files\n\n"
        "## 1.0.1 (2026-02-03)\n\nTwo.\n\nThe same rows as 1.0.0.\n\n"
        "## 1.0.0\n\nOne.\n\nThe first version.\n"
    )


def test_a_changelog_of_another_form_is_kept():
    assert changelog(manifest(), "What was before.\n").endswith("The first version.\n\nWhat was before.\n")
