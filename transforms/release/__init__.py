"""Versioned releases: rows and documents of a build, the checks of verify, the differences of diff."""
