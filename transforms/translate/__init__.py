"""Translation of texts: engines, batches within their limits, and a memory so that each text is paid for only once."""
