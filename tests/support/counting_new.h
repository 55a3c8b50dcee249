// Counts what a test binary asks of operator new. Replaces the global operators: to be included by
// one file of a binary.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace pfc::testing {

/// Bytes asked for since the program started, freed ones too.
inline std::atomic<std::size_t> bytes_of_new{0};

}  // namespace pfc::testing

void* operator new(std::size_t bytes) {
  pfc::testing::bytes_of_new += bytes;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
