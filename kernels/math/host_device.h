// Marks a function that is compiled for host and device from the same source.
#pragma once

#if defined(__CUDACC__)
#define PFC_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Always inlined, or the linker could keep a copy for instructions that this machine lacks.
#define PFC_HOST_DEVICE [[gnu::always_inline]] inline
#endif
