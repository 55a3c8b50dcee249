// Emulation of the part of CUDA's runtime that kernels/cuda uses, with the names and meanings of
// NVIDIA's header. Tests compile kernels/cuda with this header instead. ../block.h, ../streams.h
// and ../memory.h describe the emulation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/support/simt/block.h"

// Types.

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
};

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned dx = 1, unsigned dy = 1, unsigned dz = 1)  // NOLINT: as CUDA's
      : x(dx), y(dy), z(dz) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlockOptin;
  int multiProcessorCount;
  int l2CacheSize;
  int major;
  int minor;
};

namespace pfc::simt {
struct StreamHandle;
struct EventHandle;
struct GraphHandle;
}  // namespace pfc::simt
using cudaStream_t = pfc::simt::StreamHandle*;
using cudaEvent_t = pfc::simt::EventHandle*;
using cudaGraph_t = pfc::simt::GraphHandle*;
using cudaGraphExec_t = pfc::simt::GraphHandle*;

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaDeviceAttr { cudaDevAttrMemoryClockRate = 36, cudaDevAttrGlobalMemoryBusWidth = 37 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaEventBlockingSync = 1;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void* attrs = nullptr;
  unsigned numAttrs = 0;
};

// Host calls.

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
/// Unlike cudaMalloc, does not fill it with NaNs.
cudaError_t cudaMallocManaged(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);

namespace pfc::simt {
/// Sets the number of emulated GPUs, initially 1. They are identical and share one memory.
void set_device_count(int count);
/// Enqueues work of other emulated libraries.
void enqueue(cudaStream_t stream, std::function<void()> work);
cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, std::function<void()> body);
int launched_kernels();  ///< number of kernels enqueued so far
}  // namespace pfc::simt

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* /*kernel*/, cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return cudaSuccess;
}

template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* /*kernel*/,
                                                          int /*threads*/,
                                                          std::size_t /*shared_bytes*/) {
  *blocks = 3;
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  // The arguments are copied now, as in a real launch.
  return pfc::simt::enqueue_kernel(
      *config, [kernel, ... values = static_cast<Parameters>(std::forward<Arguments>(arguments))] {
        kernel(values...);
      });
}

// Device code.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
// A host thread runs one block at a time, so thread-local variables can be the shared ones.
#define __shared__ static thread_local
#define __launch_bounds__(...)

namespace pfc::simt {

// `threadIdx.x` returns the index of the running thread. Not a macro, because cudaLaunchConfig_t
// has members of these names.
template <const Index3& (*Of)(), unsigned Index3::*Axis>
struct Coordinate {
  operator unsigned() const { return Of().*Axis; }  // NOLINT(google-explicit-constructor)
};
template <const Index3& (*Of)()>
struct Coordinates {
  Coordinate<Of, &Index3::x> x;
  Coordinate<Of, &Index3::y> y;
  Coordinate<Of, &Index3::z> z;
};

}  // namespace pfc::simt

inline constexpr pfc::simt::Coordinates<pfc::simt::thread_index> threadIdx;
inline constexpr pfc::simt::Coordinates<pfc::simt::block_index> blockIdx;
inline constexpr pfc::simt::Coordinates<pfc::simt::block_size> blockDim;
inline constexpr pfc::simt::Coordinates<pfc::simt::grid_size> gridDim;
using std::isfinite;

inline void __syncthreads() { pfc::simt::barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { pfc::simt::warp_exchange(mask, 0); }

namespace pfc::simt {

template <typename T>
T exchange_with(std::uint32_t mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  const WarpValues all = warp_exchange(mask, bits);
  // Undefined on a GPU. This value makes tests fail.
  const std::uint64_t found = source < 32 && (mask >> source & 1u) != 0 ? all[source] : ~0ULL;
  std::memcpy(&value, &found, sizeof(value));
  return value;
}

}  // namespace pfc::simt

template <typename T>
T __shfl_sync(unsigned mask, T value, unsigned source) {
  return pfc::simt::exchange_with(mask, value, source % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lanes) {
  return pfc::simt::exchange_with(mask, value, pfc::simt::lane() ^ lanes);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned source = pfc::simt::lane() + lanes;
  return pfc::simt::exchange_with(mask, value, source < 32 ? source : pfc::simt::lane());
}
inline unsigned __ballot_sync(unsigned mask, bool predicate) {
  const pfc::simt::WarpValues all = pfc::simt::warp_exchange(mask, predicate ? 1 : 0);
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) votes |= static_cast<unsigned>(all[i]) << i;
  return votes;
}
inline bool __any_sync(unsigned mask, bool predicate) {
  return __ballot_sync(mask, predicate) != 0;
}

// The threads of a block are fibers of one host thread, so this needs no lock.
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __float_as_int(float x) {
  int bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __int_as_float(int bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
