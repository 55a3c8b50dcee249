// The list of hosts that a person gives: --hosts a:8,b:8, or a file with one host a line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Upper bounds on a list, wherever it comes from.
inline constexpr std::size_t kMaxHosts = 16'384;
inline constexpr int kMaxSlots = 1'024;           ///< of one host
inline constexpr std::size_t kMaxHostName = 253;  ///< of a DNS name, in bytes

struct HostSpec {
  std::string name;      ///< a name, or an address without brackets
  int slots = 0;         ///< workers on it; 0: as many as it has GPUs
  bool local = false;    ///< this machine: the coordinator starts its agent itself
  bool resolves = true;  ///< this machine knows its address
  bool answered = true;  ///< false: no name server has said in time whether it does
  /// Set when this name is not this machine's own, but resolves to a loopback address here, which
  /// is often a mistake in /etc/hosts.
  std::string loopback;
  std::string address;  ///< of a name that was looked up, IPv4 first; empty: none is known

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// Parses NAME[:SLOTS][,NAME[:SLOTS]...]. An IPv6 address stands in brackets. Throws InputError
/// that names the entry, what is wrong with it and what was expected. Looks nothing up (hosts.h).
std::vector<HostSpec> parse_hosts(std::string_view text);

/// Reads a file with one host a line: NAME, NAME:SLOTS, or NAME slots=SLOTS as in an MPI host file,
/// in which a host may appear on several lines: its slots are added up, and such a line without a
/// number counts as 1 slot.
/// Empty lines and what follows a # are skipped. Throws InputError that names the file and the
/// line.
std::vector<HostSpec> read_hosts_file(const std::filesystem::path& file);

/// Checks a list that a program has made, not a person: names or addresses without brackets, each
/// once, with 0 (not given) to kMaxSlots slots. Throws InputError "WHERE: what is wrong; expected
/// EXPECTED".
std::vector<HostSpec> checked_hosts(const std::string& where, const std::string& expected,
                                    std::span<const HostSpec> hosts);

/// How many workers the hosts start together; 0: not known before they register.
int workers_of(std::span<const HostSpec> hosts);

}  // namespace pfc
