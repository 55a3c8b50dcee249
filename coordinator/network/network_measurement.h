// Measures which networks connect all hosts, and how fast they are (docs/network.md).
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

/// One measurement. First every agent listens. Then agents connect to each other over the
/// candidate networks; if none reaches all hosts, they try all addresses. Then they measure the
/// speed of the usable networks, twice if no data arrive. The next step begins when every agent
/// has replied. Used on the event loop only; does not read a clock.
class NetworkMeasurement {
 public:
  /// Total timeout. The error names the hosts that did not reply.
  static constexpr std::chrono::milliseconds kLimit{10'000};
  static constexpr std::chrono::milliseconds kConnectLimit{2'500};   ///< limit of a connection step
  static constexpr std::chrono::milliseconds kTransferSlot{120};     ///< duration of one round
  static constexpr std::chrono::milliseconds kTransferLimit{2'600};  ///< limit of the last round
  static constexpr std::size_t kMostMeasured = 4;                    ///< most networks to measure

  /// A check also measures all pairs of hosts over the chosen network: at most this many to and
  /// from each host.
  static constexpr int kMostPairs = 15;
  /// Time to measure all pairs, in addition to kLimit.
  static constexpr std::chrono::milliseconds kPairsLimit{10'000};
  enum class Pairs { kSome, kAll };

  using Send = std::function<void(int host, const proto::NetworkStep&)>;

  /// Sends the first step. REQUIRES: at least two hosts, each with an address.
  NetworkMeasurement(std::vector<NetworkHost> hosts, NetworkWish wish, Send send, TimePoint now,
                     Pairs pairs = Pairs::kSome);

  /// Adds the reply of a host's agent.
  void said(int host, const proto::NetworkReport& report);
  /// Sends the last step again, because the agent has reconnected and may have missed it.
  void repeat(int host);
  /// Extends the deadline.
  void postpone(Clock::duration gap);
  /// Ends the measurement at its deadline.
  void expire(TimePoint now);

  /// The hosts when the measurement began. A host may have registered other addresses since.
  [[nodiscard]] const std::vector<NetworkHost>& hosts() const { return hosts_; }
  /// Result; empty while running. Without addresses, the text is the problem.
  [[nodiscard]] const std::optional<NetworkChoice>& choice() const { return choice_; }
  /// Returns the pairs of hosts: with speeds over the chosen network if all pairs were measured,
  /// otherwise with the errors of failed connections.
  [[nodiscard]] std::vector<proto::CheckPair> pairs() const;

 private:
  struct Test {
    Connection connection;
    std::size_t network = 0;  ///< index into found_.usable; transfers only
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
  [[nodiscard]] bool data_arrive() const;  ///< over at least one network
  void end(NetworkChoice choice);
  [[nodiscard]] int host_count() const { return static_cast<int>(hosts_.size()); }

  const std::vector<NetworkHost> hosts_;
  const NetworkWish wish_;
  const Send send_;
  TimePoint begun_;
  const std::string id_;
  const std::string secret_;
  Stage stage_ = Stage::kListen;
  int number_ = 0;  // sequence number of the current step
  std::chrono::milliseconds limit_{0};
  std::vector<Answer> answers_;  // by host
  Reach reach_;
  std::vector<Network> networks_;  // tried so far
  FoundNetworks found_;
  bool transferred_twice_ = false;
  bool transferred_again_ = false;  ///< Stage::kPairs was repeated
  const Pairs wanted_pairs_;
  NetworkChoice chosen_;                          ///< set during kPairs
  std::map<std::pair<int, int>, double> speeds_;  ///< by pair of hosts
  std::optional<NetworkChoice> choice_;
};

}  // namespace pfc
