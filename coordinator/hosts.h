// The list of hosts that a person gives: --hosts a:8,b:8.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

struct HostSpec {
  std::string name;
  int slots = 0;         ///< workers on it; 0: as many as it has GPUs
  bool local = false;    ///< this machine: the coordinator starts its agent itself
  bool resolves = true;  ///< this machine knows its address

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// Parses NAME[:SLOTS][,NAME[:SLOTS]...] and looks the names up. Throws InputError that names the
/// entry, what is wrong with it and what was expected. Two names of this machine count as the same
/// host given twice. A name that cannot be looked up is no error: its agent may know this machine.
std::vector<HostSpec> parse_hosts(std::string_view text);

/// How many workers the hosts start together; 0: not known before they register.
int workers_of(std::span<const HostSpec> hosts);

/// The address by which other hosts reach this machine: the one that it would use to talk to
/// `peer`, or this machine's name when there is no route. Nothing is sent. A name is looked up,
/// which may take seconds; an address is not.
std::string address_towards(const std::string& peer);

}  // namespace pfc
