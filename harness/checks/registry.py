"""Every check there is, by the name the command line spells."""

from __future__ import annotations

from harness.checks.billing.check import BILLING
from harness.checks.cached_tokens.check import CACHED_TOKENS
from harness.checks.check import Check
from harness.checks.context.check import CONTEXT
from harness.checks.eviction.check import EVICTION
from harness.checks.heartbeat.check import HEARTBEAT
from harness.checks.isolation.check import ISOLATION
from harness.checks.mtp.check import MTP
from harness.checks.overload.check import OVERLOAD
from harness.checks.parity.check import PARITY
from harness.checks.reasoning.check import REASONING
from harness.checks.recall.check import RECALL
from harness.checks.spec_parity.check import SPEC_PARITY
from harness.checks.stream.check import STREAM
from harness.checks.tiers.check import TIERS
from harness.checks.tools.check import TOOLS

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        BILLING,
        CACHED_TOKENS,
        CONTEXT,
        EVICTION,
        HEARTBEAT,
        ISOLATION,
        MTP,
        OVERLOAD,
        PARITY,
        REASONING,
        RECALL,
        SPEC_PARITY,
        STREAM,
        TIERS,
        TOOLS,
    )
}
