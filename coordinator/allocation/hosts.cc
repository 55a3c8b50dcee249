#include "coordinator/allocation/hosts.h"

#include <ifaddrs.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cstring>
#include <memory>
#include <set>

#include "common/error.h"
#include "common/network_address.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

constexpr unsigned short kDiscardPort = 9;

std::set<std::string> interface_addresses() {
  std::set<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      addresses.insert(ip::make_address_v4(ntohl(address->sin_addr.s_addr)).to_string());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &address->sin6_addr, bytes.size());
      addresses.insert(ip::make_address_v6(bytes).to_string());
    }
  }
  return addresses;
}

bool is_address(const std::string& name) {
  boost::system::error_code error;
  ip::make_address(name, error);
  return !error;
}

/// Returns "node7" for "Node7.cluster".
std::string first_label(const std::string& name) {
  return lower_case(name.substr(0, name.find('.')));
}

/// Finds which host is this machine (localhost, its name, or an address of its interfaces), and
/// the addresses of the others.
void find_addresses(std::vector<HostSpec>& hosts, const Resolve& resolve_name) {
  boost::system::error_code error;
  const std::string own_name = ip::host_name(error);
  for (HostSpec& host : hosts) host.local = host.name == "localhost" || host.name == own_name;
  const auto here = interface_addresses();
  const auto is_here = [&](const std::string& address) {
    return ip::make_address(address, error).is_loopback() || here.contains(address);
  };
  std::vector<std::string> names;
  for (const HostSpec& host : hosts) {
    if (!host.local && !is_address(host.name)) names.push_back(host.name);
  }
  const auto found = look_up(names, kLookUpLimit, resolve_name);
  for (HostSpec& host : hosts) {
    if (host.local) continue;
    if (is_address(host.name)) {
      host.local = is_here(host.name);
      continue;
    }
    const auto answer = found.find(host.name);
    host.answered = answer != found.end();
    if (!host.answered) continue;
    host.resolves = !answer->second.empty();
    host.local = std::ranges::any_of(answer->second, is_here);
    const auto loopback = std::ranges::find_if(answer->second, [&](const std::string& each) {
      return ip::make_address(each, error).is_loopback();
    });
    const bool is_own = first_label(host.name) == first_label(own_name);
    if (loopback != answer->second.end() && !is_own) host.loopback = *loopback;
    const auto v4 = std::ranges::find_if(answer->second, [](const std::string& each) {
      return each.find(':') == std::string::npos;
    });
    if (v4 != answer->second.end()) {
      host.address = *v4;
    } else if (host.resolves) {
      host.address = answer->second.front();
    }
  }
}

}  // namespace

std::string address_towards(const std::string& peer) {
  boost::system::error_code error;
  const auto address = ip::make_address(peer, error);
  if (error) return ip::host_name(error);
  // Connecting a UDP socket sends nothing; it only reads the routing table.
  boost::asio::io_context io;
  ip::udp::socket socket(io);
  socket.connect({address, kDiscardPort}, error);
  return error ? ip::host_name(error) : socket.local_endpoint().address().to_string();
}

std::string address_towards(std::span<const HostSpec> hosts) {
  for (const HostSpec& host : hosts) {
    if (host.local || !host.resolves || !host.answered) continue;
    return address_towards(host.address.empty() ? host.name : host.address);
  }
  return address_towards(std::string());
}

void look_up_hosts(std::vector<HostSpec>& hosts, const Resolve& resolve_name) {
  find_addresses(hosts, resolve_name);
  const HostSpec* local = nullptr;
  for (const HostSpec& host : hosts) {
    if (!host.local) continue;
    if (local != nullptr) {
      throw InputError("hosts '" + local->name + "' and '" + host.name +
                       "' are both this machine; expected each host once, with all its slots");
    }
    local = &host;
  }
}

}  // namespace pfc
