"""Amazon Mechanical Turk for tests: an HTTP server that unmodified boto3 talks to, and workers who are method calls.

What it answers rests on botocore's model of the service, on what clients of MTurk have reported, and, where a comment
says so, on an assumption. It has the operations that Parapet calls.
"""

from .server import Call, Drop, FakeMTurk, Faults
from .state import MTurkError, Refusal
from .workers import Script, invented, play, scripts_from_jsonl

__all__ = ["Call", "Drop", "FakeMTurk", "Faults", "MTurkError", "Refusal", "Script"]
__all__ += ["invented", "play", "scripts_from_jsonl"]
