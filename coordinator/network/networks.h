// Finds candidate networks, and those that reach all hosts.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/rules/host_addresses.h"

namespace pfc {

/// An address of a host, by index.
struct Endpoint {
  int host = 0;
  int address = 0;

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// A set of addresses that may reach each other.
struct Network {
  std::string name;                         ///< "10.0.0.0/24", "interface eth1", "any IPv4"
  std::vector<std::vector<int>> addresses;  ///< per host: indexes of addresses, preferred first
};

/// Returns the candidates in order of preference: every subnet of the first host, and every
/// interface name that all hosts have. Networks that include all hosts come first, then those over
/// which more hosts are connected to the coordinator, then IPv4.
std::vector<Network> networks_of(const std::vector<NetworkHost>& hosts, const NetworkWish& wish);
/// Returns a network of all IPv4 addresses and one of all IPv6 addresses: routers may connect
/// hosts that share no subnet or interface.
std::vector<Network> any_networks_of(const std::vector<NetworkHost>& hosts,
                                     const NetworkWish& wish);

/// Up to this many hosts, all pairs are tested. With more, each host tests its neighbours in the
/// list and the first host, and the first host tests all, so the time does not grow.
inline constexpr int kAllPairs = 64;
/// Returns the hosts to which this host tests connections.
std::vector<int> tried_by(int host, int hosts);

struct Connection {
  Endpoint from, to;

  friend auto operator<=>(const Connection&, const Connection&) = default;
};

inline constexpr int kMostOfPair = 64;
/// Returns each host's tests: distinct connections, those of earlier networks first, at most
/// kMostOfPair per pair of hosts.
std::vector<std::vector<Connection>> connections_of(const std::vector<Network>& networks);

/// Results of the connection tests.
class Reach {
 public:
  explicit Reach(int hosts) : tried_with_(static_cast<std::size_t>(hosts)) {}

  /// `error` is empty on success.
  void add(const Connection& connection, std::string error);
  [[nodiscard]] bool was_tried(const Connection& connection) const {
    return errors_.contains(connection);
  }
  /// Returns whether each of the two endpoints can connect to the other.
  [[nodiscard]] bool connects(Endpoint a, Endpoint b) const;
  /// Returns whether host `from` has reached host `to` at any address.
  [[nodiscard]] bool some_connect(int from, int to) const;
  /// Returns all failed connections between these hosts, with their errors.
  [[nodiscard]] std::vector<std::pair<Connection, std::string>> failures(int from, int to) const;
  /// Returns the lower-numbered hosts with which this one was tested.
  [[nodiscard]] const std::vector<int>& tried_before(int host) const {
    return tried_with_[static_cast<std::size_t>(host)];
  }

 private:
  [[nodiscard]] std::map<Connection, std::string>::const_iterator first_of(int from) const {
    return errors_.lower_bound({.from = {.host = from}, .to = {}});
  }

  std::map<Connection, std::string> errors_;
  std::vector<std::vector<int>> tried_with_;
};

/// Why a network does not reach all hosts.
struct Gap {
  int from = 0;
  int to = 0;              ///< same as `from`: that host has no address in the network
  std::string error = {};  ///< error of one connection; empty: none was tried
};

/// Returns one address per host in this network, such that all tested pairs reach each other in
/// both directions; or the reason why that is impossible.
std::variant<std::vector<int>, Gap> reaching_addresses(const Network& network, const Reach& reach);

}  // namespace pfc
