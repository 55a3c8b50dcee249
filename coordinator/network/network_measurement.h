// Asks the agents, step by step, how they reach each other (docs/network.md).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "coordinator/network/network_choice.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// One measurement. First every agent listens; then they connect to each other over the networks
/// that there may be, and where none reaches all from every address to every address; then they
/// measure the speed of the networks that reach all, once more where nothing arrives over any. The
/// next step begins when every agent has answered. Used on the event loop only; it knows no clock.
class NetworkMeasurement {
 public:
  /// For all steps together. A host that has not answered then is named.
  static constexpr std::chrono::milliseconds kLimit{10'000};
  static constexpr std::chrono::milliseconds kConnectLimit{2'500};   ///< for one such step
  static constexpr std::chrono::milliseconds kTransferSlot{120};     ///< for one round
  static constexpr std::chrono::milliseconds kTransferLimit{2'600};  ///< for the last of them
  static constexpr std::size_t kMostMeasured = 4;                    ///< networks

  /// Of a check, once more between all pairs of hosts over the network that was chosen: at most so
  /// many to and from each host.
  static constexpr int kMostPairs = 15;
  static constexpr std::chrono::milliseconds kPairsLimit{10'000};  ///< more, for all steps
  enum class Pairs { kSome, kAll };

  using Send = std::function<void(int host, const proto::NetworkStep&)>;

  /// Sends the first step. REQUIRES: two hosts or more, each with an address.
  NetworkMeasurement(std::vector<NetworkHost> hosts, NetworkWish wish, Send send, TimePoint now,
                     Pairs pairs = Pairs::kSome);

  /// What a host's agent has answered.
  void said(int host, const proto::NetworkReport& report);
  /// Its agent has connected again, and may not have got what was sent last.
  void repeat(int host);
  /// Gives everybody so much more time.
  void postpone(Clock::duration gap);
  /// Ends it when the limit has passed.
  void expire(TimePoint now);

  /// As they were when it began. What a host has registered since then may be something else.
  [[nodiscard]] const std::vector<NetworkHost>& hosts() const { return hosts_; }
  /// How it has ended; empty: it goes on. The text of a choice without addresses is the problem.
  [[nodiscard]] const std::optional<NetworkChoice>& choice() const { return choice_; }
  /// What is known of the pairs of hosts: their speed over the chosen network, where it was
  /// measured between all pairs, or why one does not reach the other.
  [[nodiscard]] std::vector<proto::CheckPair> pairs() const;

 private:
  struct Test {
    Connection connection;
    std::size_t network = 0;  ///< of a transfer: of found_.usable
    std::chrono::milliseconds begin{0};
  };
  struct Answer {
    std::vector<Test> tests;
    std::optional<proto::NetworkReport> report;
    int port = 0;
  };
  enum class Stage { kListen, kConnect, kConnectAnyhow, kTransfer, kPairs };

  void begin(Stage stage, std::chrono::milliseconds limit);
  [[nodiscard]] proto::NetworkStep step_for(int host) const;
  void next();
  void connect(Stage stage, const std::vector<Network>& networks);
  void note_connections();
  void find(const std::vector<Network>& networks);
  void transfer();
  void add_round(const std::vector<int>& addresses, int offset, std::chrono::milliseconds begin_at,
                 std::size_t network = 0);
  void note_transfers();
  void choose();
  void transfer_between_pairs();
  void note_pairs();
  [[nodiscard]] bool some_are_slow() const;
  [[nodiscard]] bool data_arrive() const;  ///< over one network at least
  void end(NetworkChoice choice);
  [[nodiscard]] int host_count() const { return static_cast<int>(hosts_.size()); }

  const std::vector<NetworkHost> hosts_;
  const NetworkWish wish_;
  const Send send_;
  TimePoint begun_;
  const std::string id_;
  const std::string secret_;
  Stage stage_ = Stage::kListen;
  int number_ = 0;  // of the step
  std::chrono::milliseconds limit_{0};
  std::vector<Answer> answers_;  // by host
  Reach reach_;
  std::vector<Network> networks_;  // that were tried
  FoundNetworks found_;
  bool transferred_twice_ = false;
  bool transferred_again_ = false;  ///< between pairs
  const Pairs wanted_pairs_;
  NetworkChoice chosen_;                          ///< while kPairs goes on
  std::map<std::pair<int, int>, double> speeds_;  ///< of pairs
  std::optional<NetworkChoice> choice_;
};

}  // namespace pfc
