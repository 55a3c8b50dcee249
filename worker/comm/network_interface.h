// Which network card an address is on.
#pragma once

#include <string>

namespace pfc {

/// "eth0" for an address, or a name, of this machine; empty for any other.
std::string network_interface_of(const std::string& address);

}  // namespace pfc
