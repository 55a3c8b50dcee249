#include "kernels/cpu/runtime/aligned_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace pfc {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kOwnMapping = 2 * kHugePage;

[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  throw DeviceError("CPU: cannot allocate " + std::to_string(bytes >> 20) +
                    " MiB of memory; reduce batch_size or the number of workers on this host");
}

}  // namespace

AlignedMemory::AlignedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes < kOwnMapping) {
    const std::size_t rounded = align_up(bytes == 0 ? 1 : bytes);
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    if (data_ == nullptr) throw_out_of_memory(bytes);
    std::memset(data_, 0, rounded);
    return;
  }
  mapped_bytes_ = bytes + kHugePage;
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw_out_of_memory(bytes);
  mapping_ = mapping;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  data_ = static_cast<std::byte*>(mapping) + ((kHugePage - address % kHugePage) % kHugePage);
  // Failure is ignored: without huge pages everything works, but a few per cent slower.
  (void)madvise(data_, bytes, MADV_HUGEPAGE);
}

AlignedMemory::~AlignedMemory() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapped_bytes_);
  } else {
    std::free(data_);
  }
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

}  // namespace pfc
