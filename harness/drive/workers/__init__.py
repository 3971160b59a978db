"""Several processes that send: one plan and one history in the parent, sockets and clocks shared by all."""

from __future__ import annotations

from harness.drive.workers.pool import WorkerPool, WorkersDied, worker_pool

__all__ = ["WorkerPool", "WorkersDied", "worker_pool"]
