#include "agent/network/probe_listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <utility>

#include "agent/network/hello.h"
#include "common/clock.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;

std::string in_bytes(std::uint64_t number) {
  std::string bytes;
  for (std::size_t i = ProbeListener::kSpeedBytes; i-- > 0;) {
    bytes += static_cast<char>(number >> (8 * i) & 0xff);
  }
  return bytes;
}

}  // namespace

class ProbeListener::Visitor : public std::enable_shared_from_this<Visitor> {
 public:
  Visitor(const ProbeListener& listener, tcp::socket socket)
      : listener_(listener),
        socket_(std::move(socket)),
        limit_(socket_.get_executor()),
        moment_(socket_.get_executor()) {}

  void start() {
    limit_.expires_after(kVisit);
    limit_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->close();
    });
    asio::async_read(socket_, asio::buffer(hello_),
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       error ? self->close() : self->greeted();
                     });
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
    limit_.cancel();
    moment_.cancel();
  }

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] bool is_known() const { return known_; }

 private:
  void greeted() {
    const std::string_view hello(hello_.data(), hello_.size());
    const auto said = read_hello(listener_.secret_, hello);
    if (!said || said->to_host != listener_.host_) return close();
    known_ = true;
    reply(answer_to(listener_.secret_, hello), [transfer = said->transfer](Visitor& self) {
      if (!transfer) return self.close();
      error_code ignored;
      self.socket_.non_blocking(true, ignored);
      self.receive();
    });
  }

  template <typename Then>
  void reply(std::string text, Then then) {
    reply_ = std::move(text);
    asio::async_write(socket_, asio::buffer(reply_),
                      [self = shared_from_this(), then](const error_code& error, std::size_t) {
                        error ? self->close() : then(*self);
                      });
  }

  void receive() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (!error) self->take();
                       });
  }

  /// The kernel discards the bytes without copying and returns their number (tcp(7), MSG_TRUNC).
  void take() {
    const ssize_t taken =
        ::recv(socket_.native_handle(), nullptr, kMostAtOnce, MSG_TRUNC | MSG_DONTWAIT);
    if (taken == 0) return close();
    if (taken > 0) {
      if (std::exchange(bytes_, bytes_ + static_cast<std::uint64_t>(taken)) == 0) warm_up();
    }
    receive();
  }

  void warm_up() {
    begin_ = Clock::now();
    moment_.expires_after(kWarmUp);
    moment_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->count();
    });
  }

  void count() {
    const std::uint64_t before = bytes_;
    const TimePoint since = Clock::now();
    moment_.expires_after(kCounted);
    moment_.async_wait([self = shared_from_this(), before, since](const error_code& error) {
      if (error) return;
      // On a very slow network all bytes may have arrived during the warm-up.
      const bool slow = self->bytes_ == before;
      const auto bits = 8.0 * static_cast<double>(self->bytes_ - (slow ? 0 : before));
      const double speed = bits / seconds_since(slow ? self->begin_ : since);
      self->reply(in_bytes(static_cast<std::uint64_t>(speed)), [](Visitor& me) { me.close(); });
    });
  }

  const ProbeListener& listener_;
  tcp::socket socket_;
  asio::steady_timer limit_;
  asio::steady_timer moment_;
  std::array<char, kHelloBytes> hello_{};
  std::string reply_;
  std::uint64_t bytes_ = 0;
  TimePoint begin_;
  bool known_ = false;
};

ProbeListener::ProbeListener(std::string secret, int host)
    : secret_(std::move(secret)), host_(host) {
  error_code no_v6;
  acceptor_.open(tcp::v6(), no_v6);
  if (!no_v6) acceptor_.set_option(asio::ip::v6_only(false), no_v6);
  if (!no_v6) acceptor_.bind({tcp::v6(), 0}, no_v6);
  if (no_v6) {
    error_code ignored;
    acceptor_.close(ignored);
    acceptor_.open(tcp::v4());
    acceptor_.bind({tcp::v4(), 0});
  }
  acceptor_.listen();
  port_ = acceptor_.local_endpoint().port();
  accept();
  end_.expires_after(kOpen);
  end_.async_wait([this](const error_code& cancelled) {
    error_code ignored;
    if (!cancelled) acceptor_.close(ignored);
  });
  thread_ = std::thread([this] { loop_.run(); });
}

ProbeListener::~ProbeListener() {
  loop_.stop();
  thread_.join();
}

void ProbeListener::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      admit(std::move(socket));
      return accept();
    }
    pause_.expires_after(kAcceptPause);  // probably out of file descriptors
    pause_.async_wait([this](const error_code& cancelled) {
      if (!cancelled && acceptor_.is_open()) accept();
    });
  });
}

void ProbeListener::admit(tcp::socket socket) {
  forget_those_that_have_left();
  if (std::ssize(visitors_) >= kMostVisitors) {
    const auto oldest = std::ranges::find_if_not(visitors_, &Visitor::is_known);
    if (oldest == visitors_.end()) return;
    (*oldest)->close();
    visitors_.erase(oldest);
  }
  visitors_.push_back(std::make_shared<Visitor>(*this, std::move(socket)));
  visitors_.back()->start();
}

void ProbeListener::forget_those_that_have_left() {
  std::erase_if(visitors_, [](const auto& each) { return !each->is_open(); });
}

}  // namespace pfc
