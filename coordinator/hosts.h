// The list of hosts that a person gives: --hosts a:8,b:8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

struct HostSpec {
  std::string name;
  int slots = 0;       ///< workers on it; 0: as many as it has GPUs
  bool local = false;  ///< this machine: the coordinator starts its agent itself

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// Parses NAME[:SLOTS][,NAME[:SLOTS]...]. Throws InputError that names the entry, what is wrong
/// with it and what was expected; two names of this machine are the same host twice.
std::vector<HostSpec> parse_hosts(std::string_view text);

/// Whether it is localhost, this machine's name, or an address of one of its interfaces.
bool is_this_machine(const std::string& host);

/// The address by which other hosts reach this machine: the one that it would use to talk to
/// `peer`. Nothing is sent. Empty when there is no route.
std::string address_towards(const std::string& peer);

}  // namespace pfc
