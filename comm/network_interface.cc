#include "comm/network_interface.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

namespace pfc {
namespace {

bool same(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

std::string network_interface_of(const std::string& address) {
  addrinfo* found = nullptr;
  ifaddrs* first = nullptr;
  if (::getaddrinfo(address.c_str(), nullptr, nullptr, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  if (::getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> interfaces(first, &::freeifaddrs);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr != nullptr && same(*a->ai_addr, *i->ifa_addr)) return i->ifa_name;
    }
  }
  return "";
}

}  // namespace pfc
