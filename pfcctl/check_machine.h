// Tries what training needs on this machine, instead of trusting versions and flags.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// One thing tried: what it is, whether it worked, and a figure or the reason why not.
struct Trial {
  std::string name;
  bool ok = false;
  std::string detail;
};

/// Convolution and batch norm against exact values, a JPEG there and back, two workers' all-reduce
/// over loopback, free memory, a writable temporary folder. Never throws: a failure is a Trial.
std::vector<Trial> try_machine();

}  // namespace pfc
