#include "tests/support/simt/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace pfc::simt {
namespace {

constexpr std::size_t kGuard = 256;  // bytes on each side; also the alignment
constexpr std::size_t kPage = 4096;
constexpr unsigned char kGuardByte = 0xa5;

std::size_t rounded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

// AddressSanitizer reports an access to a guard immediately. Without it, free_device() and
// free_pinned() detect changed guard bytes.
class Allocations {
 public:
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (used_ + bytes > limit_) return nullptr;
    const std::size_t whole = kGuard + rounded(bytes) + kGuard;
    auto* const raw = static_cast<unsigned char*>(::operator new (whole, std::align_val_t{kGuard}));
    std::memset(raw, kGuardByte, whole);
    unsigned char* const memory = raw + kGuard;
    std::memset(memory, 0xff, bytes);
    ASAN_POISON_MEMORY_REGION(raw, kGuard);
    ASAN_POISON_MEMORY_REGION(memory + bytes, whole - kGuard - bytes);
    sizes_[memory] = bytes;
    used_ += bytes;
    return memory;
  }

  void release(void* pointer) {
    const std::lock_guard lock(mutex_);
    auto* const memory = static_cast<unsigned char*>(pointer);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) throw std::logic_error("simt: memory freed that was not allocated");
    const std::size_t bytes = found->second;
    const std::size_t whole = kGuard + rounded(bytes) + kGuard;
    unsigned char* const raw = memory - kGuard;
    sizes_.erase(found);
    used_ -= bytes;
    ASAN_UNPOISON_MEMORY_REGION(raw, whole);
    const bool clean = guard_is_clean(raw, memory) && guard_is_clean(memory + bytes, raw + whole);
    ::operator delete (raw, std::align_val_t{kGuard});
    if (!clean) {
      throw std::logic_error("simt: a kernel wrote outside of an allocation of " +
                             std::to_string(bytes) + " bytes");
    }
  }

  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto* const p = static_cast<const unsigned char*>(address);
    auto found = sizes_.upper_bound(const_cast<unsigned char*>(p));
    if (found == sizes_.begin()) return false;
    --found;
    return p < found->first + found->second;
  }

  void add(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[static_cast<unsigned char*>(memory)] = bytes;
  }
  void remove(void* memory) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(static_cast<unsigned char*>(memory));
  }

  DeviceMemory memory() {
    const std::lock_guard lock(mutex_);
    return {limit_ - used_, limit_};
  }
  void set_limit(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  static bool guard_is_clean(const unsigned char* from, const unsigned char* to) {
    while (from < to && *from == kGuardByte) ++from;
    return from == to;
  }

  std::mutex mutex_;
  std::map<unsigned char*, std::size_t> sizes_;
  std::size_t used_ = 0;
  std::size_t limit_ = std::size_t{8} << 30;
};

Allocations& device() {
  static Allocations all;
  return all;
}

Allocations& pinned() {
  static Allocations all;
  return all;
}

}  // namespace

SparseMemory::SparseMemory(std::size_t bytes) {
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  mapped_ = kPage + pages + kPage;
  void* const raw =
      mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(raw) + kPage;
  if (mprotect(data_, pages, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  device().add(data_, bytes);
}

SparseMemory::~SparseMemory() {
  device().remove(data_);
  munmap(static_cast<std::byte*>(data_) - kPage, mapped_);
}

void* allocate_device(std::size_t bytes) { return device().allocate(bytes); }
void free_device(void* memory) { device().release(memory); }
bool is_device(const void* address) { return device().contains(address); }
void* allocate_pinned(std::size_t bytes) { return pinned().allocate(bytes); }
void free_pinned(void* memory) { pinned().release(memory); }
bool is_pinned(const void* address) { return pinned().contains(address); }
DeviceMemory device_memory() { return device().memory(); }
void set_device_memory(std::size_t bytes) { device().set_limit(bytes); }

}  // namespace pfc::simt
