// Tests on this machine the operations that training needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// Result of one test.
struct Trial {
  std::string name;
  bool ok = false;
  std::string detail;  ///< a measured value, or the reason for a failure
};

/// Tests convolution and batch norm against exact values, JPEG encoding and decoding, an
/// all-reduce of two workers over loopback, free memory, and a writable temporary folder. A
/// failure is returned as a Trial; nothing is thrown.
std::vector<Trial> try_machine();

}  // namespace pfc
