// What this machine has to compute with: for `pfcctl check`.
#pragma once

#include <string>

namespace pfc {

struct DeviceInfo {
  std::string kind;        ///< "CPU", "cuda:0", "NCCL"
  bool available = false;  ///< can a job run on it?
  std::string detail;      ///< model, cores, instruction set and memory; or why it is not available
};

struct LibraryInfo {
  std::string name;
  std::string version;
};

}  // namespace pfc
