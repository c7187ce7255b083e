"""Speed as ratios against a named peer, in one run. Not part of the tests."""
