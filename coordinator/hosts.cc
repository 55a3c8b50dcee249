#include "coordinator/hosts.h"

#include <ifaddrs.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <charconv>
#include <memory>
#include <set>

#include "common/error.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

constexpr int kMaxSlots = 1'024;
constexpr std::size_t kMaxHosts = 16'384;
constexpr std::size_t kMaxName = 253;  // of a DNS name

[[noreturn]] void refuse(std::string_view text, const std::string& problem) {
  throw InputError("--hosts '" + std::string(text) + "': " + problem +
                   "; expected NAME[:SLOTS][,NAME[:SLOTS]...], for example localhost:2");
}

bool valid_name(std::string_view name) {
  return name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

HostSpec parse_host(std::string_view text, std::string_view entry) {
  const std::string quoted = "'" + std::string(entry) + "'";
  if (entry.empty()) refuse(text, "an entry is empty");
  const std::size_t colon = entry.rfind(':');
  const std::string_view name = entry.substr(0, colon);
  if (name.empty()) refuse(text, quoted + " has no host name");
  if (!valid_name(name)) refuse(text, quoted + " is no host name or IPv4 address");
  if (colon == std::string_view::npos) return {.name = std::string(name)};
  const std::string_view number = entry.substr(colon + 1);
  if (number.empty()) refuse(text, quoted + " has no number of slots");
  int slots = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), slots);
  if (error != std::errc() || end != number.data() + number.size() || slots < 1 ||
      slots > kMaxSlots) {
    refuse(text, quoted + " has '" + std::string(number) + "' slots, not 1 to " +
                     std::to_string(kMaxSlots));
  }
  return {.name = std::string(name), .slots = slots};
}

std::set<std::string> interface_addresses() {
  std::set<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    addresses.insert(ip::make_address_v4(ntohl(address->sin_addr.s_addr)).to_string());
  }
  return addresses;
}

/// Looks the host up: whether it is this machine (localhost, its name, or an address of one of its
/// interfaces), and whether it has an address at all.
void look_up(HostSpec& host) {
  boost::system::error_code error;
  host.local = host.name == "localhost" || host.name == ip::host_name(error);
  if (host.local) return;
  const auto addresses = interface_addresses();
  const auto is_here = [&](const ip::address& address) {
    return address.is_loopback() || addresses.contains(address.to_string());
  };
  const auto literal = ip::make_address(host.name, error);
  if (!error) {
    host.local = is_here(literal);
    return;
  }
  boost::asio::io_context io;
  const auto found = ip::tcp::resolver(io).resolve(host.name, "", error);
  host.resolves = !error && !found.empty();
  for (const auto& entry : found) host.local = host.local || is_here(entry.endpoint().address());
}

}  // namespace

int workers_of(std::span<const HostSpec> hosts) {
  int workers = 0;
  for (const HostSpec& host : hosts) {
    if (host.slots == 0) return 0;
    workers += host.slots;
  }
  return workers;
}

std::string address_towards(const std::string& peer) {
  // Connecting a datagram socket only asks the routing table.
  boost::system::error_code error;
  boost::asio::io_context io;
  const auto found = ip::udp::resolver(io).resolve(ip::udp::v4(), peer, "9", error);
  if (error || found.empty()) return ip::host_name(error);
  ip::udp::socket socket(io);
  socket.connect(*found.begin(), error);
  return error ? ip::host_name(error) : socket.local_endpoint().address().to_string();
}

std::vector<HostSpec> parse_hosts(std::string_view text) {
  if (text.empty()) refuse(text, "it is empty");
  std::vector<HostSpec> hosts;
  const HostSpec* local = nullptr;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    HostSpec host = parse_host(text, text.substr(begin, end - begin));
    begin = end + 1;
    for (const HostSpec& other : hosts) {
      if (other.name == host.name) refuse(text, "host '" + host.name + "' is given twice");
    }
    if (hosts.size() == kMaxHosts)
      refuse(text, "more than " + std::to_string(kMaxHosts) + " hosts");
    hosts.push_back(std::move(host));
  }
  for (HostSpec& host : hosts) {
    look_up(host);
    if (!host.local) continue;
    if (local != nullptr) {
      refuse(text, "'" + local->name + "' and '" + host.name + "' are both this machine");
    }
    local = &host;
  }
  return hosts;
}

}  // namespace pfc
