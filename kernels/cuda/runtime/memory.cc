#include "kernels/cuda/runtime/memory.h"

#include <string>

#include "common/byte_size.h"
#include "kernels/cuda/runtime/cuda_call.h"

namespace pfc {

CudaBuffer::CudaBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the next launch would report it
    std::size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw DeviceError("CUDA: " + byte_size_text(bytes) + " of GPU memory requested, " +
                      byte_size_text(free) + " of " + byte_size_text(total) +
                      " free; see `pfcctl plan` for what a job needs");
  }
  cuda_check(error, "cudaMalloc");
  data_ = static_cast<std::byte*>(memory);
}

// cudaFree() waits for the GPU, so no kernel still uses the memory.
CudaBuffer::~CudaBuffer() { static_cast<void>(cudaFree(data_)); }

PinnedMemory::PinnedMemory(std::size_t bytes) : bytes_(bytes) {
  cuda_check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
}

PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }

void CudaScratch::reserve(std::size_t bytes) {
  if (bytes <= this->bytes()) return;
  buffer_.reset();  // freed first, because old and new memory together might not fit
  buffer_ = std::make_unique<CudaBuffer>(bytes);
}

}  // namespace pfc
