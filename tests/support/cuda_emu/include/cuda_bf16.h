// What kernels use of CUDA's header of this name, for the host.
#pragma once

#include "support/cuda_emu/halves.h"
