#include "coordinator/network/networks.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

namespace pfc {
namespace {

// Limit of the search for addresses that reach each other. Enough for clusters whose hosts have
// the same networks.
constexpr int kMostAttempts = 200'000;

using Admits = std::function<bool(const HostAddress&)>;

/// Puts the address of the connection to the coordinator first.
Network network_with(std::string name, const std::vector<NetworkHost>& hosts,
                     const Admits& admits) {
  Network network{.name = std::move(name), .addresses = {}};
  for (const NetworkHost& host : hosts) {
    std::vector<int>& mine = network.addresses.emplace_back();
    for (int i = 0; i < static_cast<int>(host.addresses.size()); ++i) {
      if (admits(host.addresses[static_cast<std::size_t>(i)])) mine.push_back(i);
    }
    std::ranges::stable_partition(mine, [&](int i) {
      return host.addresses[static_cast<std::size_t>(i)].address == host.connection;
    });
  }
  return network;
}

const HostAddress& address_of(const std::vector<NetworkHost>& hosts, const Network& network,
                              std::size_t host) {
  return hosts[host].addresses[static_cast<std::size_t>(network.addresses[host].front())];
}

bool is_network_of_v6(const std::vector<NetworkHost>& hosts, const Network& network) {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (!network.addresses[host].empty()) return is_v6(address_of(hosts, network, host));
  }
  return false;
}

/// Returns how many hosts are connected to the coordinator over this network.
int connections_over(const std::vector<NetworkHost>& hosts, const Network& network) {
  int count = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (network.addresses[host].empty()) continue;
    count += address_of(hosts, network, host).address == hosts[host].connection ? 1 : 0;
  }
  return count;
}

long long missing_in(const Network& network) {
  return std::ranges::count_if(network.addresses, &std::vector<int>::empty);
}

/// Adds the network unless one with the same addresses exists.
void add_network(std::vector<Network>& networks, Network network) {
  const auto same = [&](const Network& each) { return each.addresses == network.addresses; };
  if (std::ranges::none_of(networks, same)) networks.push_back(std::move(network));
}

void add_subnets(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                 std::vector<Network>& networks) {
  std::set<std::string> seen;
  for (const HostAddress& each : hosts.front().addresses) {
    if (!wish.admits(each) || !seen.insert(network_of(each)).second) continue;
    add_network(networks, network_with(network_of(each), hosts, [&](const HostAddress& address) {
                  return wish.admits(address) &&
                         is_in_network(address.address, each.address, each.prefix);
                }));
  }
}

/// Adds a network for each interface name. Its hosts may be in different subnets, because routers
/// may connect them.
void add_interfaces(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                    std::vector<Network>& networks) {
  std::set<std::pair<std::string, bool>> seen;
  for (const HostAddress& each : hosts.front().addresses) {
    if (!wish.admits(each) || !seen.insert({each.interface, is_v6(each)}).second) continue;
    Network network = network_with("interface " + each.interface + (is_v6(each) ? " (IPv6)" : ""),
                                   hosts, [&](const HostAddress& address) {
                                     return wish.admits(address) &&
                                            address.interface == each.interface &&
                                            is_v6(address) == is_v6(each);
                                   });
    if (missing_in(network) == 0) add_network(networks, std::move(network));
  }
}

/// Backtracking search of reaching_addresses(), host by host.
class Search {
 public:
  Search(const Network& network, const Reach& reach)
      : network_(network), reach_(reach), chosen_(network.addresses.size()) {}

  bool run(std::size_t host = 0) {
    deepest_ = std::max(deepest_, host);
    if (host == chosen_.size()) return true;
    for (const int address : network_.addresses[host]) {
      if (++attempts_ > kMostAttempts) return false;
      if (!fits({static_cast<int>(host), address})) continue;
      chosen_[host] = address;
      if (run(host + 1)) return true;
    }
    return false;
  }

  [[nodiscard]] const std::vector<int>& chosen() const { return chosen_; }
  /// Returns the first host for which no address was found.
  [[nodiscard]] int deepest() const { return static_cast<int>(deepest_); }

 private:
  [[nodiscard]] bool fits(Endpoint here) const {
    return std::ranges::all_of(reach_.tried_before(here.host), [&](int before) {
      return reach_.connects({before, chosen_[static_cast<std::size_t>(before)]}, here);
    });
  }

  const Network& network_;
  const Reach& reach_;
  std::vector<int> chosen_;
  std::size_t deepest_ = 0;
  int attempts_ = 0;
};

bool is_in(const Network& network, Endpoint endpoint) {
  const auto& mine = network.addresses[static_cast<std::size_t>(endpoint.host)];
  return std::ranges::find(mine, endpoint.address) != mine.end();
}

/// Returns the direction with a failure, and its error.
Gap gap_between(const Network& network, const Reach& reach, int a, int b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    for (const auto& [connection, error] : reach.failures(from, to)) {
      if (is_in(network, connection.from) && is_in(network, connection.to)) {
        return {.from = from, .to = to, .error = error};
      }
    }
  }
  return {.from = a, .to = b};
}

