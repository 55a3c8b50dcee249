// Finds the network interface that has an address.
#pragma once

#include <string>

namespace pfc {

/// Returns the interface ("eth0") for an address or host name of this machine; otherwise empty.
std::string network_interface_of(const std::string& address);

}  // namespace pfc
