// Counts the bytes that a test binary requests from operator new. The binary must compile
// counting_new.cc, which replaces the global operators.
#pragma once

#include <cstddef>

namespace pfc::testing {

/// Returns all bytes requested since the program started, including freed ones.
std::size_t bytes_of_new();

}  // namespace pfc::testing
