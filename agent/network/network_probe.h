// The agent's part of the network measurement (docs/network.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/network/network_tests.h"
#include "agent/network/probe_listener.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on one thread, except for reports. Listens from the first step of a measurement until its
/// end or the start of another, but no longer than ProbeListener::kOpen.
class NetworkProbe {
 public:
  /// Receives a step's report, on any thread.
  using Report = std::function<void(const proto::NetworkReport&)>;

  explicit NetworkProbe(Report report) : report_(std::move(report)) {}

  /// Executes a step. If the step is already running, does nothing. If it is finished, sends its
  /// report again.
  void step(const proto::NetworkStep& step);
  /// Stops listening. No report follows.
  void end();

 private:
  void begin(const proto::NetworkStep& step);

  struct Reported;
  const Report report_;
  std::string measurement_;             // current measurement; empty: none
  int number_ = 0;                      // number of the last step
  std::shared_ptr<Reported> reported_;  // shared with the test thread
  std::unique_ptr<ProbeListener> listener_;
  std::unique_ptr<NetworkTests> tests_;
};

}  // namespace pfc
