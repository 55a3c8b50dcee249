#include "coordinator/sockets/pending_connections.h"

#include <malloc.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <utility>

#include "common/byte_size.h"
#include "common/network_address.h"

namespace pfc {
namespace {

using boost::asio::ip::tcp;

// Between two polls a fast sender can send several MiB.
constexpr std::chrono::milliseconds kConnectionPollInterval{10};
// Consecutive retransmissions without an acknowledgement: after 0.2 s, 0.4 s and 0.8 s.
constexpr int kStalledRetransmits = 3;

/// Returns a key that is the same for the kernel's and gRPC's names: without a scope (%eth0).
std::string connection_key(const std::string& address, const std::string& port) {
  return address.substr(0, address.find('%')) + " " + port;
}

struct PeerName {
  std::string address;
  int port = 0;
};

/// Empty if the peer has disconnected.
PeerName peer_name(int fd) {
  tcp::endpoint end;
  auto size = static_cast<socklen_t>(end.capacity());
  if (getpeername(fd, end.data(), &size) != 0) return {};
  end.resize(size);
  return {.address = plain_address(end.address().to_string()), .port = end.port()};
}

/// Returns 0 if the descriptor is not open.
ino_t inode_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

/// The kernel's tcp_info (linux/tcp.h; Linux 4.2), which is longer than the C library's.
struct TcpInfo {
  tcp_info known;
  std::uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
};
static_assert(offsetof(TcpInfo, bytes_received) == 128);

/// Returns zeros if the kernel does not provide it.
TcpInfo tcp_info_of(int fd) {
  TcpInfo info{};
  socklen_t size = sizeof info;
  const bool known = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return known && size == sizeof info ? info : TcpInfo{};
}

std::string seconds_text(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}

}  // namespace

PendingConnections::PendingConnections(boost::asio::io_context& loop, const Limits& limits,
                                       Passed passed, Refused refused, Stalled stalled)
    : loop_(loop),
      limits_(limits),
      passed_(std::move(passed)),
      refused_(std::move(refused)),
      stalled_(std::move(stalled)),
      timer_(loop) {}

PendingConnections::~PendingConnections() { close(); }

void PendingConnections::close() {
  timer_.cancel();
  const std::lock_guard lock(mutex_);
  addresses_.clear();
  entered_.clear();
  inside_ = waiting_ = 0;
}

void PendingConnections::add(Fd fd) {
  const PeerName name = peer_name(fd);
  if (name.port == 0) return;
  std::vector<Closed> closed;
  {
    const std::lock_guard lock(mutex_);
    addresses_[name.address].waiting.push_back({.fd = std::move(fd),
                                                .peer = join_host_port(name.address, name.port),
                                                .since = Clock::now()});
    if (++waiting_ > limits_.waiting) drop_one(closed);
  }
  tell(closed);
  let_in();
}

void PendingConnections::known(const std::string& peer) {
  if (inside_ == 0) return;
  const std::string key = connection_key(address_of_peer(peer), peer.substr(peer.rfind(':') + 1));
  const std::lock_guard lock(mutex_);
  const auto found = entered_.find(key);
  if (found == entered_.end()) return;
  forget(found);
  if (waiting_ > 0) boost::asio::post(loop_, [this] { let_in(); });
}

PendingConnections::Entered::iterator PendingConnections::forget(Entered::iterator which) {
  const auto address = addresses_.find(which->second.address);
  address->second.inside -= 1;
  if (address->second.inside == 0 && address->second.waiting.empty()) addresses_.erase(address);
  inside_ -= 1;
  return entered_.erase(which);
}

void PendingConnections::let_in() {
  for (Fd& fd : take_next()) passed_(std::move(fd));
  watch();
}

std::vector<Fd> PendingConnections::take_next() {
  const std::lock_guard lock(mutex_);
  std::vector<Fd> taken;
  std::size_t without = 0;  // consecutive addresses from which none may enter
  auto next = addresses_.upper_bound(last_address_);
  while (waiting_ > 0 && entered_.size() < limits_.all && without < addresses_.size()) {
    if (next == addresses_.end()) next = addresses_.begin();
    auto& [name, address] = *next++;
    without += 1;
    if (address.waiting.empty() || address.inside >= limits_.of_address) continue;
    without = 0;
    last_address_ = name;
    Waiting chosen = std::move(address.waiting.front());
    address.waiting.pop_front();
    waiting_ -= 1;
    // An existing entry with the same key belongs to a closed connection.
    const std::string key = connection_key(name, chosen.peer.substr(chosen.peer.rfind(':') + 1));
    const auto [entry, is_new] = entered_.try_emplace(key);
    if (!is_new) addresses_.at(entry->second.address).inside -= 1, inside_ -= 1;
    entry->second = {.fd = chosen.fd,
                     .inode = inode_of(chosen.fd),
                     .address = name,
                     .peer = chosen.peer,
                     .since = Clock::now()};
    address.inside += 1, inside_ += 1;
    taken.push_back(std::move(chosen.fd));
  }
  return taken;
}

void PendingConnections::watch() {
  {
    const std::lock_guard lock(mutex_);
    if (watching_ || (entered_.empty() && waiting_ == 0)) return;
  }
  watching_ = true;
  timer_.expires_after(kConnectionPollInterval);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) look_after();
  });
}

