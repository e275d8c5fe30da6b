"""Processes as the proofs see them: who lives, what a rank stamped last, a moment that is waited for."""

import collections
import mmap
import os
import pathlib
import struct
import time

DEADLINE = 180  # nothing here takes so long unless it hangs
PHASES = ["startup", "train", "validate", "checkpoint", "shutdown", "load"]  # as events::Phase counts them
Beat = collections.namedtuple("Beat", "step phase")
STAMP = struct.Struct("=qi4xq")  # events::Heartbeat


def wait_for(what, condition, timeout=DEADLINE, pause=0.002):
    """What `condition` gives as soon as that is true."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(pause)
    raise AssertionError(f"waited {timeout} s for {what}")


def processes(*words):
    """Living processes with one of the words in their environment or command line."""
    needles = [word.encode() for word in words]
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(needle in text for needle in needles):
            found.append(int(entry.name))
    return found


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Pages:
    """What the ranks of a job last stamped, read from the pages that they share with their supervisor."""

    def __init__(self, pid):
        self.maps, self.read_at = [], time.monotonic()
        for link in sorted(pathlib.Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
            try:
                if os.readlink(link).startswith("/memfd:trainctl-heartbeat"):
                    with open(link, "rb") as file:
                        self.maps.append(mmap.mmap(file.fileno(), STAMP.size, access=mmap.ACCESS_READ))
            except OSError:
                continue

    def beats(self):
        stamps = [STAMP.unpack(page[:STAMP.size]) for page in self.maps]
        return [Beat(step, PHASES[phase] if phase < len(PHASES) else "") for step, phase, when in stamps if when]
