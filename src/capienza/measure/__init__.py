"""Run a command and keep what was really used: counters with clock, unit and scope, by phase, per GPU.

From inside a program: `with capienza.measure.phase("backward"):`, or `capienza.measure.trainer_callback()`.
"""

from capienza.measure.phases import cpu_allocator, phase, stop, write_to
from capienza.measure.trainer import trainer_callback

__all__ = ["cpu_allocator", "phase", "stop", "trainer_callback", "write_to"]
