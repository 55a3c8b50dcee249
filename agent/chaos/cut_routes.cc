#include "agent/chaos/cut_routes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "common/files/fd.h"

namespace pfc {
namespace {

namespace ip = boost::asio::ip;

// Protocol number in the routing table, which identifies our routes. Linux reserves numbers above
// 3 for user programs, and iproute2 has no name for this one.
constexpr unsigned char kMaker = 112;
// Metric of our IPv6 routes. Other routes have 256 or 1024, so ours are preferred. Our IPv4 routes
// need none: the default is 0, the most preferred metric.
constexpr std::uint32_t kPreferredV6 = 1;
constexpr const char* kNobody = "192.0.2.1";  // RFC 5737: for documentation, so no host has it

void add_attribute(std::string& message, unsigned short type, const void* value, std::size_t size) {
  rtattr head{.rta_len = static_cast<unsigned short>(RTA_LENGTH(size)), .rta_type = type};
  message.append(reinterpret_cast<const char*>(&head), sizeof(head));
  message.append(static_cast<const char*>(value), size);
  message.resize(NLMSG_ALIGN(message.size()));
}

std::string message_of(const ip::address& address, unsigned short type, unsigned short flags) {
  std::string message(NLMSG_LENGTH(sizeof(rtmsg)), '\0');
  const auto append = [&](const auto& bytes) {
    add_attribute(message, RTA_DST, bytes.data(), bytes.size());
  };
  if (address.is_v4()) {
    append(address.to_v4().to_bytes());
  } else {
    append(address.to_v6().to_bytes());
    add_attribute(message, RTA_PRIORITY, &kPreferredV6, sizeof(kPreferredV6));
  }
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(message.size());
  head.nlmsg_type = type;
  head.nlmsg_flags = static_cast<unsigned short>(NLM_F_REQUEST | NLM_F_ACK | flags);
  rtmsg route{};
  route.rtm_family = address.is_v4() ? AF_INET : AF_INET6;
  route.rtm_dst_len = address.is_v4() ? 32 : 128;
  route.rtm_table = RT_TABLE_MAIN;
  route.rtm_protocol = kMaker;
  route.rtm_scope = RT_SCOPE_UNIVERSE;
  route.rtm_type = RTN_UNREACHABLE;
  std::memcpy(message.data(), &head, sizeof(head));
  std::memcpy(message.data() + NLMSG_HDRLEN, &route, sizeof(route));
  return message;
}

Fd open_netlink() noexcept {
  return Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
}

/// Returns the kernel's reply: 0 or an errno. Async-signal-safe.
int ask(int fd, std::string_view message) noexcept {
  if (::send(fd, message.data(), message.size(), 0) < 0) return errno;
  alignas(nlmsghdr) std::array<char, 1024> answer;
  const ssize_t got = ::recv(fd, answer.data(), answer.size(), 0);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) return got < 0 ? errno : EPROTO;
  nlmsgerr result{};
  std::memcpy(&result, answer.data() + NLMSG_HDRLEN, sizeof(result));
  return -result.error;
}

std::string reason(int error) { return std::generic_category().message(error); }

/// Returns the removal messages for all routes that this program has added.
std::vector<std::string> removals_of_all(int fd, unsigned char family) {
  std::string request(NLMSG_LENGTH(sizeof(rtmsg)), '\0');
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(request.size());
  head.nlmsg_type = RTM_GETROUTE;
  head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  rtmsg which{};
  which.rtm_family = family;
  std::memcpy(request.data(), &head, sizeof(head));
  std::memcpy(request.data() + NLMSG_HDRLEN, &which, sizeof(which));
  std::vector<std::string> removals;
  if (::send(fd, request.data(), request.size(), 0) < 0) return removals;
  std::vector<char> answer(std::size_t{1} << 16);
  while (true) {
    ssize_t left = ::recv(fd, answer.data(), answer.size(), 0);
    if (left <= 0) return removals;
    const auto* each = reinterpret_cast<const nlmsghdr*>(answer.data());
    for (; NLMSG_OK(each, left); each = NLMSG_NEXT(each, left)) {
      if (each->nlmsg_type != RTM_NEWROUTE) return removals;  // end of the list, or an error
      const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(each));
      if (route->rtm_protocol != kMaker || route->rtm_type != RTN_UNREACHABLE) continue;
      std::string removal(reinterpret_cast<const char*>(each), each->nlmsg_len);
      nlmsghdr changed = *each;
      changed.nlmsg_type = RTM_DELROUTE;
      changed.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
      std::memcpy(removal.data(), &changed, sizeof(changed));
      removals.push_back(std::move(removal));
    }
  }
}

}  // namespace

CutRoutes::CutRoutes(const std::vector<std::string>& addresses) {
  for (const std::string& text : addresses) {
    boost::system::error_code error;
    const ip::address address = ip::make_address(text, error);
    if (error || address.is_loopback() || address.is_unspecified() || address.is_multicast() ||
        (address.is_v6() && address.to_v6().scope_id() != 0)) {
      continue;
    }
    addresses_.push_back(text);
    additions_.push_back(message_of(address, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL));
    removals_.push_back(message_of(address, RTM_DELROUTE, 0));
  }
}

void CutRoutes::add() const {
  const Fd fd = open_netlink();
  for (std::size_t i = 0; i < additions_.size(); ++i) {
    const int error = fd < 0 ? errno : ask(fd, additions_[i]);
    if (error == 0) continue;
    remove();
    throw std::runtime_error("cannot add the route that cuts off " + addresses_[i] + ": " +
                             reason(error));
  }
}

void CutRoutes::remove() const noexcept {
  const Fd fd = open_netlink();
  if (fd < 0) return;
  for (const std::string& removal : removals_) ask(fd, removal);
}

std::string CutRoutes::obstacle() {
  const Fd fd = open_netlink();
  if (fd < 0) return "cannot open a netlink socket: " + reason(errno);
  // Deleting a route that does not exist fails with ESRCH if this process may change routes.
  const int error = ask(fd, message_of(ip::make_address(kNobody), RTM_DELROUTE, 0));
  if (error == 0 || error == ESRCH) return {};
  return "its agent is not allowed to change the host's routes (" + reason(error) +
         "); run the agent as root, or with the capability CAP_NET_ADMIN";
}

void CutRoutes::remove_all() noexcept {
  const Fd fd = open_netlink();
  if (fd < 0) return;
  try {
    for (const unsigned char family : {AF_INET, AF_INET6}) {
      for (const std::string& removal : removals_of_all(fd, family)) ask(fd, removal);
    }
  } catch (const std::bad_alloc&) {  // the routes stay
  }
}

}  // namespace pfc
