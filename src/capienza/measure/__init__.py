"""Run a command and keep what was really used: counters with clock, unit and scope, by phase, per GPU."""
