"""Several processes that send, here or on other machines: one plan and one history in the parent."""

from __future__ import annotations

from harness.drive.workers.link import WorkersDied
from harness.drive.workers.local import local_links
from harness.drive.workers.pool import WorkerPool, worker_pool
from harness.drive.workers.ray_nodes import ray_links

__all__ = ["WorkerPool", "WorkersDied", "local_links", "ray_links", "worker_pool"]
