// Parses the user's list of hosts: --hosts a:8,b:8, or a file with one host per line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Limits for every kind of host list.
inline constexpr std::size_t kMaxHosts = 16'384;
inline constexpr int kMaxSlots = 1'024;           ///< slots of one host
inline constexpr std::size_t kMaxHostName = 253;  ///< bytes; limit of a DNS name

struct HostSpec {
  std::string name;      ///< name, or address without brackets
  int slots = 0;         ///< workers; 0: one per GPU
  bool local = false;    ///< this machine, whose agent the coordinator starts
  bool resolves = true;  ///< its name resolves on this machine
  bool answered = true;  ///< false: no name server answered in time
  /// A loopback address that this name resolves to, although it is not this machine's name: often
  /// a mistake in /etc/hosts. Empty: none.
  std::string loopback;
  std::string address;  ///< address of the resolved name, IPv4 preferred; empty: unknown

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// Parses NAME[:SLOTS][,NAME[:SLOTS]...]. An IPv6 address is in brackets. Throws InputError that
/// names the entry, the problem and what was expected. Resolves no names (hosts.h).
std::vector<HostSpec> parse_hosts(std::string_view text);

/// Reads a file with one host per line: NAME, NAME:SLOTS, or NAME slots=SLOTS as in an MPI host
/// file. The slots of repeated hosts are added up; then a line without a number counts as 1 slot.
/// Skips empty lines and text after a #. Throws InputError that names the file and line.
std::vector<HostSpec> read_hosts_file(const std::filesystem::path& file);

/// Checks a list from a program: distinct names or addresses without brackets, with 0 (not given)
/// to kMaxSlots slots. Throws InputError "WHERE: what is wrong; expected EXPECTED".
std::vector<HostSpec> checked_hosts(const std::string& where, const std::string& expected,
                                    std::span<const HostSpec> hosts);

/// Returns the total number of workers; 0 if unknown before the hosts register.
int workers_of(std::span<const HostSpec> hosts);

}  // namespace pfc
