#include "coordinator/sockets/tls_filter.h"

#include <sys/socket.h>

#include <utility>

#include "common/network_address.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kFirstByteTimeout{10};
constexpr unsigned char kHandshake = 22;  // RFC 8446, 5.1: the type of a record's content

std::string peer_text(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto end = socket.remote_endpoint(error);
  if (error) return "unknown";
  return join_host_port(plain_address(end.address().to_string()), end.port());
}

}  // namespace

TlsFilter::TlsFilter(boost::asio::io_context& loop, Passed passed, Refused refused)
    : loop_(loop), passed_(std::move(passed)), refused_(std::move(refused)) {}

TlsFilter::~TlsFilter() { close(); }

void TlsFilter::close() {
  for (const auto& each : std::exchange(waiting_, {})) {
    boost::system::error_code ignored;
    each->timer.cancel();
    each->socket.close(ignored);
  }
}

void TlsFilter::look(const boost::asio::ip::tcp& protocol, Fd fd) {
  const auto waiting = std::make_shared<Waiting>(loop_);
  boost::system::error_code error;
  waiting->socket.assign(protocol, fd, error);
  if (error) return;
  fd.release();
  if (waiting_.size() >= kMostWaiting) {
    waiting_.front()->timer.cancel();
    waiting_.front()->socket.close(error);
    waiting_.pop_front();
  }
  const Place place = waiting_.insert(waiting_.end(), waiting);
  waiting->timer.expires_after(kFirstByteTimeout);
  waiting->timer.async_wait([this, waiting, place](const boost::system::error_code& cancelled) {
    if (cancelled || !waiting->socket.is_open()) return;
    boost::system::error_code ignored;
    waiting->socket.close(ignored);
    waiting_.erase(place);
  });
  waiting->socket.async_wait(
      boost::asio::ip::tcp::socket::wait_read,
      [this, waiting, place](const boost::system::error_code& failed) {
        if (!waiting->socket.is_open()) return;  // already closed and removed from the list
        waiting_.erase(place);
        waiting->timer.cancel();
        if (!failed) decide(*waiting);
        boost::system::error_code ignored;
        waiting->socket.close(ignored);  // the timer's handler must find it closed
      });
}

void TlsFilter::decide(Waiting& waiting) {
  unsigned char first = 0;
  const ssize_t got = recv(waiting.socket.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 1 && first == kHandshake) return passed_(Fd(waiting.socket.release()));
  if (got == 1) refused_(peer_text(waiting.socket));
}

}  // namespace pfc
