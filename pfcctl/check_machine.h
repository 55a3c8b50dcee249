// Tries on this machine what training needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// One thing that was tried.
struct Trial {
  std::string name;
  bool ok = false;
  std::string detail;  ///< a figure; where it failed, the reason
};

/// Convolution and batch norm against exact values, a JPEG there and back, two workers' all-reduce
/// over loopback, free memory, a writable temporary folder. A failure is a Trial and throws
/// nothing.
std::vector<Trial> try_machine();

}  // namespace pfc
