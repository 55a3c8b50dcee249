// The addresses by which other hosts may reach this one.
#pragma once

#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

inline constexpr int kMostAddresses = 16;            ///< that one host tells
inline constexpr int kMostAddressesOfInterface = 4;  ///< of them

/// Those of the interfaces that are up, in the kernel's order, without those that only this machine
/// or the next cable knows: loopback, link-local. A host that has no other tells these too, but
/// never an IPv6 link-local address, which means nothing without its interface.
std::vector<proto::NetworkAddress> network_addresses();

}  // namespace pfc
