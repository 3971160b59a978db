"""What to ask a server, as pure and seeded plans."""

from workloads.cost import PlanCost, plan_cost
from workloads.options import WorkloadOptions
from workloads.registry import WORKLOADS

__all__ = ["WORKLOADS", "PlanCost", "WorkloadOptions", "plan_cost"]
