"""Fidelity 3: run the real program on fake tensors, write down every storage, and replay it through the allocator.

    from capienza.trace import phase, predict_peak

    predict_peak(build, step, steps=2, device="RTX 4090")

Needs torch. Everything that is changed in PyTorch while a program is traced lies in `patches` and `guard`, and is put
back after it.
"""

from capienza.trace.peak import Prediction, predict_peak
from capienza.trace.run import phase

__all__ = ["Prediction", "phase", "predict_peak"]
