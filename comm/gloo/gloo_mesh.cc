#include "comm/gloo/gloo_mesh.h"

#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/failures/abort_switch.h"
#include "comm/failures/roll_call.h"
#include "common/error.h"
#include "common/files/fd.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeersPatience{1'000};  // wait for reports of peers after a timeout

/// A gloo::Context whose pairs GlooMesh connects, because the waits of Gloo's own rendezvous cannot
/// be aborted.
class ConnectedContext : public gloo::Context {
 public:
  ConnectedContext(std::shared_ptr<gloo::transport::Device> device,
                   std::shared_ptr<gloo::transport::Context> pairs)
      : gloo::Context(pairs->rank, pairs->size) {
    device_ = std::move(device);
    transportContext_ = std::move(pairs);
  }
};

/// Calls a function in its own thread after a timeout, unless destroyed before.
class Alarm {
 public:
  /// Throws std::system_error when no file descriptor or thread is available.
  Alarm(milliseconds time, std::function<void()> late)
      : thread_([this, deadline = Clock::now() + time, late = std::move(late)] {
          if (!ends_before(deadline)) late();
        }) {}
  ~Alarm() {
    ::eventfd_write(event_, 1);
    thread_.join();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  static Fd make_event() {
    Fd fd(::eventfd(0, EFD_CLOEXEC));
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    return fd;
  }

  /// Waits on the steady clock. poll() is used because gcc's ThreadSanitizer does not know the
  /// function with which a condition variable waits on that clock.
  bool ends_before(TimePoint deadline) {
    pollfd over{.fd = event_, .events = POLLIN, .revents = 0};
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      const auto wait = static_cast<int>(std::min<std::int64_t>(left, INT_MAX));
      if (::poll(&over, 1, wait) > 0) return true;
    }
  }

  const Fd event_ = make_event();
  std::thread thread_;  // last, because it uses the other member
};

/// Removes the prefix "[/path/file.cc:line] " of Gloo's messages, which is of no use to a user.
std::string without_source(const std::string& message) {
  const std::size_t end = message.find(".cc:");
  const std::size_t bracket = message.find("] ", end == std::string::npos ? 0 : end);
  if (end == std::string::npos || bracket == std::string::npos) return message;
  return message.substr(bracket + 2);
}

std::string one_decimal(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 2);
}

// Gloo writes to sockets without MSG_NOSIGNAL. Without this function, the death of a peer would
// also kill this process instead of causing an error.
void ignore_broken_pipes() {
  struct sigaction current {};
  ::sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

/// Returns 0, or the errno that explains why this address cannot be bound.
int try_bind(const addrinfo& candidate) {
  const Fd fd(::socket(candidate.ai_family, candidate.ai_socktype | SOCK_CLOEXEC, 0));
  return fd >= 0 && ::bind(fd, candidate.ai_addr, candidate.ai_addrlen) == 0 ? 0 : errno;
}

/// While this exists, new threads of the calling thread get the policy SCHED_BATCH: when they wake
/// up, they do not preempt a running thread of the usual policy.
class BatchThreads {
 public:
  BatchThreads() {
    const sched_param priority{};
    set_ = ::sched_getscheduler(0) == SCHED_OTHER &&
           ::sched_setscheduler(0, SCHED_BATCH, &priority) == 0;
  }
  ~BatchThreads() {
    const sched_param priority{};
    if (set_) ::sched_setscheduler(0, SCHED_OTHER, &priority);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  bool set_ = false;
};

/// Creates the TCP device for an address or host name of this machine. Throws InputError that
/// explains what is wrong with the address. Gloo could resolve it itself, but leaks memory when
/// the address belongs to another machine.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (status != 0) throw InputError(address + ": " + ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);

  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    error = try_bind(*a);
    if (error != 0) continue;
    gloo::transport::tcp::attr attr(address.c_str());
    attr.ai_family = a->ai_family;
    attr.ai_socktype = a->ai_socktype;
    attr.ai_protocol = a->ai_protocol;
    std::memcpy(&attr.ai_addr, a->ai_addr, a->ai_addrlen);
    attr.ai_addrlen = static_cast<int>(a->ai_addrlen);
    // While a sender holds the lock of a pair (a connection to a peer), Gloo's thread does not wait
    // for it, but polls again and again. It must not preempt the sender, because then it would poll
    // for a whole time slice.
    const BatchThreads batch;
    return std::make_shared<gloo::transport::tcp::Device>(attr);
  }
  throw InputError(address + ": " + std::generic_category().message(error));
}

}  // namespace

