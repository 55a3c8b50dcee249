// Traces of the running job: orders its workers to record steps, and passes on their spans
// (docs/trace.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/cluster/cluster.h"
#include "coordinator/traces/trace_gatherer.h"

namespace pfc {

/// Used on the event loop only.
class Traces {
 public:
  explicit Traces(Cluster& cluster) : cluster_(cluster) {}

  /// Orders the workers of the running job to record some steps.
  void start(const proto::StartTraceRequest& request, const Answer<proto::StartTraceReply>& answer);
  void read(const proto::ReadTraceRequest& request, Answer<proto::ReadTraceReply> answer,
            const Patience& patience);
  void send(const proto::SendTraceRequest& request, const Answer<proto::SendTraceReply>& answer);

  /// Returns the order for a worker that has connected; nothing if no data is expected from it.
  [[nodiscard]] std::optional<proto::TraceOrder> order(Rank rank) const {
    return gatherer_.order(rank);
  }
  /// Gives up the workers that have ended, and answers readers at their deadline.
  void expire(TimePoint now);
  /// Gives up all workers that have not sent everything.
  void end(const std::string& why) { gatherer_.end(why); }

 private:
  void begin(const TraceSteps& steps, TimePoint now);
  [[nodiscard]] std::int64_t step_for_readers() const;

  Cluster& cluster_;
  TraceGatherer gatherer_;
};

}  // namespace pfc
