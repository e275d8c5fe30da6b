"""The n-th system call of a save fails or kills the process, for every n, and the earlier checkpoints stay intact. Needs
TRAINCTL_SAVER.

TRAINCTL_LONG=1 adds more errors, calls that keep failing, short writes that report success, and kills at calls that change
nothing."""

import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

SAVER = os.environ["TRAINCTL_SAVER"]
LONG = os.environ.get("TRAINCTL_LONG") == "1"
# The system calls of a save. strace ignores the names that this architecture lacks.
WRITES = ["write", "writev", "pwrite64", "pwritev", "pwritev2"]
CHANGES = [*WRITES, "rename", "renameat", "renameat2", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir",
           "ftruncate", "fallocate"]
CALLS = [*CHANGES, "open", "openat", "close", "fsync", "fdatasync"]
READS = ["read", "pread64", "preadv", "getdents64"]
ERRORS = ["ENOSPC", "EIO", "EDQUOT"]
MORE_ERRORS = [*ERRORS, "EROFS", "EINTR"]
MARK = "getppid"  # the saver calls getppid where a save begins
DEADLINE = 600
Case = collections.namedtuple("Case", "call number what sticky")
Ended = collections.namedtuple("Ended", "code out err fired trace")


def saver(folder, *words, **options):
    return subprocess.run([SAVER, str(folder), *words], capture_output=True, text=True, timeout=DEADLINE, **options)


def looks(ended):
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def cannot_trace():
    """Returns why system calls cannot be made to fail here, or None if they can."""
    if not shutil.which("strace"):
        return "strace is not installed: scripts/setup --checks"
    ended = subprocess.run(["strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=getppid:error=EIO", "true"],
                           capture_output=True, text=True, timeout=DEADLINE)
    return "strace cannot trace here: " + ended.stderr.strip().split("\n")[-1] if ended.returncode else None


def memory_folder():
    """Returns a folder in memory if there is one: syncs are free there, and the disk does not matter to these tests."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Saves(unittest.TestCase):
    """Saves steps 1 and 2, lets the save of step 3 fail, checks the checkpoints that are left, and saves step 4."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="trainctl-checkpoint-", dir=memory_folder())
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.names = itertools.count()
        self.template = self.folder / "template"
        ended = saver(self.template, "save:1", "save:2")
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def copy(self):
        folder = self.folder / str(next(self.names))
        shutil.copytree(self.template, folder, symlinks=True)
        return folder

    def check_outcome(self, folder, code, out, what):
        """Checks that the old or the new save is intact and that the next save removes every file of the failed one."""
        after = saver(folder, "look", "save:4", "look")
        said = f"{what}: {after.stdout}{after.stderr}"
        self.assertEqual(after.returncode, 0, said)
        found, then = looks(after)
        self.assertIn(found["newest"], (2, 3), said)
        if code == 0 or "committed" in out:
            self.assertEqual(found["newest"], 3, said)
        self.assertEqual(found["reported"] + found["damaged"], [], said)
        self.assertGreaterEqual(len(found["whole"]), 2, said)
        for link in ("last", "best"):
            self.assertIn(found[link], found["whole"], said)
        self.assertEqual((then["newest"], then["last"], then["best"], then["reported"], then["damaged"]), (4, 4, 4, [], []), said)
        self.check_nothing_left(folder, then["whole"], said)

    def check_nothing_left(self, folder, whole, said):
        self.assertEqual(len(whole), 2, said)
        expected = ["best", *(f"epoch=0001-mid-step={step:06}" for step in sorted(whole)), "last"]
        self.assertEqual(sorted(path.name for path in folder.iterdir()), expected, said)
        for step in whole:
            names = sorted(path.name for path in (folder / f"epoch=0001-mid-step={step:06}").iterdir())
            self.assertEqual(names, ["manifest", "rank_0.part", "rank_1.part"], said)


