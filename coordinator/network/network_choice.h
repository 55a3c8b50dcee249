// Which network the workers use: decided from what was measured, by pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/network/networks.h"

namespace pfc {

/// A network that reaches all hosts, and its speed.
struct UsableNetwork {
  std::string name;
  std::vector<int> address;  ///< by host: the number of its address
  /// Bits a second of the slowest transfer; 0: nothing has arrived; empty: not measured.
  std::optional<double> speed = {};
  int from = 0;  ///< the hosts of this transfer
  int to = 0;
  std::string error = {};  ///< why it did not succeed
};

struct UnusableNetwork {
  std::string name;
  Gap gap;
};

struct FoundNetworks {
  /// The preferred first. Of those that use the same interfaces only one: IPv4, for example.
  std::vector<UsableNetwork> usable;
  std::vector<UnusableNetwork> unusable;
};

/// The networks that reach all hosts, and why the others do not. The one that was used before comes
/// first where it still does.
FoundNetworks find_networks(const std::vector<NetworkHost>& hosts,
                            const std::vector<Network>& networks, const Reach& reach);

/// Whether the hosts used these addresses before: then nothing has to be measured.
bool was_used_before(const std::vector<NetworkHost>& hosts, const UsableNetwork& network);

/// Up to so many hosts every pair measures its speed; with more each host sends to the next one.
inline constexpr int kAllTransfers = 3;
/// In one round, host i sends to host (i + offset) % hosts, all at the same time.
std::vector<int> rounds_of(int hosts);

/// The speed of one transfer in this network. The slowest counts.
void add_speed(UsableNetwork& network, int from, int to, double bits_per_second,
               const std::string& error);

/// Networks are as good as the fastest from this part of its speed on: then the preferred is used.
inline constexpr double kAsGood = 0.8;

struct NetworkChoice {
  std::vector<int> address;  ///< by host; empty: there is a problem
  /// "network 10.0.0.0/24 (eth0): 3 hosts, slowest pair a to b 9.4 Gbit/s; not used: 10.9.0.0/24 (b
  /// cannot reach c: Connection timed out)", or what is wrong: "host b cannot reach host c: ..."
  std::string text;
  /// Where there is a problem: the hosts without which all others reach each other, in order; none:
  /// that is not known.
  std::vector<int> apart = {};
};

/// The fewest hosts, nearly, without which all others reach each other. Of two that do not reach
/// each other, and all others, the later one.
std::vector<int> hosts_apart(int hosts, const Reach& reach);

/// The fastest usable network, or the pair of hosts that keeps all from being usable.
NetworkChoice choose_network(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                             const FoundNetworks& found, const Reach& reach);

/// A host without an address that the wish admits; empty: all have one.
std::string unfulfilled(const std::vector<NetworkHost>& hosts, const NetworkWish& wish);

/// "9.4 Gbit/s", "20 Mbit/s"
std::string speed_text(double bits_per_second);

}  // namespace pfc
