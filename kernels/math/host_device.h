// Marks a formula that host and device compile from the same source.
#pragma once

#if defined(__CUDACC__)
#define PFC_HOST_DEVICE __host__ __device__ __forceinline__
#else
// Always inlined: files compiled for a wider instruction set must leave no copy to the linker.
#define PFC_HOST_DEVICE [[gnu::always_inline]] inline
#endif
