"""The faults by code; there is no K16."""

from __future__ import annotations

from harness.reference.faults.abort_late_write import AbortLateWrite
from harness.reference.faults.accept_metric import AcceptMetric
from harness.reference.faults.batch_size import BatchSize
from harness.reference.faults.boundary_double import BoundaryDouble
from harness.reference.faults.cache_inert import CacheInert
from harness.reference.faults.cached_absent import CachedAbsent
from harness.reference.faults.cached_invalid import CachedInvalid
from harness.reference.faults.cached_over import CachedOver
from harness.reference.faults.chunk_handoff import ChunkHandoff
from harness.reference.faults.conv_lost import ConvLost
from harness.reference.faults.conv_rollback import ConvRollback
from harness.reference.faults.draft_state import DraftState
from harness.reference.faults.evicted_mapped import EvictedMapped
from harness.reference.faults.fault import Fault
from harness.reference.faults.gateway import Gateway
from harness.reference.faults.group_divergence import GroupDivergence
from harness.reference.faults.host_roundtrip import HostRoundtrip
from harness.reference.faults.key_collision import KeyCollision
from harness.reference.faults.lossy_accept import LossyAccept
from harness.reference.faults.nan_poison import NanPoison
from harness.reference.faults.no_rollback import NoRollback
from harness.reference.faults.pad_row_write import PadRowWrite
from harness.reference.faults.partial_restore import PartialRestore
from harness.reference.faults.placeholder_tail import PlaceholderTail
from harness.reference.faults.preempt_stale import PreemptStale
from harness.reference.faults.rollback_index import RollbackIndex
from harness.reference.faults.row_permutation import RowPermutation
from harness.reference.faults.slot_alias import SlotAlias
from harness.reference.faults.snapshot_aliased import SnapshotAliased
from harness.reference.faults.snapshot_position import SnapshotPosition
from harness.reference.faults.snapshot_precision import SnapshotPrecision
from harness.reference.faults.snapshot_unwritten import SnapshotUnwritten
from harness.reference.faults.stale_tenant import StaleTenant
from harness.reference.faults.state_missing import StateMissing
from harness.reference.faults.stream_mismatch import StreamMismatch

FAULTS: dict[str, type[Fault]] = {
    "K01": StateMissing,
    "K02": SnapshotUnwritten,
    "K03": SnapshotPosition,
    "K04": BoundaryDouble,
    "K05": ConvLost,
    "K06": SnapshotAliased,
    "K07": SnapshotPrecision,
    "K08": PartialRestore,
    "K09": GroupDivergence,
    "K10": ChunkHandoff,
    "K11": StaleTenant,
    "K12": SlotAlias,
    "K13": PreemptStale,
    "K14": AbortLateWrite,
    "K15": PadRowWrite,
    "K17": RowPermutation,
    "K18": BatchSize,
    "K19": NanPoison,
    "K20": NoRollback,
    "K21": RollbackIndex,
    "K22": ConvRollback,
    "K23": PlaceholderTail,
    "K24": DraftState,
    "K25": LossyAccept,
    "K26": AcceptMetric,
    "K27": KeyCollision,
    "K28": EvictedMapped,
    "K29": HostRoundtrip,
    "K30": CachedAbsent,
    "K31": CachedOver,
    "K32": CachedInvalid,
    "K33": StreamMismatch,
    "K34": CacheInert,
    "K35": Gateway,
}
