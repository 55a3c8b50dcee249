// Lists the addresses at which other hosts may reach this one.
#pragma once

#include <vector>

#include "proto/coordinator.pb.h"

namespace pfc {

inline constexpr int kMostAddresses = 16;            ///< per host
inline constexpr int kMostAddressesOfInterface = 4;  ///< per interface

/// Returns the addresses of the interfaces that are up, in the kernel's order. Loopback and IPv4
/// link-local addresses are included only if there are no others. IPv6 link-local addresses are
/// never included, because one is valid only together with an interface.
std::vector<proto::NetworkAddress> network_addresses();

}  // namespace pfc
