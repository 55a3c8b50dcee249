// Host calls of the emulated CUDA runtime.

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/simt/memory.h"
#include "tests/support/simt/streams.h"

namespace pfc::simt {

struct StreamHandle {
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
};
struct EventHandle {
  Event event;
};
struct GraphHandle {
  Graph graph;
};

namespace {

std::atomic<int> device_count = 1;
std::atomic<int> launched = 0;
std::mutex managed_mutex;
std::map<void*, std::unique_ptr<SparseMemory>> managed;
thread_local int current_device = 0;

// All streams. As on a GPU, freeing memory waits for those of the current device.
struct AllStreams {
  struct Entry {
    int device;
    std::weak_ptr<Stream> stream;
  };
  std::mutex mutex;
  std::vector<Entry> streams;
};

AllStreams& all_streams() {
  static AllStreams all;
  return all;
}

void synchronize_all() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    AllStreams& all = all_streams();
    const std::lock_guard lock(all.mutex);
    for (const AllStreams::Entry& entry : all.streams) {
      if (entry.device != current_device) continue;
      if (std::shared_ptr<Stream> there = entry.stream.lock()) streams.push_back(std::move(there));
    }
  }
  for (const std::shared_ptr<Stream>& stream : streams) stream->synchronize();
}

Stream& of(cudaStream_t handle) {
  if (handle == nullptr) throw std::logic_error("simt: the default stream is used");
  return *handle->stream;
}

}  // namespace

void set_device_count(int count) { device_count = count; }

void enqueue(cudaStream_t stream, std::function<void()> work) {
  of(stream).enqueue(std::move(work));
}

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, std::function<void()> body) {
  constexpr unsigned kMostThreads = 1024;
  constexpr unsigned kMostBlocksYZ = 65535;
  const dim3& grid = config.gridDim;
  const dim3& block = config.blockDim;
  const auto count = [](const dim3& d) { return std::uint64_t{d.x} * d.y * d.z; };
  if (count(grid) == 0 || count(block) == 0 || count(block) > kMostThreads || block.z > 64 ||
      grid.x > 0x7fffffffu || grid.y > kMostBlocksYZ || grid.z > kMostBlocksYZ) {
    return cudaErrorInvalidValue;
  }
  const Launch launch{.grid = {grid.x, grid.y, grid.z},
                      .block = {block.x, block.y, block.z},
                      .shared_bytes = config.dynamicSmemBytes};
  ++launched;
  enqueue(config.stream, [launch, body = std::move(body)] { run(launch, body); });
  return cudaSuccess;
}

int launched_kernels() { return launched; }

}  // namespace pfc::simt

using namespace pfc::simt;  // NOLINT: C functions at global scope follow

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count) return cudaErrorInvalidDevice;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
  properties->totalGlobalMem = device_memory().total;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->multiProcessorCount = Multiprocessors::count();
  properties->l2CacheSize = 1 << 16;  // small, so that work is divided into several tiles
  properties->major = 9;
  return cudaSuccess;
}
// All attributes are 0. As the memory bandwidth is then unknown, tiles of the head are chosen to
// fit into the small cache.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const DeviceMemory memory = device_memory();
  *free = memory.free;
  *total = memory.total;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = allocate_device(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaMallocManaged(void** memory, std::size_t bytes) {
  auto sparse = std::make_unique<SparseMemory>(bytes);
  *memory = sparse->data();
  const std::lock_guard lock(managed_mutex);
  managed[*memory] = std::move(sparse);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  synchronize_all();
  const std::lock_guard lock(managed_mutex);
  if (managed.erase(memory) == 0 && memory != nullptr) free_device(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = allocate_pinned(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  synchronize_all();
  if (memory != nullptr) free_pinned(memory);
  return cudaSuccess;
}

// With pageable memory, the driver has read the source or written the destination when the call
// returns. Only page-locked memory is accessed later.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool from_device = is_device(from);
  const bool to_device = is_device(to);
  if (bytes == 0) return cudaSuccess;
  if ((kind == cudaMemcpyHostToDevice && (from_device || !to_device)) ||
      (kind == cudaMemcpyDeviceToHost && (!from_device || to_device)) ||
      (kind == cudaMemcpyDeviceToDevice && (!from_device || !to_device))) {
    return cudaErrorInvalidValue;
  }
  // Enqueued even if `from` is pageable: the real driver may read it before or after the call
  // returns, and the later one finds more mistakes.
  enqueue(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
  if (!to_device && !is_pinned(to)) of(stream).synchronize();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [to, value, bytes] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = new StreamHandle;
  AllStreams& all = all_streams();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.streams, [](const auto& s) { return s.stream.expired(); });
  all.streams.push_back({current_device, (*stream)->stream});
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  of(stream).synchronize();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  of(stream).synchronize();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  event->event.make_wait(of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  of(stream).begin_capture();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = new GraphHandle{of(stream).end_capture()};
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new EventHandle;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream == nullptr) throw std::logic_error("simt: the default stream is used");
  event->event.record(stream->stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  event->event.synchronize();
  return cudaSuccess;
}
// A query does not run the work, because only a wait does. So polling alone never completes it.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->event.done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  start->event.synchronize();
  end->event.synchronize();
  *milliseconds = 1.f;  // the emulation does not measure time
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *exec = new GraphHandle{graph->graph};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const Work& work : exec->graph) enqueue(stream, work);
  return cudaSuccess;
}
