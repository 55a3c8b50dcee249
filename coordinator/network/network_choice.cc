#include "coordinator/network/network_choice.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>

#include "common/counted.h"

namespace pfc {
namespace {

constexpr std::size_t kShownNetworks = 4;
constexpr std::size_t kShownTries = 4;

const HostAddress& at(const std::vector<NetworkHost>& hosts, Endpoint endpoint) {
  return hosts[static_cast<std::size_t>(endpoint.host)]
      .addresses[static_cast<std::size_t>(endpoint.address)];
}

const std::string& host_name(const std::vector<NetworkHost>& hosts, int host) {
  return hosts[static_cast<std::size_t>(host)].name;
}

std::string gap_text(const std::vector<NetworkHost>& hosts, const Gap& gap) {
  if (gap.from == gap.to) return host_name(hosts, gap.from) + " is not in it";
  return host_name(hosts, gap.from) + " cannot reach " + host_name(hosts, gap.to) +
         (gap.error.empty() ? "" : ": " + gap.error);
}

std::string slowest_pair(const std::vector<NetworkHost>& hosts, const UsableNetwork& network) {
  const std::string pair = host_name(hosts, network.from) + " to " + host_name(hosts, network.to);
  if (*network.speed > 0) return "slowest pair " + pair + " " + speed_text(*network.speed);
  const auto end = [&](int host) {
    return Endpoint{.host = host, .address = network.address[static_cast<std::size_t>(host)]};
  };
  const auto mtu = [&](int host) { return std::to_string(at(hosts, end(host)).mtu); };
  return pair + " connects, but no data arrive (" + network.error + "); the MTU is " +
         mtu(network.from) + " and " + mtu(network.to) + " bytes";
}

std::vector<std::string> interfaces_of(const std::vector<NetworkHost>& hosts,
                                       const UsableNetwork& network) {
  std::vector<std::string> interfaces;
  for (int host = 0; host < static_cast<int>(hosts.size()); ++host) {
    const int address = network.address[static_cast<std::size_t>(host)];
    interfaces.push_back(at(hosts, {.host = host, .address = address}).interface);
  }
  return interfaces;
}

/// Returns " (eth0)" if all hosts use the same interface and the name of the network does not
/// contain it.
std::string interface_text(const std::vector<NetworkHost>& hosts, const UsableNetwork& network) {
  const auto list = interfaces_of(hosts, network);
  const std::set<std::string> interfaces(list.begin(), list.end());
  const bool said = network.name.starts_with("interface ");
  return interfaces.size() == 1 && !said ? " (" + *interfaces.begin() + ")" : "";
}

std::string listed_at_most(const std::vector<std::string>& parts, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + parts[i];
  }
  if (parts.size() > most) text += " and " + std::to_string(parts.size() - most) + " more";
  return text;
}

std::string unused_text(const std::vector<NetworkHost>& hosts, const FoundNetworks& found,
                        const UsableNetwork* used) {
  std::vector<std::string> unused;
  for (const UsableNetwork& each : found.usable) {
    if (&each == used) continue;
    unused.push_back(each.name + (each.speed ? " (" + slowest_pair(hosts, each) + ")" : ""));
  }
  for (const UnusableNetwork& each : found.unusable) {
    unused.push_back(each.name + " (" + gap_text(hosts, each.gap) + ")");
  }
  return listed_at_most(unused, kShownNetworks);
}

/// Returns two hosts, one of which cannot reach the other; nothing if there are none.
std::optional<Gap> unreachable_pair(const std::vector<NetworkHost>& hosts, const Reach& reach) {
  const int count = static_cast<int>(hosts.size());
  for (int b = 0; b < count; ++b) {
    for (const int a : tried_by(b, count)) {
      if (a > b) continue;
      if (!reach.some_connect(a, b)) return Gap{.from = a, .to = b};
      if (!reach.some_connect(b, a)) return Gap{.from = b, .to = a};
    }
  }
  return {};
}

std::string problem_of_pair(const std::vector<NetworkHost>& hosts, const Reach& reach,
                            const Gap& gap) {
  const std::string &from = host_name(hosts, gap.from), &to = host_name(hosts, gap.to);
  std::vector<std::string> tries;
  for (const auto& [connection, error] : reach.failures(gap.from, gap.to)) {
    tries.push_back(at(hosts, connection.from).address + " to " + at(hosts, connection.to).address +
                    ": " + error);
  }
  const auto& all = hosts;
  return "host " + from + " cannot reach host " + to + ": " + from + " has " +
         text_of(all[static_cast<std::size_t>(gap.from)].addresses) + "; " + to + " has " +
         text_of(all[static_cast<std::size_t>(gap.to)].addresses) +
         (tries.empty() ? "; they have no IP version in common"
                        : "; tried " + listed_at_most(tries, kShownTries));
}

std::string problem(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                    const FoundNetworks& found, const Reach& reach) {
  const std::string among = wish.text().empty() ? "" : "--network " + wish.text() + ": ";
  if (const auto gap = unreachable_pair(hosts, reach)) {
    return among + problem_of_pair(hosts, reach, *gap);
  }
  return among + "no network reaches all hosts: " + unused_text(hosts, found, nullptr);
}

/// Returns null if no network transfers data.
const UsableNetwork* best_of(const FoundNetworks& found) {
  double fastest = 0;
  for (const UsableNetwork& each : found.usable)
    fastest = std::max(fastest, each.speed.value_or(0));
  const auto best = std::ranges::find_if(found.usable, [&](const UsableNetwork& each) {
    return !each.speed || (*each.speed > 0 && *each.speed >= kAsGood * fastest);
  });
  return best == found.usable.end() ? nullptr : &*best;
}

}  // namespace

