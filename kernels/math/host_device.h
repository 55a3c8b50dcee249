// Marks a formula that host and device compile from the same source.
#pragma once

#if defined(__CUDACC__)
#define PFC_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define PFC_HOST_DEVICE inline
#endif
