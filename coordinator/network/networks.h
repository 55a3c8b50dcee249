// The networks between the hosts: which there may be, and which of them reach all hosts.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/network/host_addresses.h"

namespace pfc {

/// An address of a host: their numbers.
struct Endpoint {
  int host = 0;
  int address = 0;

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// Addresses that may reach each other.
struct Network {
  std::string name;                         ///< "10.0.0.0/24", "interface eth1", "any IPv4"
  std::vector<std::vector<int>> addresses;  ///< by host: its addresses here, the preferred first
};

/// What there may be, the preferred ones first: every subnet of the first host, and every interface
/// whose name all hosts have. First those with an address of every host; of these the one over
/// which most hosts talk to the coordinator; of these IPv4.
std::vector<Network> networks_of(const std::vector<NetworkHost>& hosts, const NetworkWish& wish);
/// All IPv4 addresses, and all IPv6 addresses, of every host: over routers they may reach each
/// other, though no subnet or interface has all hosts.
std::vector<Network> any_networks_of(const std::vector<NetworkHost>& hosts,
                                     const NetworkWish& wish);

/// Up to so many hosts every pair is tried. With more, each host tries its neighbours in the list
/// and the first host, and that one tries all: so the time does not grow with their number.
inline constexpr int kAllPairs = 64;
/// The hosts to which this host's connections are tried.
std::vector<int> tried_by(int host, int hosts);

struct Connection {
  Endpoint from, to;

  friend auto operator<=>(const Connection&, const Connection&) = default;
};

/// What each host is to try, each connection once, those of the first networks first, and at most
/// kMostOfPair for two hosts.
inline constexpr int kMostOfPair = 64;
std::vector<std::vector<Connection>> connections_of(const std::vector<Network>& networks);

/// What has been found out about the connections.
class Reach {
 public:
  explicit Reach(int hosts) : tried_with_(static_cast<std::size_t>(hosts)) {}

  /// `error` is empty when it has connected.
  void add(const Connection& connection, std::string error);
  [[nodiscard]] bool was_tried(const Connection& connection) const {
    return errors_.contains(connection);
  }
  /// Whether both can connect to each other.
  [[nodiscard]] bool connects(Endpoint a, Endpoint b) const;
  /// Whether one host has reached the other at any of its addresses.
  [[nodiscard]] bool some_connect(int from, int to) const;
  /// Every connection from one host to the other that has failed, with its error.
  [[nodiscard]] std::vector<std::pair<Connection, std::string>> failures(int from, int to) const;
  /// The hosts with a lower number with which this one was tried.
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
  int to = 0;              ///< the same host: it has no address there
  std::string error = {};  ///< of one connection; empty: none was tried
};

/// For each host one of its addresses in this network, such that all that were tried reach each
/// other in both directions, or why there are none.
std::variant<std::vector<int>, Gap> reaching_addresses(const Network& network, const Reach& reach);

}  // namespace pfc
