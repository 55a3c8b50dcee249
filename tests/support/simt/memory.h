// Memory of an emulated GPU, with guard zones that detect writes outside of an allocation.
#pragma once

#include <cstddef>

namespace pfc::simt {

/// Aligned to 256 bytes and filled with NaNs. Null if the emulated GPU is out of memory.
void* allocate_device(std::size_t bytes);
/// Throws std::logic_error if bytes before or after the memory were written, or if it was not
/// allocated by allocate_device().
void free_device(void* memory);
/// Returns whether the address is in device memory that has not been freed.
bool is_device(const void* address);
/// Like allocate_device(), but allocates page-locked host memory, for asynchronous copies.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* memory);
bool is_pinned(const void* address);

/// Zero-filled device memory of any size; only written pages use host memory. For tests with
/// offsets beyond 2^31. An access right before or after it kills the process.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes);
  SparseMemory(const SparseMemory&) = delete;
  ~SparseMemory();
  /// Page-aligned.
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
};

struct DeviceMemory {
  std::size_t free = 0, total = 0;
};
DeviceMemory device_memory();
/// Sets the emulated GPU's memory, to test low memory.
void set_device_memory(std::size_t bytes);

}  // namespace pfc::simt
