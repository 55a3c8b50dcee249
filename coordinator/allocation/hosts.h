// What this machine knows about the hosts of a list: which one it is itself, and which it can find.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "coordinator/allocation/host_list.h"
#include "coordinator/net/name_lookup.h"

namespace pfc {

/// For the names of all hosts together: a name server may be down.
inline constexpr std::chrono::seconds kLookUpLimit{10};

/// Looks every host up, and fills in what this machine knows of it. A name that cannot be looked up
/// is no error: its agent may know this machine. Throws InputError when two of them are this
/// machine.
void look_up_hosts(std::vector<HostSpec>& hosts, const Resolve& resolve_name = resolve);

/// The address by which other hosts reach this machine: the one that it would use to talk to
/// `peer`, or this machine's name when there is no route, or `peer` is no IP address. Nothing is
/// sent, and no name is looked up.
std::string address_towards(const std::string& peer);
/// The same towards the first host that is not this machine and whose address is known.
std::string address_towards(std::span<const HostSpec> hosts);

}  // namespace pfc
