#include "security/first_contact.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <optional>

#include "common/error.h"
#include "common/network_address.h"
#include "security/certificate.h"

namespace pfc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// "2026-11-23 10:00 UTC"
std::string utc_text(std::time_t time) {
  std::tm parts{};
  std::array<char, 32> text{};
  gmtime_r(&time, &parts);
  std::strftime(text.data(), text.size(), "%F %H:%M UTC", &parts);
  return text.data();
}

/// One connection attempt. The pending operations refer to this object.
class Contact {
 public:
  Contact() {
    // Accept any certificate: the handshake only fetches it, and the fingerprint decides later.
    tls_.set_verify_mode(asio::ssl::verify_none);
  }

  /// Connects and shakes hands. Returns the error, if any. Sets `connected` after TCP connects.
  error_code run(const std::string& address, std::chrono::milliseconds limit) {
    const std::string host = host_of(address), port = address.substr(address.rfind(':') + 1);
    resolver_.async_resolve(host, port, [this](error_code error, auto results) {
      if (error) return finish(error);
      asio::async_connect(stream_.lowest_layer(), results, [this](error_code failed, auto&&) {
        if (failed) return finish(failed);
        connected = true;
        stream_.async_handshake(asio::ssl::stream_base::client,
                                [this](error_code result) { finish(result); });
      });
    });
    loop_.run_for(limit);
    if (!result_) resolver_.cancel();
    return result_.value_or(asio::error::timed_out);
  }

  [[nodiscard]] std::string authority_with(const std::string& fingerprint) {
    STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(stream_.native_handle());
    for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
      X509* const certificate = sk_X509_value(chain, i);
      if (fingerprint_of(*certificate) == fingerprint) return to_pem(*certificate);
    }
    return {};
  }

  /// Returns the validity problem of one of the peer's certificates, such as "is not valid yet".
  /// Empty if all are valid.
  [[nodiscard]] std::string validity_problem_at(std::time_t now) {
    STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(stream_.native_handle());
    std::string problem;
    for (int i = 0; problem.empty() && i < sk_X509_num(chain); ++i) {
      problem = validity_problem(*sk_X509_value(chain, i), now);
    }
    return problem;
  }

  bool connected = false;

 private:
  void finish(error_code result) {
    result_ = result;
    loop_.stop();
  }

  asio::io_context loop_;
  asio::ssl::context tls_{asio::ssl::context::tls_client};
  tcp::resolver resolver_{loop_};
  asio::ssl::stream<tcp::socket> stream_{loop_, tls_};
  std::optional<error_code> result_;
};

}  // namespace

std::string fetch_authority(const std::string& address, const std::string& fingerprint,
                            std::chrono::milliseconds limit, std::time_t now) {
  Contact contact;
  const error_code error = contact.run(address, limit);
  if (error && !contact.connected) {
    throw CommError("coordinator " + address + " cannot be reached: " + error.message());
  }
  if (error == asio::error::timed_out) {
    throw CommError("coordinator " + address +
                    ": connected over TCP, but the TLS handshake timed out; " + kMtuAdvice);
  }
  if (error == asio::error::connection_reset || error == asio::error::eof ||
      error == asio::ssl::error::stream_truncated) {
    throw CommError("coordinator " + address +
                    " has not completed a TLS handshake: " + error.message());
  }
  if (error) {
    throw InputError("the program at " + address + " does not speak TLS (" + error.message() +
                     "); expected HOST:PORT of a pfc-coordinator (its --port)");
  }
  std::string authority = contact.authority_with(fingerprint);
  if (authority.empty()) {
    throw InputError(
        "the coordinator at " + address +
        " has a certificate that does not match the join string's fingerprint: the join "
        "string belongs to another coordinator, or the connection is intercepted; "
        "nothing was sent; use the join string that this coordinator printed");
  }
  if (const std::string problem = contact.validity_problem_at(now); !problem.empty()) {
    throw ClockError(
        "coordinator " + address + ": its certificate " + problem + "; this host's clock says " +
        utc_text(now) +
        "; set the clock of this host or of the coordinator's host, whichever is wrong");
  }
  return authority;
}

}  // namespace pfc
