"""From response files to assignments: batch CSV of the requester site, or JSON lines of the API, mixed and repeated."""
