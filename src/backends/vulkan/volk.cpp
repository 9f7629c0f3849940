// The functions of volk, which are all in its header.
#define VOLK_IMPLEMENTATION
#include <volk.h>
