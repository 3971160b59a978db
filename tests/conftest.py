"""One BLAS thread in every test: the engine's matrices are small, and the machine is shared."""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
