"""Slot values replaced by values that training does not have, consistently through each dialogue."""
