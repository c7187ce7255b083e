"""Whether a release is what it says: files, rows, references, documents."""
