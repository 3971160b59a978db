"""``python -m harness.reference``: the embedded engine alone on a port."""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: threads cost more than they bring here

from harness.reference.faults.spec import describe_faults
from harness.reference.options import add_arguments, from_values
from harness.reference.server.running import run


def main() -> int:
    """Serves until told to stop; 2 for options or an address that cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m harness.reference", description="Serve the embedded engine.")
    add_arguments(parser)
    parser.add_argument("--list-faults", action="store_true", help="print the faults that can be planted, and stop")
    given = vars(parser.parse_args())
    if given.pop("list_faults"):
        print("\n".join(describe_faults()))
        return 0
    try:
        run(from_values(given))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
