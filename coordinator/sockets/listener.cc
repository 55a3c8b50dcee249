#include "coordinator/sockets/listener.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/v6_only.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/error.h"
#include "common/machine/descriptors.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Pause without free descriptors, in which a connection or file may be closed.
constexpr std::chrono::milliseconds kAcceptRetryPause{100};

[[noreturn]] void refuse(const Listener::Options& options, const boost::system::error_code& why) {
  const std::string where = "port " + std::to_string(options.port) + " on " + options.address;
  if (why == asio::error::address_in_use) {
    throw InputError(
        where +
        " is in use, perhaps by another pfc-coordinator; end that program, or choose "
        "another port with " +
        options.flag + " (" + options.flag +
        " 0: any free port); a coordinator on another port cannot take over a job that was started "
        "on this port");
  }
  std::string what = where + ": cannot listen: " + why.message();
  if (why == asio::error::no_descriptors) what += "; raise the limit of open files (ulimit -n)";
  if (why == asio::error::access_denied)
    what += "; choose a port of 1024 or more with " + options.flag;
  throw InputError(what);
}

tcp protocol_of(const std::string& address) {
  return asio::ip::make_address(address).is_v4() ? tcp::v4() : tcp::v6();
}

/// Disables Nagle's algorithm, so that small messages are sent immediately.
void send_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

Listener::Listener(asio::io_context& loop, const Options& options, Accepted accepted)
    : protocol_(protocol_of(options.address)),
      acceptor_(loop),
      timer_(loop),
      held_back_(options.held_back),
      accepted_(std::move(accepted)) {
  const tcp::endpoint endpoint(asio::ip::make_address(options.address),
                               static_cast<unsigned short>(options.port));
  try {
    acceptor_.open(protocol_);
    // "::" also accepts IPv4, independent of the system's default.
    if (protocol_ == tcp::v6()) acceptor_.set_option(asio::ip::v6_only(false));
    acceptor_.set_option(asio::socket_base::reuse_address(true));  // on Linux, only for TIME_WAIT
    acceptor_.bind(endpoint);
    acceptor_.listen();
    acceptor_.native_non_blocking(true);
    port_ = acceptor_.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    refuse(options, error.code());
  }
  wait();
}

void Listener::close() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
}

void Listener::wait() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error) accept();
  });
}

void Listener::accept() {
  if (!acceptor_.is_open()) return;
  Fd fd(accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd < 0) {
    const bool exhausted =
        errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return exhausted ? pause() : wait();  // otherwise only that connection has failed
  }
  wait();
  if (descriptors_are_short(fd, held_back_)) return;
  send_at_once(fd);
  accepted_(std::move(fd));
}

void Listener::pause() {
  timer_.expires_after(kAcceptRetryPause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && acceptor_.is_open()) wait();
  });
}

std::string any_address() {
  asio::io_context loop;
  boost::system::error_code error;
  tcp::acceptor probe(loop);
  probe.open(tcp::v6(), error);
  if (!error) probe.set_option(asio::ip::v6_only(false), error);
  if (!error) probe.bind({tcp::v6(), 0}, error);
  return error ? "0.0.0.0" : "::";
}

}  // namespace pfc
