#!/usr/bin/env python3
"""Checks that code which can make the host wait for a GPU counts it: a tensor is read through device/host_read.hpp, or
count_host_wait() is called for it in one of the lines before."""

import re

import tree

FOLDERS = ("device", "dist", "stage", "stages", "train", "engine")
READ = re.compile(r"\.item\b|\.cpu\(\)|\.to\(at::kCPU|(?:\.|at::)(?:equal|nonzero|masked_select|is_nonzero)\("
                  r"|_local_scalar_dense|(?:\.|->)synchronize\(|(?:ynchronizeDevice|deviceSynchronize|device_synchronize)\("
                  r"|\.to\([^;]*[dD]evice")
# A copy in the background, and a call of a module's to(), which counts.
HARMLESS = re.compile(r"/\*non_blocking=\*/true|^\s*\w+\.to\(\w+\);$")
# Comments that say why a line needs no count.
REASON = re.compile(r"// .*(?:counts the host wait|is on the host)")
COUNT = re.compile(r"count_(?:host_wait|if_moved)\(")
LINES_BEFORE = 3
ALLOWED = {
    "lib/device/host_read.cpp": "it counts",
    "lib/device/host_read.hpp": "it counts",
    "lib/device/cuda.cpp": "device::await() counts for its events, and throw_kernel_error() belongs to a failed run",
    "lib/device/device.cpp": "`doctor` compares products, and no run calls it",
    "lib/engine/jobs/measure_link.cpp": "it measures a link, and no run calls it",
    "lib/engine/jobs/test_gpu.cpp": "it tests a GPU, and no run calls it",
}


def uncounted(text):
    lines, code = text.splitlines(), tree.without_comments(text).splitlines()
    counted = []  # the lines of counts that no read has used
    for number, line in enumerate(code):
        if COUNT.search(line):
            counted.append(number)
        if not READ.search(line) or HARMLESS.search(lines[number]) or REASON.search(lines[number]):
            continue
        if not counted or counted.pop() < number - LINES_BEFORE:
            yield number + 1, lines[number].strip()


def check(root):
    violations = []
    for path in tree.files(root, ".cpp", ".hpp"):
        if path.parts[0] != "lib" or path.parts[1] not in FOLDERS or str(path) in ALLOWED:
            continue
        violations += [f"{path}:{number}: the host may wait for a GPU here, and nothing counts it: {line}\n"
                       "  read the tensor with device::copy_to_host() or device::value_of()" for number, line in uncounted(tree.read(root, path))]
    return violations


if __name__ == "__main__":
    tree.run("host_reads", check)
