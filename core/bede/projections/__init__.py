"""Tables derived from events. Each follows the log inside the append's own transaction; all may be dropped.

A projection that changed its shape raises its version: the next writer drops it and builds it again.
"""

from __future__ import annotations

from bede.projections.memory import Memory
from bede.projections.state import Snapshots
from bede.repository import Projection

#: Every projection, in the order in which they follow.
PROJECTIONS: tuple[Projection, ...] = (Memory(), Snapshots())
