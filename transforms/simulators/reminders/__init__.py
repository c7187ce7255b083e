"""The reminder domain (RADDLE, Peng et al. 2021, section 4): dialogues of an agenda-based user and a small service."""
