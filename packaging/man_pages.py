#!/usr/bin/env python3
"""Writes trainctl.1, and trainctl-VERB.1 for each command, from the help of the program. help2man (Debian: help2man) formats them.

usage: man_pages.py TRAINCTL FOLDER"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ENTRY = re.compile(r"^  ([a-z][a-z-]*)  +\S", re.M)  # a command in a list of commands
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8"}


@functools.cache  # for the version
def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout


def commands_in(text):
    """Returns the commands that a help text lists, before its options."""
    lists = re.split(r"^(?:Arguments|Options|Global options):", text, maxsplit=1, flags=re.M)[0]
    return ENTRY.findall(lists)


def commands(program):
    """Returns {words of the command: its help}, with the commands of commands."""
    found, waiting = {}, [()]
    while waiting:
        words = waiting.pop()
        found[words] = printed(program, *words, "--help")
        waiting += [(*words, inner) for inner in commands_in(found[words])]
    return found


def page_name(words):
    return "-".join(("trainctl", *words))


def see_also(words, names):
    """Returns the pages of the command above and of the commands below."""
    near = [other for other in names if other == words[:-1] or other[:-1] == words]
    return ",\n".join(f".BR {page_name(other)} (1)" for other in sorted(near) if other != words)


def page(program, words, text, names):
    """Returns the man page of one command. help2man takes the name of the program from its path, so the lines with the name are
    written here."""
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    version = printed(program, "version").split()[1]
    summary = text.partition(".\n")[0]
    summary = summary[0].lower() + summary[1:]
    with tempfile.NamedTemporaryFile("w", suffix=".h2m") as extra:
        extra.write("[see also]\n" + see_also(words, names) + "\n")
        extra.flush()
        command = " ".join([shlex.quote(str(program)), *words])
        made = printed("help2man", "--no-info", f"--name={summary}", f"--version-string={version}", f"--include={extra.name}", command)
    name = page_name(words)
    made = re.sub(r"^\.TH .*$", f'.TH {name.upper()} 1 {date} "trainctl {version}" "trainctl manual"', made, count=1, flags=re.M)
    return re.sub(r"(?<=^\.SH NAME\n).* \\- ", name.replace("-", r"\\-") + r" \\- ", made, count=1, flags=re.M)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    helps = commands(sys.argv[1])
    for words, text in helps.items():
        (folder / f"{page_name(words)}.1").write_text(page(sys.argv[1], words, text, list(helps)))


if __name__ == "__main__":
    main()
