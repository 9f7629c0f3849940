// What kernels use of CUDA's header of this name, for the host.
#pragma once

#include "backends/cuda_emu/halves.h"
