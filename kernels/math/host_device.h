// Marks a function that is compiled for host and device from the same source.
#pragma once

#if defined(__CUDACC__)
#define PFC_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Without inlining, the linker could keep a copy that uses instructions this machine lacks.
#define PFC_HOST_DEVICE [[gnu::always_inline]] inline
#endif
