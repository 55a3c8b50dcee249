#include "coordinator/sockets/beacon_sender.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/multicast.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/network_address.h"
#include "security/beacon.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;
using ip::udp;

constexpr std::chrono::seconds kBeaconInterval{1};

struct Place {
  ip::address address;
  unsigned interface = 0;
};

/// Returns this machine's addresses on interfaces that are up and support multicast. Omits IPv6
/// link-local addresses, because agents could not connect to them without naming an interface.
std::vector<Place> places() {
  std::vector<Place> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    constexpr unsigned kNeeded = IFF_UP | IFF_MULTICAST;
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & kNeeded) != kNeeded) continue;
    const unsigned interface = if_nametoindex(entry->ifa_name);
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      found.push_back({ip::make_address_v4(ntohl(address->sin_addr.s_addr)), interface});
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &address->sin6_addr, bytes.size());
      const ip::address_v6 number(bytes);
      if (!number.is_link_local()) found.push_back({number, interface});
    }
  }
  return found;
}

}  // namespace

BeaconSender::BeaconSender(boost::asio::io_context& loop, Options options)
    : options_(std::move(options)), socket4_(loop), socket6_(loop), timer_(loop) {
  boost::system::error_code error4, error6;
  socket4_.open(udp::v4(), error4);
  socket6_.open(udp::v6(), error6);
  if (error4 && error6) throw InputError("--beacon: no UDP socket: " + error4.message());
  boost::system::error_code ignored;
  socket4_.non_blocking(true, ignored);
  socket6_.non_blocking(true, ignored);
  boost::asio::post(loop, [this] { send(); });
}

void BeaconSender::send() {
  timer_.expires_after(kBeaconInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) send();
  });
  std::vector<std::string> hashes = options_.token_hashes();  // may throw: tokens are in a file
  if (hashes.size() > kMostTokens) hashes.resize(kMostTokens);
  for (const Place& place : places()) send_from(place.address, place.interface, hashes);
}

void BeaconSender::send_from(const ip::address& address, unsigned interface,
                             const std::vector<std::string>& token_hashes) {
  boost::system::error_code error;
  udp::socket& socket = address.is_v4() ? socket4_ : socket6_;
  if (address.is_v4()) {
    socket.set_option(ip::multicast::outbound_interface(address.to_v4()), error);
  } else {
    socket.set_option(ip::multicast::outbound_interface(interface), error);
  }
  if (error) return;
  const udp::endpoint group(ip::make_address(address.is_v4() ? kBeaconGroup4 : kBeaconGroup6),
                            kBeaconPort);
  const Beacon beacon{.address = join_host_port(address.to_string(), options_.port),
                      .fingerprint = options_.fingerprint};
  for (const std::string& hash : token_hashes) {
    socket.send_to(boost::asio::buffer(sign_beacon(beacon, hash)), group, 0, error);
  }
}

}  // namespace pfc
