// Collects the spans of all workers for one trace (docs/trace.md) until they are read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "coordinator/cluster/waiting_calls.h"
#include "coordinator/rules/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// State of the job when a trace is requested.
struct TraceWish {
  std::int64_t steps = 0;        ///< number requested
  std::int64_t step = 0;         ///< last reported step
  std::int64_t total_steps = 0;  ///< steps of the whole job
  double step_seconds = 0;       ///< seconds per step; 0: unknown
  double told_seconds = 0;       ///< seconds since the last report
};

struct TraceSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Returns steps that every worker can record completely: the first one is far enough ahead for the
/// order to arrive in time. Returns fewer steps than requested if the job ends sooner, and nothing
/// if it ends before the first one. Pure.
std::optional<TraceSteps> plan_trace(const TraceWish& wish);

/// Used on the event loop only. Holds one trace; the next one replaces it.
class TraceGatherer {
 public:
  static constexpr std::int64_t kMostSteps = 10'000;
  /// Memory for all parts, kept until kKept after the last part.
  static constexpr std::size_t kMostBytes = std::size_t{48} << 20;
  static constexpr std::size_t kMostBytesOfRank = std::size_t{2} << 20;
  static constexpr std::size_t kMostBytesOfReply = std::size_t{1} << 20;
  static constexpr std::chrono::minutes kKept{5};
  /// A worker is given up if it has not sent everything this long after the first worker has.
  static constexpr std::chrono::seconds kSlowest{30};
  static constexpr std::chrono::seconds kLongestRead{5};
  /// A trace that was not read for this long has lost its reader.
  static constexpr std::chrono::seconds kUnread{3};
  static constexpr std::size_t kMostReaders = 8;

  struct Worker {
    Rank rank = 0;
    std::string host;
    int slot = 0;
  };
  /// Begins a trace. Readers of the previous one get its parts so far. `wall` is the time of day at
  /// `now`; the trace's clock continues steadily from there, even if the time of day is changed.
  void begin(std::int64_t id, const TraceSteps& steps, const std::vector<Worker>& workers,
             TimePoint now, WallTime wall);
  [[nodiscard]] std::int64_t id() const { return id_; }  ///< 0: no trace
  [[nodiscard]] bool goes_on() const { return id_ != 0 && !is_over(); }
  /// Returns whether a reader is waiting, or has read a part recently.
  [[nodiscard]] bool is_read(TimePoint now) const;
  /// Returns the order for a worker; nothing if no data is expected from it.
  [[nodiscard]] std::optional<proto::TraceOrder> order(Rank rank) const;
  /// Steps of the trace, for messages.
  [[nodiscard]] const TraceSteps& steps() const { return steps_; }

  /// Adds a part, or only answers with the clock. Refuses parts that were not requested.
  std::variant<proto::SendTraceReply, Refusal> add(const proto::SendTraceRequest& request,
                                                   TimePoint now);
  /// Gives up a rank that has not sent everything.
  void lose(Rank rank, const std::string& why);
  /// Gives up all ranks that have not sent everything.
  void end(const std::string& why);

  /// Answers when there is an unread part, the trace is over, or the patience ends. `step`:
  /// current step of the job.
  void read(const proto::ReadTraceRequest& request, Answer<proto::ReadTraceReply> answer,
            const Patience& patience, std::int64_t step, TimePoint now);
  void expire(std::int64_t step, TimePoint now);

 private:
  struct State {
    Worker worker;
    std::size_t bytes = 0;
    bool done = false;
    std::string problem;  ///< why this worker's trace was given up; empty: it was not
    std::optional<proto::TraceSummary> summary;
  };
  struct Part {
    Rank rank = 0;
    std::string spans;
  };
  struct Reader {
    int from = 0;
    Answer<proto::ReadTraceReply> answer;
    Patience patience;
  };

  [[nodiscard]] State* find(Rank rank);
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::size_t share() const;  ///< bytes allowed per rank
  [[nodiscard]] proto::ReadTraceReply reply(const Reader& reader) const;
  void finish(State& state, const std::string& problem);
  /// Answers readers for whom there is a new part, or the end.
  void answer_readers();

  std::int64_t id_ = 0;  ///< 0: no trace
  TraceSteps steps_;
  TimePoint begun_;
  WallTime begun_wall_;
  std::int64_t step_ = 0;
  TimePoint last_read_;  ///< last answer to a reader; initially the start
  std::vector<State> ranks_;
  std::vector<Part> parts_;
  WaitingCalls<Reader> readers_;
  std::optional<TimePoint> first_done_;
  std::optional<TimePoint> over_since_;
};

}  // namespace pfc