void PendingConnections::look_after() {
  watching_ = false;
  std::vector<Closed> closed;
  std::vector<std::string> stalled;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = Clock::now();
    sweep(now, closed);
    stalled = find_stalled();
    expire_waiting(now, closed);
  }
  tell(closed);
  for (const std::string& address : stalled) stalled_(address);
  let_in();
  // gRPC has freed the requests, but malloc keeps the memory.
  if (!watching_ && std::exchange(sent_much_, false)) malloc_trim(0);
}

void PendingConnections::sweep(TimePoint now, std::vector<Closed>& closed) {
  for (auto each = entered_.begin(); each != entered_.end();) {
    Inside& inside = each->second;
    const bool has_gone = inode_of(inside.fd) != inside.inode;
    const bool is_contended = waiting_ > 0 && (entered_.size() >= limits_.all ||
                                               !addresses_.at(inside.address).waiting.empty());
    const auto patience = is_contended ? limits_.contended : limits_.patience;
    const bool is_late = now - inside.since >= patience;
    const bool is_large = !has_gone && tcp_info_of(inside.fd).bytes_received > limits_.bytes;
    if (has_gone) {
      each = forget(each);
      continue;
    }
    if ((is_late || is_large) && !inside.ended) {
      // gRPC notices, frees the calls and closes the socket. Until then the connection counts as
      // admitted, because it holds memory. Only this thread opens sockets of this port.
      shutdown(inside.fd, SHUT_RDWR);
      inside.ended = true;
      sent_much_ = sent_much_ || is_large;
      closed.push_back(
          {.connection = {.peer = inside.peer},
           .why = is_large
                      ? "the connection has sent more than " + byte_size_text(limits_.bytes) +
                            " without showing a credential"
                      : "the connection has shown no credential within " + seconds_text(patience) +
                            (is_contended ? ", and other connections are waiting" : "")});
    }
    ++each;
  }
}

std::vector<std::string> PendingConnections::find_stalled() {
  std::vector<std::string> stalled;
  for (auto& [key, inside] : entered_) {
    if (inside.stalled || inside.ended) continue;
    const TcpInfo info = tcp_info_of(inside.fd);
    if (info.known.tcpi_retransmits < kStalledRetransmits || info.bytes_received == 0) continue;
    inside.stalled = true;
    stalled.push_back(inside.address);
  }
  return stalled;
}

void PendingConnections::expire_waiting(TimePoint now, std::vector<Closed>& closed) {
  for (auto address = addresses_.begin(); address != addresses_.end();) {
    auto& queue = address->second.waiting;
    while (!queue.empty() && now - queue.front().since >= limits_.patience) {
      closed.push_back({.connection = std::move(queue.front()),
                        .why = "too many connections have not shown a credential yet; this one has "
                               "waited for " +
                               seconds_text(limits_.patience)});
      queue.pop_front();
      waiting_ -= 1;
    }
    const bool is_empty = queue.empty() && address->second.inside == 0;
    address = is_empty ? addresses_.erase(address) : std::next(address);
  }
}

void PendingConnections::drop_one(std::vector<Closed>& closed) {
  const auto most = std::ranges::max_element(
      addresses_, {}, [](const auto& each) { return each.second.waiting.size(); });
  auto& queue = most->second.waiting;
  closed.push_back({.connection = std::move(queue.front()),
                    .why = "more than " + std::to_string(limits_.waiting) +
                           " connections wait to be admitted, most of them from this address"});
  queue.pop_front();
  waiting_ -= 1;
}

void PendingConnections::tell(std::vector<Closed>& closed) {
  for (Closed& each : closed) {
    each.connection.fd.reset();
    refused_(each.connection.peer, each.why);
  }
}

}  // namespace pfc
