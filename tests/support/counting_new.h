// Counts what a test binary asks of operator new. A binary that includes this compiles
// counting_new.cc, which replaces the global operators.
#pragma once

#include <cstddef>

namespace pfc::testing {

/// Bytes asked for since the program started, freed ones too.
std::size_t bytes_of_new();

}  // namespace pfc::testing