FoundNetworks find_networks(const std::vector<NetworkHost>& hosts,
                            const std::vector<Network>& networks, const Reach& reach) {
  FoundNetworks found;
  for (const Network& network : networks) {
    const auto result = reaching_addresses(network, reach);
    if (const auto* gap = std::get_if<Gap>(&result)) {
      found.unusable.push_back({.name = network.name, .gap = *gap});
      continue;
    }
    found.usable.push_back({.name = network.name, .address = std::get<std::vector<int>>(result)});
  }
  std::ranges::stable_partition(
      found.usable, [&](const UsableNetwork& each) { return was_used_before(hosts, each); });
  std::set<std::vector<std::string>> seen;
  std::erase_if(found.usable, [&](const UsableNetwork& each) {
    return !seen.insert(interfaces_of(hosts, each)).second;
  });
  return found;
}

bool was_used_before(const std::vector<NetworkHost>& hosts, const UsableNetwork& network) {
  for (int host = 0; host < static_cast<int>(hosts.size()); ++host) {
    const int address = network.address[static_cast<std::size_t>(host)];
    const std::string& earlier = hosts[static_cast<std::size_t>(host)].earlier;
    if (at(hosts, {.host = host, .address = address}).address != earlier) return false;
  }
  return true;
}

std::vector<int> rounds_of(int hosts) {
  std::vector<int> offsets(static_cast<std::size_t>(hosts <= kAllTransfers ? hosts - 1 : 1));
  std::iota(offsets.begin(), offsets.end(), 1);
  return offsets;
}

void add_speed(UsableNetwork& network, int from, int to, double bits_per_second,
               const std::string& error) {
  if (network.speed && *network.speed <= bits_per_second) return;
  network.speed = bits_per_second;
  network.from = from;
  network.to = to;
  network.error = error;
}

std::vector<int> hosts_apart(int hosts, const Reach& reach) {
  std::vector<std::set<int>> unreached(static_cast<std::size_t>(hosts));
  for (int host = 0; host < hosts; ++host) {
    for (const int other : tried_by(host, hosts)) {
      if (reach.some_connect(host, other) && reach.some_connect(other, host)) continue;
      unreached[static_cast<std::size_t>(host)].insert(other);
      unreached[static_cast<std::size_t>(other)].insert(host);
    }
  }
  std::vector<int> apart;
  while (true) {
    const auto worst = std::ranges::max_element(unreached.rbegin(), unreached.rend(), {},
                                                [](const auto& set) { return set.size(); });
    if (worst == unreached.rend() || worst->empty()) break;
    const int host = static_cast<int>(unreached.rend() - worst) - 1;
    for (const int other : *worst) unreached[static_cast<std::size_t>(other)].erase(host);
    worst->clear();
    apart.push_back(host);
  }
  std::ranges::sort(apart);
  return apart;
}

NetworkChoice choose_network(const std::vector<NetworkHost>& hosts, const NetworkWish& wish,
                             const FoundNetworks& found, const Reach& reach) {
  const UsableNetwork* const best = best_of(found);
  if (best == nullptr) {
    return {.address = {},
            .text = problem(hosts, wish, found, reach),
            .apart = hosts_apart(static_cast<int>(hosts.size()), reach)};
  }
  const std::string unused = unused_text(hosts, found, best);
  return {.address = best->address,
          .text = "network " + best->name + interface_text(hosts, *best) + ": " +
                  counted(std::ssize(hosts), "host") +
                  (best->speed ? ", " + slowest_pair(hosts, *best)
                               : ", used before and not measured again") +
                  (unused.empty() ? "" : "; not used: " + unused)};
}

std::string unfulfilled(const std::vector<NetworkHost>& hosts, const NetworkWish& wish) {
  for (const NetworkHost& host : hosts) {
    const auto admitted = [&](const HostAddress& each) { return wish.admits(each); };
    if (std::ranges::any_of(host.addresses, admitted)) continue;
    return "--network " + wish.text() + ": host " + host.name + " has no matching address, only " +
           text_of(host.addresses);
  }
  return {};
}

std::string speed_text(double bits_per_second) {
  struct Unit {
    double size;
    const char* name;
  };
  for (const Unit& unit : {Unit{1e9, "Gbit/s"}, Unit{1e6, "Mbit/s"}, Unit{1e3, "kbit/s"}}) {
    if (bits_per_second < unit.size && unit.size > 1e3) continue;
    const double value = bits_per_second / unit.size;
    char text[32];
    std::snprintf(text, sizeof(text), value < 10 ? "%.1f %s" : "%.0f %s", value, unit.name);
    return text;
  }
  return {};
}

}  // namespace pfc