GlooMesh::GlooMesh(const CommOptions& options, KeyValueStore& store)
    : membership_(options.membership),
      name_(options.name),
      timeout_(options.timeout),
      reports_(store, options.name, options.membership) {
  ignore_broken_pipes();
  addresses_ = roll_call(options, options.address.empty() ? "127.0.0.1" : options.address, store);
  for (int i = 1; i < size(); ++i) peers_.push_back((rank() + i) % size());
  connect(options, store);
}

void GlooMesh::connect(const CommOptions& options, KeyValueStore& store) {
  std::optional<AbortSwitch::Guard> guard;
  if (options.abort_switch != nullptr) {
    guard.emplace(*options.abort_switch, [this](const std::string& why) { abort(why); });
  }
  std::atomic<int> awaited{rank() == 0 ? 1 : 0};
  // Needed because Gloo waits five times as long as its timeout.
  const Alarm alarm(options.connect_timeout, [&] {
    const int peer = awaited;
    abort(label() + ": rank " + std::to_string(peer) + " (" + addresses_[index(peer)] +
          ") has not connected to " + address() + " within " +
          one_decimal(std::chrono::duration<double>(options.connect_timeout).count()) + " s");
  });
  const std::string prefix = name_ + "/gloo/";
  try {
    auto device = make_gloo_device(address());
    auto pairs = device->createContext(rank(), size());
    pairs->setTimeout(options.connect_timeout);
    std::vector<char> own;  // one address for each peer, in rank order
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const std::vector<char> bytes = pairs->createPair(peer)->address().bytes();
      own.insert(own.end(), bytes.begin(), bytes.end());
    }
    store.set(prefix + std::to_string(rank()), own);
    context_ = std::make_shared<ConnectedContext>(device, pairs);
    context_->setTimeout(options.connect_timeout);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      awaited = peer;
      const std::vector<char> all =
          store.get(prefix + std::to_string(peer), options.connect_timeout);
      const auto bytes = static_cast<std::ptrdiff_t>(all.size()) / (size() - 1);
      const auto begin = all.begin() + bytes * (rank() < peer ? rank() : rank() - 1);
      connect(peer, {begin, begin + bytes});
    }
  } catch (const std::exception& e) {
    const std::lock_guard lock(abort_mutex_);
    if (!abort_reason_.empty()) throw CommError(abort_reason_);
    throw CommError(label() + ": cannot connect from " + address() +
                    " to its peers: " + without_source(e.what()));
  }
}

// abort() closes the pair, so connect() returns or throws, whatever it is waiting for.
void GlooMesh::connect(int peer, const std::vector<char>& address) {
  const auto announce = [this](gloo::transport::Pair* pair) {
    const std::lock_guard lock(abort_mutex_);
    connecting_ = abort_reason_.empty() ? pair : nullptr;
    if (!abort_reason_.empty()) throw CommError(abort_reason_);
  };
  gloo::transport::Pair& pair = *context_->getPair(peer);
  announce(&pair);
  try {
    pair.connect(address);
  } catch (...) {
    announce(nullptr);
    throw;
  }
  announce(nullptr);
}

std::string GlooMesh::label() const {
  return "comm '" + name_ + "', rank " + std::to_string(rank()) + " of " + std::to_string(size());
}

void GlooMesh::abort(const std::string& why) {
  const std::lock_guard lock(abort_mutex_);
  if (!abort_reason_.empty()) return;
  abort_reason_ = why;
  if (connecting_ != nullptr) connecting_->close();
  if (awaited_ == nullptr) return;
  // Only one of the two waits is active. The buffer is not used again.
  awaited_->abortWaitRecv();
  awaited_->abortWaitSend();
}

Exchange::Exchange(GlooMesh& mesh, Collective collective)
    : mesh_(mesh),
      collective_(std::move(collective)),
      start_(Clock::now()),
      number_(mesh.exchanges_++) {
  if (mesh_.broken_) {
    throw CommError(mesh_.label() + ": " + to_text(collective_) +
                    " cannot begin after an earlier failure");
  }
  guarded(-1, [&] { announce(nullptr); });
}

