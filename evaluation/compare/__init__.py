"""Compares systems: a leaderboard, and tests of their differences."""
