"""`sweep --engine ray` on a cluster of three node processes on this machine, one of which is killed midway."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.records import ErrorKind, Outcome
from harness.store import RunFolder, read_cell
from tests.e2e.commands import engine, run_ling_bench, start_ling_bench

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.fixture
def cluster() -> Iterator[tuple[Any, list[Any]]]:
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs pip install 'ling-bench[ray]'")
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [made.add_node(num_cpus=1) for _ in range(3)]
    made.wait_for_nodes()
    yield made, nodes
    made.shutdown()


def test_a_killed_node_loses_its_unfinished_requests_and_nothing_else(
    cluster: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    made, nodes = cluster
    size = ("--concurrency", "9", "--duration", "25", "--output-len", "60", "--ignore-eos")
    where = ("--engine", "ray", "--ray-address", made.address, "--workers", "3")
    with engine() as url:
        running = start_ling_bench("sweep", "--base-url", url, *size, *where, "--json", cwd=tmp_path)
        answered = (tmp_path / "results").glob
        while sum(each.read_bytes().count(b'"complete"') for each in answered("*/*/history.jsonl")) < 20:
            assert running.poll() is None, running.communicate()
            time.sleep(0.2)
        made.remove_node(nodes[0], allow_graceful=False)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 4, err
    [cell] = json.loads(out)["cells"]
    [warning] = [each for each in cell["warnings"] if "Ray worker" in each]
    assert "ended early" in warning
    [run] = (tmp_path / "results").iterdir()
    history = read_cell(RunFolder.open(run), cell["cell"])
    assert not history.gap and not history.orphan_completes and not history.lost_times
    lost = [each for each in history.records if each.complete.outcome is not Outcome.OK]
    assert 0 < len(lost) <= 3, "a node of three carries a third of nine requests at most"
    for each in lost:
        assert each.complete.error is not None and each.complete.error.kind is ErrorKind.HARNESS_DIED
        assert each.complete.error.message in warning
    assert history.info is not None and history.info.health.processes == 3, "the parent and two that lived"
    assert history.info.health.clock_error_ms is not None and history.info.health.clock_error_ms < 50
    ended_ns = max(each.complete.end_ns or 0 for each in lost)
    assert sum(each.invoke.planned_ns > ended_ns for each in history.records) >= 9, "the others went on"


def test_a_cluster_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs pip install 'ling-bench[ray]'")
    with engine() as url:
        where = ("--engine", "ray", "--ray-address", "127.0.0.1:1", "--workers", "2")
        result = run_ling_bench("sweep", "--base-url", url, "--concurrency", "2", *where, cwd=tmp_path)
    assert result.returncode != 0
    assert "Ray: the cluster at 127.0.0.1:1 cannot be used" in result.stderr
    assert "Traceback" not in result.stderr
