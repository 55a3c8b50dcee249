// The part of an agent in the measurement of the network between the hosts (docs/network.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/network/network_tests.h"
#include "agent/network/probe_listener.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Used on one thread, apart from the report. It listens from the first step of a measurement to
/// its end or to the begin of another one, and at most as long as a ProbeListener does.
class NetworkProbe {
 public:
  /// Takes a step's report, on any thread.
  using Report = std::function<void(const proto::NetworkReport&)>;

  explicit NetworkProbe(Report report) : report_(std::move(report)) {}

  /// Does what the coordinator asks for. A step that is under way already goes on; one that has
  /// been reported is reported again.
  void step(const proto::NetworkStep& step);
  /// Stops to listen. No report comes afterwards.
  void end();

 private:
  void begin(const proto::NetworkStep& step);

  struct Reported;
  const Report report_;
  std::string measurement_;             // that is under way; empty: none is
  int number_ = 0;                      // of its last step
  std::shared_ptr<Reported> reported_;  // shared with the thread of the tests
  std::unique_ptr<ProbeListener> listener_;
  std::unique_ptr<NetworkTests> tests_;
};

}  // namespace pfc
