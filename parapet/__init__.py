"""Parapet (PARAphrases and PErTurbations): data with which people test how robust dialogue systems are."""
