// What this host has to offer.
#pragma once

#include <string>
#include <vector>

#include "common/machine/gpus.h"

namespace pfc {

/// Its name for itself, as the coordinator's --hosts may have it.
std::string host_name();

/// Devices, one a line: "cpu (16 cores)", "cuda:0 NVIDIA H100 80GB HBM3 (79.6 GiB)".
std::vector<std::string> list_devices(const std::vector<Gpu>& gpus);

}  // namespace pfc
