"""Peer processes: each serves one program of a row, stays ready between rounds, and measures when it is asked."""

import json
import os
import select
import subprocess
import time

from machine import ROOT, kill_group
from runner import OutOfTime

FOLDER = ROOT / "tests/bench/peers"


class PeerFailed(Exception):
    """The peer cannot run here; the text says why. `was_ready` says that it has failed later, in a measurement."""

    def __init__(self, text, was_ready=False):
        super().__init__(text)
        self.was_ready = was_ready


class Peer:
    """A process of tests/bench/peers that prints a line of JSON when it is ready, and one for each line that it reads."""

    def __init__(self, context, words):
        self.context, self.pending = context, b""
        self.errors = open(context.logs / f"peer-{'-'.join(words[:3])}.log", "ab+")
        self.process = subprocess.Popen([context.python, *words], cwd=FOLDER, env=context.environment(), start_new_session=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        try:
            self._line()
        except BaseException:
            self.close()
            raise

    def _line(self):
        """Waits for the next line of JSON; other lines are skipped."""
        while True:
            head, newline, rest = self.pending.partition(b"\n")
            if newline:
                self.pending = rest
                if head.startswith(b"{"):
                    return json.loads(head)
                continue
            left = self.context.left()
            if left <= 0:
                raise OutOfTime()
            readable, _, _ = select.select([self.process.stdout], [], [], min(left, 1))
            if not readable:
                continue
            block = os.read(self.process.stdout.fileno(), 65536)
            if not block:
                raise PeerFailed(self._last_error())
            self.pending += block

    def _last_error(self):
        self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def measure(self):
        self.process.stdin.write(b"measure\n")
        self.process.stdin.flush()
        return self._line()

    def close(self):
        kill_group(self.process)
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            file.close()


class Peers:
    """The peers of the row that is measured. Those of another row end, because they occupy memory of the GPU."""

    def __init__(self):
        self.row, self.open, self.broken = None, {}, {}  # broken: the PeerFailed of each peer that cannot run

    def measure(self, context, row, name, words):
        """Returns a measurement of a peer, which is started if it does not run yet. Throws PeerFailed if it cannot run."""
        if row != self.row:
            self.close()
            self.row = row
        if name in self.broken:
            raise self.broken[name]
        try:
            if name not in self.open:
                begun = time.monotonic()
                self.open[name] = Peer(context, words)
                context.log(f"{name} is ready after {time.monotonic() - begun:.1f} s")
            return self.open[name].measure()
        except (PeerFailed, BrokenPipeError) as error:
            self.broken[name] = PeerFailed(str(error), was_ready=name in self.open)
            raise self.broken[name] from error

    def close(self):
        for peer in self.open.values():
            peer.close()
        self.row, self.open, self.broken = None, {}, {}
