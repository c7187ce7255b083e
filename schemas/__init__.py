"""The records of Parapet, and how they are read and written. Imports nothing else of the project."""

import csv

# The csv module refuses cells over 128 KB with an error that ends the file. The limit is global to the process, so it
# is set in one place; each reader checks cells against its own limit.
csv.field_size_limit(1 << 30)
