"""A leaderboard of submissions to a release, as static pages."""
