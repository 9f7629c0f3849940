import numpy as np
import onepass

device = onepass.Device("cpu")
total = device.zeros(8)
step = device.array(np.arange(8.0))
recorder = device.record()
recorder.add(total, step, out=total)
plan = recorder.compile()
for _ in range(1000):
    plan.run()
print(total.numpy())
