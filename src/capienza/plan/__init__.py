"""The calendar of a workload: how long its steps take, what proves it, and when they can be done."""
