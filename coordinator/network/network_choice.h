// Chooses the workers' network from the measurements. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/network/networks.h"

namespace pfc {

/// A network that reaches all hosts.
struct UsableNetwork {
  std::string name;
  std::vector<int> address;  ///< indexed by host: index of the host's address
  /// Bits per second of the slowest transfer; 0: nothing arrived; empty: not measured.
  std::optional<double> speed = {};
  int from = 0;  ///< hosts of the slowest transfer
  int to = 0;
  std::string error = {};  ///< why that transfer failed
};

struct UnusableNetwork {
  std::string name;
  Gap gap;
};

struct FoundNetworks {
  /// Preferred first. Of networks on the same interfaces only one is kept.
  std::vector<UsableNetwork> usable;
  std::vector<UnusableNetwork> unusable;
};

/// Returns the networks that reach all hosts, and why the others do not. A usable network that was
/// chosen before comes first.
FoundNetworks find_networks(const std::vector<NetworkHost>& hosts,
                            const std::vector<Network>& networks, const Reach& reach);

/// Returns whether the hosts used these addresses before, so that no measurement is needed.
bool was_used_before(const std::vector<NetworkHost>& hosts, const UsableNetwork& network);

/// Up to this many hosts, all pairs measure their speed; with more, each host sends to the next.
inline constexpr int kAllTransfers = 3;
/// Returns the offsets of the rounds. In a round, host i sends to host (i + offset) % hosts.
std::vector<int> rounds_of(int hosts);

/// Adds the speed of a transfer. The slowest one counts.
void add_speed(UsableNetwork& network, int from, int to, double bits_per_second,
               const std::string& error);

/// Networks with at least this fraction of the highest speed count as equally fast.
inline constexpr double kAsGood = 0.8;

struct NetworkChoice {
  std::vector<int> address;  ///< each host's address (index); empty: there is a problem
  /// "network 10.0.0.0/24 (eth0): 3 hosts, slowest pair a to b 9.4 Gbit/s; not used: 10.9.0.0/24
  /// (b cannot reach c: Connection timed out)", or the problem: "host b cannot reach host c: ..."
  std::string text;
  /// If there is a problem: the hosts to exclude so that all others reach each other, in ascending
  /// order. Empty: unknown.
  std::vector<int> apart = {};
};

/// Returns a nearly minimal set of hosts without which all others reach each other. Of two
/// candidates with equally many failures, picks the later one.
std::vector<int> hosts_apart(int hosts, const Reach& reach);

/// Returns the fastest usable network, or the pair of hosts that prevents one.
NetworkChoice choose_network(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                             const FoundNetworks& found, const Reach& reach);

/// Returns a problem that names a host without a selected address; empty if there is none.
std::string unfulfilled(const std::vector<NetworkHost>& hosts, const NetworkWish& wish);

/// Returns "9.4 Gbit/s", "20 Mbit/s".
std::string speed_text(double bits_per_second);

}  // namespace pfc
