// Everything a .cu file needs to be compiled for the host; the build includes it first.
#pragma once

#include "device.h"
#include "halves.h"
#include "ptx.h"
