// Announces the coordinator's address to agents on this machine's networks (security/beacon.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// Used on the event loop only. Once a second, sends one datagram per token and per address to the
/// multicast groups of every interface that is up. Ignores send errors, because a network may come
/// up later.
class BeaconSender {
 public:
  struct Options {
    int port = 0;             ///< port of the coordinator
    std::string fingerprint;  ///< fingerprint of the coordinator's authority
    /// Returns the hashes of the tokens that agents may have now.
    std::function<std::vector<std::string>()> token_hashes;
  };
  /// Further tokens are not announced.
  static constexpr std::size_t kMostTokens = 16;

  /// Throws InputError if no UDP socket can be opened.
  BeaconSender(boost::asio::io_context& loop, Options options);

 private:
  void send();
  void send_from(const boost::asio::ip::address& address, unsigned interface,
                 const std::vector<std::string>& token_hashes);

  const Options options_;
  boost::asio::ip::udp::socket socket4_, socket6_;
  boost::asio::steady_timer timer_;
};

}  // namespace pfc
