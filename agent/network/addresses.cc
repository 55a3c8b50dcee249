#include "agent/network/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/files/fd.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

std::optional<ip::address> address_of(const sockaddr* socket_address) {
  if (socket_address == nullptr) return {};
  if (socket_address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(socket_address);
    return ip::make_address_v4(ntohl(v4->sin_addr.s_addr));
  }
  if (socket_address->sa_family != AF_INET6) return {};
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(socket_address);
  ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
  return ip::make_address_v6(bytes);
}

int bits_of(const ip::address& mask) {
  int bits = 0;
  if (mask.is_v4()) return std::popcount(mask.to_v4().to_uint());
  for (const unsigned char byte : mask.to_v6().to_bytes()) bits += std::popcount(byte);
  return bits;
}

int mtu_of(const char* interface) {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return 0;
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
  const bool known = ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  return known ? request.ifr_mtu : 0;
}

bool is_link_local(const ip::address& address) {
  return address.is_v4() ? (address.to_v4().to_uint() >> 16) == 0xa9fe  // 169.254.0.0/16
                         : address.to_v6().is_link_local();
}

bool is_nearby(const ip::address& address) {
  return address.is_loopback() || is_link_local(address);
}

}  // namespace

std::vector<proto::NetworkAddress> network_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> interfaces(first, &::freeifaddrs);
  std::vector<proto::NetworkAddress> far, near;
  std::map<std::string, int> told;  // number of addresses of each interface
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    const auto address = address_of(each->ifa_addr), mask = address_of(each->ifa_netmask);
    if (!address || !mask || (each->ifa_flags & IFF_UP) == 0) continue;
    if (address->is_v6() && is_link_local(*address)) continue;
    auto& list = is_nearby(*address) ? near : far;
    if (std::ssize(list) == kMostAddresses) continue;
    if (++told[each->ifa_name] > kMostAddressesOfInterface) continue;
    proto::NetworkAddress& added = list.emplace_back();
    added.set_interface(each->ifa_name);
    added.set_address(address->to_string());
    added.set_prefix(bits_of(*mask));
    added.set_mtu(mtu_of(each->ifa_name));
  }
  return far.empty() ? near : far;
}

}  // namespace pfc
