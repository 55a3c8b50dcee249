// Memory of an emulated GPU, with guard zones that reveal writes outside of an allocation. For
// tests.
#pragma once

#include <cstddef>

namespace pfc::simt {

/// Aligned to 256 bytes, and filled with NaNs. Null when the emulated GPU has too little memory.
void* allocate_device(std::size_t bytes);
/// Throws std::logic_error when bytes before or after the memory were written, or when it is not an
/// allocation of allocate_device().
void free_device(void* memory);
/// Whether an address lies in memory of allocate_device() that has not been freed.
bool is_device(const void* address);
/// As allocate_device(), but page-locked host memory, which asynchronous copies can use.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* memory);
bool is_pinned(const void* address);

/// Device memory of any size, filled with zeros, of which only pages that are written take memory
/// of the host. For tests with offsets beyond 2^31. An access right before or after it ends the
/// process.
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
/// Sets the emulated GPU's memory, for tests of what happens when it is small.
void set_device_memory(std::size_t bytes);

}  // namespace pfc::simt
