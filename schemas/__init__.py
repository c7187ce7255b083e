"""The records of Parapet and how they are read and written. Imports nothing else of the project."""
