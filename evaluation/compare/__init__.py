"""Several systems next to each other: a leaderboard, and which differences are more than chance."""
