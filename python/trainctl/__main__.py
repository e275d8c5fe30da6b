"""The command `trainctl`, which is also `python -m trainctl`: `export-model` exports a model of Python, and the program does the rest."""

import os
import sys

from trainctl import program

MISSING = 11  # the program's exit code when something that it needs is missing


def main() -> None:
    if sys.argv[1:2] == ["export-model"]:
        from trainctl import export

        sys.exit(export.main(sys.argv[2:]))
    try:
        path = program.find_program()
        os.execve(path, [_name(path), *sys.argv[1:]], program.environment())
    except OSError as error:
        print(f"error: cannot start trainctl: {error}", file=sys.stderr)
        sys.exit(MISSING)


def _name(path: str) -> str:
    """Returns what a user types to start this command, because the program prints it in the commands that it suggests."""
    folder, name = os.path.split(sys.argv[0])
    if name != "trainctl":
        return path  # python -m trainctl
    return name if folder in os.get_exec_path() else sys.argv[0]


if __name__ == "__main__":
    main()
