#include "coordinator/traces/trace_gatherer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/one_line.h"

namespace pfc {
namespace {

// Time for the order to reach every worker, and for the worker to allocate memory.
constexpr double kLeadSeconds = 0.5;
// A span has 20 bytes on average; this is enough for any likely trace.
constexpr std::size_t kBytesOfSpan = 30;
constexpr std::size_t kMostBytesOfPart = std::size_t{256} << 10;
constexpr std::size_t kLongestTraceText = 400;
constexpr int kMostNotes = 8;

proto::TraceSummary limited_summary(proto::TraceSummary summary) {
  summary.set_device(one_line(summary.device(), 64));
  if (summary.notes_size() > kMostNotes) {
    summary.mutable_notes()->DeleteSubrange(kMostNotes, summary.notes_size() - kMostNotes);
  }
  for (std::string& note : *summary.mutable_notes()) note = one_line(note, kLongestTraceText);
  return summary;
}

Refusal not_wanted(std::int64_t id) {
  // Not kOldGeneration, which would mean for the worker that its generation has ended.
  return {.kind = Refusal::Kind::kInvalid,
          .message = "trace " + std::to_string(id) + " is no longer expected from this worker"};
}

}  // namespace

std::optional<TraceSteps> plan_trace(const TraceWish& wish) {
  const double seconds = wish.step_seconds > 0 ? wish.step_seconds : 1;
  const double ahead = (std::max(wish.told_seconds, 0.0) + kLeadSeconds) / seconds;
  // The step after the reported one may have begun.
  const std::int64_t first = wish.step + 2 + std::llround(std::ceil(std::min(ahead, 1e9)));
  if (first > wish.total_steps || wish.steps <= 0) return {};
  return TraceSteps{.first = first, .last = std::min(first + wish.steps - 1, wish.total_steps)};
}

void TraceGatherer::begin(std::int64_t id, const TraceSteps& steps,
                          const std::vector<Worker>& workers, TimePoint now, WallTime wall) {
  end("another trace has begun");
  id_ = id;
  steps_ = steps;
  begun_ = now;
  begun_wall_ = wall;
  last_read_ = now;
  ranks_.clear();
  for (const Worker& worker : workers) ranks_.push_back({.worker = worker});
  parts_.clear();
  first_done_.reset();
  over_since_.reset();
}

TraceGatherer::State* TraceGatherer::find(Rank rank) {
  const auto found =
      std::ranges::find_if(ranks_, [&](const State& s) { return s.worker.rank == rank; });
  return found == ranks_.end() ? nullptr : &*found;
}

bool TraceGatherer::is_read(TimePoint now) const {
  return readers_.size() > 0 || now - last_read_ < kUnread;
}

bool TraceGatherer::is_over() const { return std::ranges::all_of(ranks_, &State::done); }

std::size_t TraceGatherer::share() const {
  return std::min(kMostBytesOfRank, kMostBytes / std::max<std::size_t>(ranks_.size(), 1));
}

std::optional<proto::TraceOrder> TraceGatherer::order(Rank rank) const {
  const auto found = std::ranges::find_if(
      ranks_, [&](const State& s) { return s.worker.rank == rank && !s.done; });
  if (id_ == 0 || found == ranks_.end()) return {};
  proto::TraceOrder order;
  order.set_trace(id_);
  order.set_first_step(steps_.first);
  order.set_last_step(steps_.last);
  order.set_most_spans(static_cast<std::int64_t>(share() / kBytesOfSpan));
  return order;
}

std::variant<proto::SendTraceReply, Refusal> TraceGatherer::add(
    const proto::SendTraceRequest& request, TimePoint now) {
  State* const state = find(request.rank());
  if (id_ == 0 || request.trace() != id_ || state == nullptr || state->done) {
    return not_wanted(request.trace());
  }
  const std::size_t bytes = request.spans().size();
  if (bytes > kMostBytesOfPart || state->bytes + bytes > share()) {
    finish(*state, "it has sent more than its share of " + std::to_string(share() >> 10) + " KiB");
    return not_wanted(request.trace());
  }
  state->bytes += bytes;
  if (bytes > 0) parts_.push_back({.rank = request.rank(), .spans = request.spans()});
  if (request.has_last()) {
    state->summary = limited_summary(request.last());
    if (!first_done_) first_done_ = now;
    finish(*state, "");
  }
  answer_readers();
  const auto wall = begun_wall_ + std::chrono::duration_cast<WallTime::duration>(now - begun_);
  proto::SendTraceReply reply;
  reply.set_clock_ns(
      std::chrono::duration_cast<std::chrono::nanoseconds>(wall.time_since_epoch()).count());
  return reply;
}

void TraceGatherer::finish(State& state, const std::string& problem) {
  state.done = true;
  state.problem = problem;
}

void TraceGatherer::lose(Rank rank, const std::string& why) {
  State* const state = find(rank);
  if (state == nullptr || state->done) return;
  finish(*state, one_line(why, kLongestTraceText));
  answer_readers();
}

void TraceGatherer::end(const std::string& why) {
  for (State& state : ranks_) {
    if (!state.done) finish(state, one_line(why, kLongestTraceText));
  }
  answer_readers();
}

proto::ReadTraceReply TraceGatherer::reply(const Reader& reader) const {
  proto::ReadTraceReply reply;
  reply.set_step(step_);
  std::size_t bytes = 0;
  auto next = static_cast<std::size_t>(reader.from);
  for (; next < parts_.size() && bytes < kMostBytesOfReply; ++next) {
    proto::TraceChunk* const chunk = reply.add_parts();
    chunk->set_rank(parts_[next].rank);
    chunk->set_spans(parts_[next].spans);
    bytes += parts_[next].spans.size();
  }
  reply.set_over(is_over() && next >= parts_.size());
  for (const State& state : ranks_) {
    if (!state.done) reply.add_missing(state.worker.rank);
    if (!reply.over()) continue;
    proto::RankTrace* const rank = reply.add_ranks();
    rank->set_rank(state.worker.rank);
    rank->set_host(state.worker.host);
    rank->set_slot(state.worker.slot);
    rank->set_problem(state.problem);
    if (state.summary) *rank->mutable_summary() = *state.summary;
  }
  return reply;
}

void TraceGatherer::read(const proto::ReadTraceRequest& request,
                         Answer<proto::ReadTraceReply> answer, const Patience& patience,
                         std::int64_t step, TimePoint now) {
  if (id_ == 0 || request.trace() != id_ || request.from() < 0) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "there is no trace " + std::to_string(request.trace()) +
                                     ": the coordinator keeps the last trace for " +
                                     std::to_string(kKept.count()) +
                                     " minutes, and no trace of an earlier coordinator"});
  }
  if (readers_.size() >= kMostReaders) {
    return answer(Refusal{.kind = Refusal::Kind::kOldGeneration,
                          .message = std::to_string(kMostReaders) +
                                     " other readers are reading the trace; "
                                     "try again"});
  }
  step_ = step;
  last_read_ = now;
  readers_.add({.from = request.from(),
                .answer = std::move(answer),
                .patience = patience.until(now + kLongestRead)});
  answer_readers();
}

void TraceGatherer::answer_readers() {
  readers_.answer_if(
      [this](const Reader& reader) {
        return is_over() || static_cast<std::size_t>(reader.from) < parts_.size();
      },
      [this](const Reader& reader) { return reply(reader); });
}

void TraceGatherer::expire(std::int64_t step, TimePoint now) {
  if (id_ == 0) return;
  step_ = step;
  if (first_done_ && now - *first_done_ >= kSlowest) {
    end("it has not sent its whole trace " + std::to_string(kSlowest.count()) +
        " s after the first worker had sent its own");
  }
  if (readers_.size() > 0) last_read_ = now;
  readers_.expire(now, [this](const Reader& reader) { return reply(reader); });
  if (!is_over()) return;
  if (!over_since_) over_since_ = now;
  if (now - *over_since_ < kKept) return;
  id_ = 0;
  ranks_.clear();
  std::exchange(parts_, {});
}

}  // namespace pfc
