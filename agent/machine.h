// What this host has to offer.
#pragma once

#include <string>
#include <vector>

namespace pfc {

/// Its name for itself, as the coordinator's --hosts may have it.
std::string host_name();

/// Cores that this process may use, at least 1.
int usable_cores();

/// Devices, one a line: "cpu (16 cores)".
std::vector<std::string> list_devices();

}  // namespace pfc