std::uint64_t Exchange::slot(int channel) const {
  return number_ * kChannels + static_cast<std::uint64_t>(channel);
}

milliseconds Exchange::time_left() const {
  const auto left = std::chrono::ceil<milliseconds>(start_ + mesh_.timeout_ - Clock::now());
  return std::max(left, milliseconds(1));  // Gloo gives 0 and negative values a different meaning
}

std::unique_ptr<gloo::transport::UnboundBuffer> Exchange::buffer(const std::byte* data,
                                                                 std::size_t bytes) const {
  // Gloo has one type for both directions. It does not write to a buffer that is only sent.
  return mesh_.context_->createUnboundBuffer(const_cast<std::byte*>(data), bytes);
}

void Exchange::fail(int peer, const std::string& reason) {
  mesh_.broken_ = true;
  const double seconds = seconds_since(start_);
  mesh_.context_->closeConnections();
  const std::string who = peer < 0 ? "its peers"
                                   : "rank " + std::to_string(peer) + " (" +
                                         mesh_.addresses_[GlooMesh::index(peer)] + ")";
  throw CommError(mesh_.label() + ": " + to_text(collective_) + " with " + who + " failed after " +
                  one_decimal(seconds) + " s: " + reason + missing());
}

// Called after this worker has closed its connections. This makes all other waiting workers fail
// too, and they also write reports. The worker that they wait for writes none.
std::string Exchange::missing() const {
  if (Clock::now() - start_ < mesh_.timeout_ / 2) return {};  // too early: no worker has timed out
  mesh_.reports_.tell(collective_);
  return ": " + mesh_.reports_.culprits(collective_, mesh_.addresses_, kPeersPatience);
}

template <typename Call>
void Exchange::guarded(int peer, Call call) {
  try {
    call();
  } catch (const std::exception& e) {
    fail(peer, without_source(e.what()));
  }
}

void Exchange::announce(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mesh_.abort_mutex_);
  mesh_.awaited_ = mesh_.abort_reason_.empty() ? buffer : nullptr;
  if (!mesh_.abort_reason_.empty()) throw CommError(mesh_.abort_reason_);
}

void Exchange::await(gloo::transport::UnboundBuffer& buffer, Wait what) {
  announce(&buffer);
  try {
    if (what == Wait::kSend) {
      buffer.waitSend(time_left());
    } else {
      buffer.waitRecv(time_left());
    }
  } catch (...) {
    announce(nullptr);  // after an abort, throws the abort's reason instead
    throw;
  }
  announce(nullptr);
}

Exchange::Outbox::Outbox(Exchange& exchange, int channel, std::span<const std::byte> memory)
    : exchange_(exchange),
      slot_(exchange.slot(channel)),
      buffer_(exchange.buffer(memory.data(), memory.size())) {}

void Exchange::Outbox::send(int peer, std::size_t offset, std::size_t bytes) {
  exchange_.guarded(peer, [&] { buffer_->send(peer, slot_, offset, bytes); });
  exchange_.mesh_.sent_bytes_ += bytes;
  ++pending_;
}

void Exchange::Outbox::acknowledge() {
  for (const int peer : exchange_.mesh_.peers()) send(peer, 0, 0);
}

void Exchange::Outbox::wait() {
  for (; pending_ > 0; --pending_) {
    exchange_.guarded(-1, [&] { exchange_.await(*buffer_, Wait::kSend); });
  }
}

Exchange::Inbox::Inbox(Exchange& exchange, int peer, int channel, std::span<std::byte> memory)
    : exchange_(exchange),
      peer_(peer),
      slot_(exchange.slot(channel)),
      buffer_(exchange.buffer(memory.data(), memory.size())) {}

void Exchange::Inbox::post(std::size_t offset, std::size_t bytes) {
  exchange_.guarded(peer_, [&] { buffer_->recv(peer_, slot_, offset, bytes); });
}

void Exchange::Inbox::wait() {
  exchange_.guarded(peer_, [&] { exchange_.await(*buffer_, Wait::kReceive); });
}

}  // namespace pfc
