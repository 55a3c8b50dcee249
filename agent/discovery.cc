#include "agent/discovery.h"

#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/multicast.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <memory>
#include <optional>
#include <span>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/sha256.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;
using ip::udp;
using std::chrono::milliseconds;

constexpr milliseconds kInterfacePollInterval{1'000};  // how often to look for new interfaces
constexpr int kMostDatagrams = 1'000;  // read per socket, before interfaces are checked again

struct InterfaceNames {
  struct if_nameindex* list = if_nameindex();
  InterfaceNames() = default;
  InterfaceNames(const InterfaceNames&) = delete;
  InterfaceNames& operator=(const InterfaceNames&) = delete;
  ~InterfaceNames() {
    if (list != nullptr) if_freenameindex(list);
  }
};

/// UDP sockets for IPv4 and IPv6. Several agents of one machine can listen.
class Listeners {
 public:
  Listeners() : socket4_(loop_), socket6_(loop_) {
    boost::system::error_code error4, error6;
    open(socket4_, udp::v4(), error4);
    open(socket6_, udp::v6(), error6);
    if (error4 && error6) {
      throw InputError("--discover: UDP port " + std::to_string(kBeaconPort) +
                       ": cannot open it: " + error4.message());
    }
  }

  /// Joins the groups on new interfaces. Fails silently on interfaces that are already joined.
  void join_groups() {
    const InterfaceNames names;
    for (auto* each = names.list; each != nullptr && each->if_index != 0; ++each) {
      ip_mreqn group{};
      group.imr_multiaddr.s_addr = htonl(ip::make_address_v4(kBeaconGroup4).to_uint());
      group.imr_ifindex = static_cast<int>(each->if_index);
      setsockopt(socket4_.native_handle(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group));
      boost::system::error_code ignored;
      socket6_.set_option(
          ip::multicast::join_group(ip::make_address_v6(kBeaconGroup6), each->if_index), ignored);
    }
  }

  /// Returns the first valid beacon that arrives within `wait`.
  std::optional<Beacon> wait_for_beacon(milliseconds wait, const std::string& token_hash) {
    std::array<pollfd, 2> sockets{
        {{.fd = socket4_.native_handle(), .events = POLLIN, .revents = 0},
         {.fd = socket6_.native_handle(), .events = POLLIN, .revents = 0}}};
    if (poll(sockets.data(), sockets.size(), static_cast<int>(wait.count())) <= 0) return {};
    for (int read = 0; read < kMostDatagrams; ++read) {
      std::optional<Beacon> beacon;
      const bool more4 = receive(socket4_, token_hash, beacon);
      const bool more6 = !beacon && receive(socket6_, token_hash, beacon);
      if (beacon || (!more4 && !more6)) return beacon;
    }
    return {};
  }

 private:
  static void open(udp::socket& socket, const udp& kind, boost::system::error_code& error) {
    socket.open(kind, error);
    if (!error && kind == udp::v6()) socket.set_option(ip::v6_only(true), error);
    if (!error) socket.set_option(udp::socket::reuse_address(true), error);
    if (!error) socket.bind(udp::endpoint(kind, kBeaconPort), error);
    if (!error) socket.non_blocking(true, error);
  }

  /// Returns whether a datagram was available.
  static bool receive(udp::socket& socket, const std::string& token_hash,
                      std::optional<Beacon>& beacon) {
    std::array<char, kLongestBeacon + 1> datagram{};
    boost::system::error_code error;
    const std::size_t size = socket.receive(boost::asio::buffer(datagram), 0, error);
    if (error) return false;
    beacon = verify_beacon({datagram.data(), size}, token_hash);
    return true;
  }

  boost::asio::io_context loop_;
  udp::socket socket4_, socket6_;
};

}  // namespace

JoinString discover(const DiscoveryOptions& options) {
  Listeners listeners;
  const std::string hash = sha256_hex(std::as_bytes(std::span(options.token)));
  const TimePoint start = Clock::now();
  milliseconds patience = options.patience;
  while (true) {
    listeners.join_groups();
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    if (waited >= options.limit) {
      throw CommError("found no beacon of a coordinator that knows this token within " +
                      std::to_string(waited.count() / 1000) + " s");
    }
    const auto beacon = listeners.wait_for_beacon(
        std::min({kInterfacePollInterval, options.limit - waited, patience}), hash);
    if (beacon) {
      return {
          .token = options.token, .address = beacon->address, .fingerprint = beacon->fingerprint};
    }
    if (waited < patience || !options.notice) continue;
    patience *= 2;
    options.notice("no beacon of a coordinator that knows this token has arrived for " +
                   std::to_string(waited.count() / 1000) +
                   " s; check that one runs with --beacon on the same network, and that UDP port " +
                   std::to_string(kBeaconPort) + " is open");
  }
}

}  // namespace pfc
