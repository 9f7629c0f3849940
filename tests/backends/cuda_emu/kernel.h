// Everything a .cu file needs to be compiled for the host; the build includes it first.
#pragma once

#include "backends/cuda_emu/device.h"
#include "backends/cuda_emu/halves.h"
#include "backends/cuda_emu/ptx.h"
