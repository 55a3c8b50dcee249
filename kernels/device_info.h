// Devices and libraries of this machine, for `pfcctl check`.
#pragma once

#include <string>

#include "common/machine/gpu/gpus.h"

namespace pfc {

struct DeviceInfo {
  std::string kind;        ///< "CPU", "cuda:0", "NCCL"
  bool available = false;  ///< whether a job can run on it
  std::string detail;      ///< model, cores, instruction set and memory; or why it is unavailable
  int compute_capability = 0;  ///< only for a GPU: 80 for sm_80
  GpuSizes sizes;              ///< only for a GPU
};

struct LibraryInfo {
  std::string name;
  std::string version;
};

}  // namespace pfc
