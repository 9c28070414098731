"""Builds Horovod if it is not there yet, and prints the folder that belongs on PYTHONPATH.

python -m tools.horovod
"""

from __future__ import annotations

import sys

from tools.horovod.building import BuildError, built


def main() -> None:
    try:
        print(built())
    except BuildError as error:
        sys.exit(f"horovod: {error}")


if __name__ == "__main__":
    main()
