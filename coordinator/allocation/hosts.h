// Resolves a list of hosts, and finds which one is this machine.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/sockets/name_lookup.h"

namespace pfc {

/// Total time for all names, because a name server may be down.
inline constexpr std::chrono::seconds kLookUpLimit{10};

/// Resolves every host and sets what this machine knows of it. A name that does not resolve is not
/// an error, because that host's agent can still connect to this machine. Throws InputError
/// if two hosts are this machine.
void look_up_hosts(std::vector<HostSpec>& hosts, const Resolve& resolve_name = resolve);

/// Returns the address by which other hosts reach this machine: the source address of the route to
/// `peer`. Returns this machine's name if there is no route or `peer` is not an IP address. Sends
/// nothing and resolves no names.
std::string address_towards(const std::string& peer);
/// Returns the address by which the first host that is not this machine, and whose address is
/// known, reaches this machine.
std::string address_towards(std::span<const HostSpec> hosts);

}  // namespace pfc
