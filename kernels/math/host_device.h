// Marks a function that is compiled for host and device from the same source.
#pragma once

#if defined(__CUDACC__)
#define PFC_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Always inlined. Otherwise the linker could select a copy compiled for an instruction set that
// this machine lacks.
#define PFC_HOST_DEVICE [[gnu::always_inline]] inline
#endif
