// Chooses the addresses at which the hosts' workers reach each other (docs/network.md).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster.h"
#include "coordinator/network/network_measurement.h"

namespace pfc {

/// Runs the network measurements, and stores their results in the cluster's state. Used on the
/// event loop only.
class NetworkWatch {
 public:
  /// `pairs` is called with the measured pairs after a measurement during a check.
  NetworkWatch(Cluster& cluster, std::function<void(std::vector<proto::CheckPair>)> pairs)
      : cluster_(cluster), pairs_(std::move(pairs)) {}

  /// Begins a measurement between the hosts of NetworkState::agents.
  void measure();
  /// Forgets all measurements.
  void clear();
  void said(const std::string& host, const proto::NetworkReport& report);
  /// Sends the last step to the host again, because its agent has reconnected.
  void repeat(const std::string& host);
  void postpone(Clock::duration gap);
  /// Applies the result of the measurement, when there is one.
  void update();
  /// Sets the address of this machine, whose agent connects through the loopback interface, which
  /// peers cannot reach.
  void set_local_address();

 private:
  /// Returns the host's index in the last measurement; nothing if it took no part.
  [[nodiscard]] std::optional<int> measured_number(const std::string& host) const;

  Cluster& cluster_;
  const std::function<void(std::vector<proto::CheckPair>)> pairs_;
  std::optional<NetworkMeasurement> measurement_;  ///< current one; empty: none
  std::vector<std::size_t> measured_;              ///< its hosts, by index in ClusterState::hosts
};

}  // namespace pfc
