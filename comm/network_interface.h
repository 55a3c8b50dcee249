// Finds the network interface that has an address.
#pragma once

#include <string>

namespace pfc {

/// Returns the interface's name ("eth0") for an address or host name of this machine; empty for
/// any other.
std::string network_interface_of(const std::string& address);

}  // namespace pfc
