"""Disks that fail, and machines that lose power, as far as the program is concerned."""
