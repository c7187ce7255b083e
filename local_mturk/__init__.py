"""A local MTurk: the requester API for unmodified boto3, the workers' pages, and workers to play with."""
