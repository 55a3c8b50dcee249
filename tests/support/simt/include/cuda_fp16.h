// Emulation of the part of NVIDIA's cuda_fp16.h that kernels/cuda uses.
#pragma once

struct __half {
  _Float16 value;
};
inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline __half __float2half(float x) { return {static_cast<_Float16>(x)}; }
