// Handles the signals that ask a program to stop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <optional>

namespace pfc {

/// Catches SIGINT, SIGTERM and SIGHUP during its lifetime. SIGHUP stays ignored if it was ignored
/// at program start, as with nohup. Used on the event loop only.
class StopSignals {
 public:
  /// Receives the signal's number, and whether a signal arrived before.
  using Handler = std::function<void(int number, bool again)>;

  StopSignals(boost::asio::io_context& loop, Handler handler);
  /// Restores the earlier signal handlers.
  void restore() { signals_.clear(); }
  /// Returns the first signal; nullopt before one arrives.
  [[nodiscard]] std::optional<int> first() const { return first_; }

 private:
  void wait();

  boost::asio::signal_set signals_;
  const Handler handler_;
  std::optional<int> first_;
};

}  // namespace pfc
