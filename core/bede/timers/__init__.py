"""What wakes a command every few minutes on this machine, one notation each: launchd, systemd, cron.

`port` says what a timer is, `sheet` which files are ours, `machine` runs the programs. Building text and
running programs are kept apart: a timer plans steps, and only `machine.perform` does them.
"""

from __future__ import annotations

from bede.timers.cron import Cron
from bede.timers.launchd import Launchd
from bede.timers.machine import Machine
from bede.timers.port import Timer
from bede.timers.systemd import Systemd


def timers(machine: Machine) -> tuple[Timer, ...]:
    """Return every timer, the best first."""
    return Launchd(machine), Systemd(machine), Cron(machine)
