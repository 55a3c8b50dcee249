// Gathers what all workers have recorded for one trace (docs/trace.md), until somebody has read it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "coordinator/refusal.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// What is known when somebody asks for a trace.
struct TraceWish {
  std::int64_t steps = 0;        ///< that are wanted
  std::int64_t step = 0;         ///< the last one that a worker has told of
  std::int64_t total_steps = 0;  ///< of the job
  double step_seconds = 0;       ///< of a step; 0: not known
  double told_seconds = 0;       ///< since it was told of
};

struct TraceSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Those that all workers can record from their begin on: the first lies so far ahead that every
/// worker hears of it in time. There are fewer than wanted where the job ends with them; none where
/// it ends before. Pure.
std::optional<TraceSteps> plan_trace(const TraceWish& wish);

/// Used on the event loop only. One trace at a time: the next one replaces it.
class TraceGatherer {
 public:
  static constexpr std::int64_t kMostSteps = 10'000;
  /// Of all parts together, in memory until kKept after the last one has come.
  static constexpr std::size_t kMostBytes = std::size_t{48} << 20;
  static constexpr std::size_t kMostBytesOfRank = std::size_t{2} << 20;
  static constexpr std::size_t kMostBytesOfReply = std::size_t{1} << 20;
  static constexpr std::chrono::minutes kKept{5};
  /// A worker that has not sent all of it so long after the first that has is not waited for.
  static constexpr std::chrono::seconds kSlowest{30};
  static constexpr std::chrono::seconds kLongestRead{5};
  /// A trace of which nobody has asked for so long has lost its reader.
  static constexpr std::chrono::seconds kUnread{3};
  static constexpr std::size_t kMostReaders = 8;

  struct Worker {
    Rank rank = 0;
    std::string host;
    int slot = 0;
  };
  /// Waiting readers of the trace before get what there is of it. `wall` is the time of day at
  /// `now`: the trace's clock goes on evenly from there, also where the time of day is set.
  void begin(std::int64_t id, const TraceSteps& steps, const std::vector<Worker>& workers,
             TimePoint now, WallTime wall);
  [[nodiscard]] std::int64_t id() const { return id_; }  ///< 0: there is none
  [[nodiscard]] bool goes_on() const { return id_ != 0 && !is_over(); }
  /// Somebody waits for it, or has only just got a part of it and will ask for the next.
  [[nodiscard]] bool is_read(TimePoint now) const;
  /// What a worker is told; absent where nothing is expected of it.
  [[nodiscard]] std::optional<proto::TraceOrder> order(Rank rank) const;
  /// Of the trace, for messages.
  [[nodiscard]] const TraceSteps& steps() const { return steps_; }

  /// A part, or a question for the clock. What nobody has asked for is refused.
  std::variant<proto::SendTraceReply, Refusal> add(const proto::SendTraceRequest& request,
                                                   TimePoint now);
  /// Nothing more comes from this rank. Does nothing where all of it has come.
  void lose(Rank rank, const std::string& why);
  /// Nor from any other.
  void end(const std::string& why);

  /// Answers when there is a part that was not read, or all is over, or the patience ends. `step`:
  /// that the job is at.
  void read(const proto::ReadTraceRequest& request, Answer<proto::ReadTraceReply> answer,
            const Patience& patience, std::int64_t step, TimePoint now);
  void expire(std::int64_t step, TimePoint now);

 private:
  struct State {
    Worker worker;
    std::size_t bytes = 0;
    bool done = false;
    std::string problem;  ///< why it is done before all has come
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
  [[nodiscard]] std::size_t share() const;  ///< bytes that each rank may send
  [[nodiscard]] proto::ReadTraceReply reply(int from, std::int64_t step) const;
  void finish(State& state, const std::string& problem);
  /// Those for whom there is something.
  void answer_readers();
  void answer_readers_if(const std::function<bool(const Reader&)>& has);

  std::int64_t id_ = 0;  ///< 0: there is none
  TraceSteps steps_;
  TimePoint begun_;
  WallTime begun_wall_;
  std::int64_t step_ = 0;
  TimePoint last_read_;  ///< when a reader was last told something; before that, when it began
  std::vector<State> ranks_;
  std::vector<Part> parts_;
  std::vector<Reader> readers_;
  std::optional<TimePoint> first_done_;
  std::optional<TimePoint> over_since_;
};

}  // namespace pfc
