"""How two releases differ, row by row, and what that asks of the version."""
