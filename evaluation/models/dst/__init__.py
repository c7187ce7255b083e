"""Models of dialogue state tracking, which predict the state of a service after a user turn."""
