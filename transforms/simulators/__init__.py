"""Simulators of dialogues: restaurants (dialog bAbI tasks 1 to 5), DSTC2 as task 6, and reminders."""
