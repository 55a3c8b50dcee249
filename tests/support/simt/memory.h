// Memory of an emulated GPU, with guard zones that tell of writes outside. Serves tests only.
#pragma once

#include <cstddef>

namespace pfc::simt {

/// 256-byte aligned, full of NaNs. Null when the emulated GPU has no room.
void* allocate_device(std::size_t bytes);
/// Throws std::logic_error when a byte before or behind it was written, or it is none.
void free_device(void* memory);
/// Whether an address lies in such an allocation.
bool is_device(const void* address);
/// As allocate_device, but host memory that asynchronous copies may use.
void* allocate_pinned(std::size_t bytes);
void free_pinned(void* memory);
bool is_pinned(const void* address);

/// Device memory of any size, full of zeros, of which only pages that are written take room: for
/// offsets beyond 2^31. A touch right before or behind it ends the test.
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
/// For tests of what happens where there is little.
void set_device_memory(std::size_t bytes);

}  // namespace pfc::simt