bool pair_connects(const Network& network, const Reach& reach, int a, int b) {
  for (const int from : network.addresses[static_cast<std::size_t>(a)]) {
    for (const int to : network.addresses[static_cast<std::size_t>(b)]) {
      if (reach.connects({a, from}, {b, to})) return true;
    }
  }
  return false;
}

/// Returns the pair that prevents the network from reaching all hosts. No address of host
/// `deepest` fits the addresses of all hosts before it.
Gap find_gap(const Network& network, const Reach& reach, int deepest) {
  const int hosts = static_cast<int>(network.addresses.size());
  for (int host = 0; host < hosts; ++host) {
    for (const int before : reach.tried_before(host)) {
      if (!pair_connects(network, reach, before, host)) {
        return gap_between(network, reach, before, host);
      }
    }
  }
  const std::vector<int>& tried = reach.tried_before(std::min(deepest, hosts - 1));
  return gap_between(network, reach, tried.empty() ? 0 : tried.front(), deepest);
}

}  // namespace

std::vector<Network> networks_of(const std::vector<NetworkHost>& hosts, const NetworkWish& wish) {
  std::vector<Network> networks;
  add_subnets(hosts, wish, networks);
  add_interfaces(hosts, wish, networks);
  std::ranges::stable_sort(networks, {}, [&](const Network& network) {
    return std::tuple(missing_in(network), -connections_over(hosts, network),
                      is_network_of_v6(hosts, network));
  });
  return networks;
}

std::vector<Network> any_networks_of(const std::vector<NetworkHost>& hosts,
                                     const NetworkWish& wish) {
  std::vector<Network> networks;
  for (const bool v6 : {false, true}) {
    Network network = network_with(
        v6 ? "any IPv6" : "any IPv4", hosts,
        [&](const HostAddress& address) { return wish.admits(address) && is_v6(address) == v6; });
    if (missing_in(network) == 0) networks.push_back(std::move(network));
  }
  return networks;
}

std::vector<int> tried_by(int host, int hosts) {
  std::vector<int> tried;
  if (hosts <= kAllPairs || host == 0) {
    tried.resize(static_cast<std::size_t>(hosts));
    std::iota(tried.begin(), tried.end(), 0);
  } else {
    tried = {0, host - 1, (host + 1) % hosts};
    std::ranges::sort(tried);
    const auto again = std::ranges::unique(tried);
    tried.erase(again.begin(), again.end());
  }
  std::erase(tried, host);
  return tried;
}

std::vector<std::vector<Connection>> connections_of(const std::vector<Network>& networks) {
  if (networks.empty()) return {};
  const int hosts = static_cast<int>(networks.front().addresses.size());
  std::vector<std::vector<Connection>> all(static_cast<std::size_t>(hosts));
  std::set<Connection> seen;
  std::map<std::pair<int, int>, int> of_pair;
  for (const Network& network : networks) {
    for (int from = 0; from < hosts; ++from) {
      for (const int to : tried_by(from, hosts)) {
        for (const int a : network.addresses[static_cast<std::size_t>(from)]) {
          for (const int b : network.addresses[static_cast<std::size_t>(to)]) {
            const Connection connection{.from = {from, a}, .to = {to, b}};
            if (of_pair[{from, to}] == kMostOfPair || !seen.insert(connection).second) continue;
            of_pair[{from, to}] += 1;
            all[static_cast<std::size_t>(from)].push_back(connection);
          }
        }
      }
    }
  }
  return all;
}

void Reach::add(const Connection& connection, std::string error) {
  errors_[connection] = std::move(error);
  const auto [low, high] = std::minmax(connection.from.host, connection.to.host);
  std::vector<int>& before = tried_with_[static_cast<std::size_t>(high)];
  if (std::ranges::find(before, low) == before.end()) before.push_back(low);
}

bool Reach::connects(Endpoint a, Endpoint b) const {
  for (const Connection& connection : {Connection{a, b}, Connection{b, a}}) {
    const auto found = errors_.find(connection);
    if (found == errors_.end() || !found->second.empty()) return false;
  }
  return true;
}

bool Reach::some_connect(int from, int to) const {
  for (auto each = first_of(from); each != errors_.end() && each->first.from.host == from; ++each) {
    if (each->first.to.host == to && each->second.empty()) return true;
  }
  return false;
}

std::vector<std::pair<Connection, std::string>> Reach::failures(int from, int to) const {
  std::vector<std::pair<Connection, std::string>> failures;
  for (auto each = first_of(from); each != errors_.end() && each->first.from.host == from; ++each) {
    if (each->first.to.host == to && !each->second.empty()) failures.push_back(*each);
  }
  return failures;
}

std::variant<std::vector<int>, Gap> reaching_addresses(const Network& network, const Reach& reach) {
  for (std::size_t host = 0; host < network.addresses.size(); ++host) {
    const int number = static_cast<int>(host);
    if (network.addresses[host].empty()) return Gap{.from = number, .to = number};
  }
  Search search(network, reach);
  if (search.run()) return search.chosen();
  return find_gap(network, reach, search.deepest());
}

}  // namespace pfc
