"""Baseline models of the papers. Modules in this package may import torch at import time, but no others."""
