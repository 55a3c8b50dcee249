// Tells agents on the networks of this machine where the coordinator is (security/beacon.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

namespace pfc {

/// Used on the event loop only. Sends to the multicast groups of every interface that is up, once a
/// second, one datagram for each token and each address of this machine. What cannot be sent is
/// left out: a network may come later.
class BeaconSender {
 public:
  struct Options {
    int port = 0;             ///< of the coordinator
    std::string fingerprint;  ///< of its authority
    /// The hashes of the tokens that agents may have now.
    std::function<std::vector<std::string>()> token_hashes;
  };
  /// Tokens beyond these are not told.
  static constexpr std::size_t kMostTokens = 16;

  /// Throws InputError where no UDP socket can be made.
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
