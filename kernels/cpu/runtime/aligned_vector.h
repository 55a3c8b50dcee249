// A std::vector aligned to cache lines: loads across two lines take twice as long.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace pfc {

template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};  // bytes

  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* memory, std::size_t /*count*/) { ::operator delete(memory, kLine); }

  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};

template <typename T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace pfc
