"""What the Python peers share: jobs come in as a JSON file, records go in and out as JSON with bytes in base64.

A job is {"op": "write" | "read" | "admin", "topic", "codec", "idempotent", "max_bytes", "records" | "count", "output"}. An admin job
creates its topic with three partitions, finds it in the list, and deletes it.
"""

import base64
import json
import sys
import time

# A peer that gets no further within this many seconds reports what is missing instead of waiting on.
LIMIT_SECONDS = 120


def _bytes(text):
    return None if text is None else base64.b64decode(text)


def _text(data):
    return None if data is None else base64.b64encode(data).decode("ascii")


class Record:
    def __init__(self, offset, timestamp, key, value, headers):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers  # list of (str, bytes or None)

    @classmethod
    def parse(cls, j):
        headers = [(h["key"], _bytes(h["value"])) for h in j["headers"] or []]
        return cls(j["offset"], j["timestamp"], _bytes(j["key"]), _bytes(j["value"]), headers)

    def json(self):
        return {
            "offset": self.offset,
            "timestamp": self.timestamp,
            "key": _text(self.key),
            "value": _text(self.value),
            "headers": [{"key": k, "value": _text(v)} for k, v in self.headers or []],
        }


class Deadline:
    def __init__(self, what):
        self.what = what
        self.end = time.monotonic() + LIMIT_SECONDS

    def check(self):
        if time.monotonic() > self.end:
            raise TimeoutError(f"{self.what}: not done after {LIMIT_SECONDS} s")


def run(write, read, admin):
    """Carries out the jobs of the file named by the first argument, against the server named by the second."""
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    server = sys.argv[2]
    for job in jobs:
        if job["op"] == "write":
            with open(job["records"]) as f:
                records = [Record.parse(j) for j in json.load(f)]
            write(server, job, records)
        elif job["op"] == "admin":
            admin(server, job)
        else:
            records = read(server, job, Deadline(job["topic"]))
            with open(job["output"], "w") as f:
                json.dump([r.json() for r in records], f)
