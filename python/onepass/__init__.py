"""onepass from Python: devices, arrays, recorded passes and models.

    import numpy as np, onepass
    device = onepass.Device("cpu")
    a, b = device.array(np.arange(8.0)), device.array(np.ones(8))
    recorder = device.record()
    recorder.add(a, b, out=a)
    plan = recorder.compile()
    plan.run()                      # as often as you like
    print(a.numpy())                # no copy on the CPU
"""

from onepass._core import (Array, Device, DeviceInfo, OpInfo, Plan, PlanInfo, Recorder, Submission,
                           devices, ops)
from onepass._library import Error, library_path, version
from onepass._model import Generated, Interrupted, Model, ModelInfo, Piece, Sequence

__version__ = version()
__all__ = ["Array", "Device", "DeviceInfo", "Error", "Generated", "Interrupted", "Model", "ModelInfo", "OpInfo",
           "Piece", "Plan", "PlanInfo", "Recorder", "Sequence", "Submission", "devices", "library_path", "ops",
           "version"]
