#include "tests/support/counting_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> counted{0};

}  // namespace

std::size_t pfc::testing::bytes_of_new() { return counted; }

// Every form of new whose memory the operators delete below free must be replaced, because
// AddressSanitizer's own form does not use malloc().
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  counted += bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t line) {
  counted += bytes;
  const auto to = static_cast<std::size_t>(line);
  if (void* const memory = std::aligned_alloc(to, (bytes + to) / to * to)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t /*line*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*line*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