@unittest.skipIf(cannot_trace(), cannot_trace())
class CallsThatFail(Saves):
    def trace(self, folder, *inject):
        """Saves step 3 under strace."""
        log = folder.with_suffix(".trace")
        calls = ",".join("?" + call for call in [*CALLS, *READS])
        ended = subprocess.run(["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={calls},{MARK}", *inject,
                                SAVER, str(folder), "save:3"], capture_output=True, text=True, timeout=DEADLINE)
        text = log.read_text(errors="replace")
        log.unlink()
        fired = "(INJECTED)" in text or "+++ killed by SIGKILL +++" in text
        return Ended(ended.returncode, ended.stdout, ended.stderr, fired, text)

    def inject(self, case):
        """Injects the fault, checks the checkpoints, and returns whether the save reached the call."""
        folder = self.copy()
        when = f"{case.number}{'+' if case.sticky else ''}"
        ended = self.trace(folder, "-e", f"inject={case.call}:{case.what}:when={when}")
        said = f"{case}: {ended.code} {ended.err}"
        if not case.what.startswith("signal"):
            self.assertIn(ended.code, (0, 10, 11), said)
        self.check_outcome(folder, ended.code, ended.out, said)
        shutil.rmtree(folder)
        return ended.fired

    def counts(self):
        """Returns {call: (number of calls before the save begins, number of calls in total)}."""
        ended = self.trace(self.copy())
        self.assertEqual((ended.code, ended.fired), (0, False), ended.err)
        calls = re.findall(r"^\d+ +(\w+)\(", ended.trace, re.M)
        start = calls.index(MARK)
        before, total = collections.Counter(calls[:start]), collections.Counter(calls)
        return {call: (before[call], total[call]) for call in total if call != MARK and total[call] > before[call]}

    def every(self, calls, what, sticky=False):
        """Runs every case from the first call of a save to one past its last, which must not be reached, so that no case is left
        out."""
        counts = self.counts()
        chosen = [call for call in calls if call in counts]
        self.assertTrue(chosen)
        cases = [Case(call, number, what(number), sticky) for call in chosen
                 for number in range(counts[call][0] + 1, counts[call][1] + 2)]
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            fired = dict(zip(cases, pool.map(self.inject, cases)))
        for case, was_reached in fired.items():
            self.assertEqual(was_reached, case.number <= counts[case.call][1], case)
        print(f"{len(cases)} saves, {sum(fired.values())} of which went wrong at one of: {', '.join(chosen)}")

    def test_every_call_fails_in_turn(self):
        if LONG:
            for error in MORE_ERRORS:
                with self.subTest(error=error):
                    self.every(CALLS + READS, lambda number, error=error: f"error={error}")
        else:
            self.every(CALLS, lambda number: f"error={ERRORS[number % len(ERRORS)]}")

    def test_the_process_is_killed_at_every_call(self):
        self.every(CALLS + READS if LONG else CHANGES, lambda number: "signal=KILL")

    @unittest.skipUnless(LONG, "TRAINCTL_LONG=1 is not set")
    def test_every_call_fails_from_some_time_on(self):
        for error in MORE_ERRORS:
            # The writer retries an interrupted write, so an endless EINTR would never end.
            calls = [call for call in CALLS + READS if error != "EINTR" or call not in WRITES + READS]
            with self.subTest(error=error):
                self.every(calls, lambda number, error=error: f"error={error}", sticky=True)

    @unittest.skipUnless(LONG, "TRAINCTL_LONG=1 is not set")
    def test_a_write_that_falsely_reports_a_byte_is_detected(self):
        self.every(WRITES, lambda number: "retval=1")

    @unittest.skipUnless(LONG, "TRAINCTL_LONG=1 is not set")
    def test_a_sync_that_does_nothing_changes_nothing_while_the_power_stays(self):
        self.every(["fsync", "fdatasync"], lambda number: "retval=0")


class WritesThatFallShort(Saves):
    def test_files_may_grow_no_further_at_every_length(self):
        """The last write that fits is short, and the next write fails."""
        longest = max(path.stat().st_size for path in self.template.glob("*/*"))
        codes = []
        for limit in [*range(0, longest, 37 if LONG else 149), longest - 1, longest]:
            folder = self.copy()

            def bounded(limit=limit):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            # Python ignores SIGXFSZ and the child inherits that, so the write returns an error.
            ended = saver(folder, "save:3", preexec_fn=bounded, restore_signals=False)
            codes.append(ended.returncode)
            self.check_outcome(folder, ended.returncode, ended.stdout, f"at most {limit} bytes: {ended.returncode} {ended.stderr}")
            shutil.rmtree(folder)
        self.assertEqual(codes[-1], 0)
        self.assertEqual(set(codes[:-1]), {11})


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    failed = not program.result.wasSuccessful()
    all_skipped = len(program.result.skipped) == program.result.testsRun
    raise SystemExit(1 if failed else 4 if all_skipped else 0)  # CTest shows exit code 4 as skipped
