#include "pfcctl/trace/trace_json.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace pfc {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the meaning of a span's number.
const char* name_of_number(proto::TraceRow row) {
  if (row == proto::TRACE_ROW_PHASES) return "step";
  if (row == proto::TRACE_ROW_LOADER) return "batch";
  return "number";
}

const char* category(proto::TraceRow row) {
  switch (row) {
    case proto::TRACE_ROW_PHASES:
      return "phase";
    case proto::TRACE_ROW_COLLECTIVES:
      return "collective";
    case proto::TRACE_ROW_LOADER:
      return "loader";
    default:
      return "thread";
  }
}

std::string track_title(const CollectedTrack& track) {
  return track.row == proto::TRACE_ROW_COLLECTIVES ? "collectives: " + track.name : track.name;
}

/// Returns "2026-05-12T00:00:42.110Z".
std::string utc(std::int64_t ns) {
  const std::chrono::sys_time<std::chrono::milliseconds> time{
      std::chrono::milliseconds(ns / 1'000'000)};
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(whole), (time - whole).count());
}

class Writer {
 public:
  Writer(const CollectedTrace& trace, const std::function<void(std::string_view)>& write)
      : trace_(trace), write_(write) {
    begin_ns_ = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, each] : trace.ranks) {
      for (const CollectedSpan& span : each.spans) begin_ns_ = std::min(begin_ns_, span.begin_ns);
    }
    if (trace.spans() == 0) begin_ns_ = 0;
  }

  void all(const std::vector<MatchedCollective>& collectives) {
    for (const MatchedCollective& each : collectives) {
      for (const auto& part : each.parts) collective_of_[part.span] = {&each, &part};
    }
    text_ = R"({"displayTimeUnit":"ms","otherData":)" + dump(about()) + ",\"traceEvents\":[";
    for (const auto& [rank, each] : trace_.ranks) {
      names(rank, each);
      for (const CollectedSpan& span : each.spans) add(event(rank, each, span));
    }
    arrows(collectives);
    text_ += "\n]}\n";
    write_(text_);
  }

 private:
  /// Replaces invalid UTF-8; text from other programs has been cleaned before.
  static std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void add(const Json& json) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += dump(json);
    if (text_.size() < kPiece) return;
    write_(text_);
    text_.clear();
  }

  [[nodiscard]] double us(std::int64_t ns) const {
    return static_cast<double>(ns - begin_ns_) / 1e3;
  }
  static std::uint32_t tid(std::uint32_t track) { return track + 1; }

  [[nodiscard]] Json about() const {
    Json ranks = Json::array();
    for (const auto& [rank, each] : trace_.ranks) {
      Json told{{"rank", rank},
                {"host", each.host},
                {"slot", each.slot},
                {"device", each.summary.device()},
                {"first_step", each.summary.first_step()},
                {"last_step", each.summary.last_step()},
                {"clock_error_ms", 1e-6 * static_cast<double>(each.summary.clock_error_ns())},
                {"clock_ahead_ms", 1e-6 * static_cast<double>(each.summary.clock_ahead_ns())},
                {"dropped_events", each.summary.dropped()}};
      if (!each.problem.empty()) told["problem"] = each.problem;
      for (const std::string& note : each.summary.notes()) told["notes"].push_back(note);
      ranks.push_back(std::move(told));
    }
    return {{"program", "pfcctl trace"},
            {"job", trace_.job_id},
            {"first_step", trace_.first_step},
            {"last_step", trace_.last_step},
            {"begin", utc(begin_ns_)},
            {"clock", "the coordinator's; no time is off by more than the rank's clock_error_ms"},
            {"ranks", std::move(ranks)}};
  }

  void name(const char* what, Rank rank, std::uint32_t thread, const Json& args) {
    Json json{{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", args}};
    add(json);
  }

  void names(Rank rank, const CollectedRank& each) {
    name("process_name", rank, 0, {{"name", rank_title(rank, each)}});
    name("process_sort_index", rank, 0, {{"sort_index", rank}});
    const std::string device = each.summary.device();
    name("process_labels", rank, 0,
         {{"labels", fmt::format("{}{}clock within {:.2f} ms", device, device.empty() ? "" : ", ",
                                 1e-6 * static_cast<double>(each.summary.clock_error_ns()))}});
    for (std::uint32_t track = 0; track < each.tracks.size(); ++track) {
      name("thread_name", rank, tid(track), {{"name", track_title(each.tracks[track])}});
      const int order = 1'000 * static_cast<int>(each.tracks[track].row);
      name("thread_sort_index", rank, tid(track),
           {{"sort_index", order + static_cast<int>(track)}});
    }
  }

  [[nodiscard]] Json event(Rank rank, const CollectedRank& each, const CollectedSpan& span) const {
    const CollectedTrack& track = each.tracks[span.track];
    const bool gpu = is_gpu(track);
    Json args{{gpu ? "step" : name_of_number(track.row), span.number}};
    if (gpu && span.bytes > 0) args["bytes"] = span.bytes;
    if (track.row == proto::TRACE_ROW_COLLECTIVES) add_collective(args, span);
    return {{"ph", "X"},
            {"name", trace_.names[span.name]},
            {"cat", gpu ? "gpu" : category(track.row)},
            {"pid", rank},
            {"tid", tid(span.track)},
            {"ts", us(span.begin_ns)},
            {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1e3},
            {"args", std::move(args)}};
  }

  void add_collective(Json& args, const CollectedSpan& span) const {
    args["bytes"] = span.bytes;
    const auto found = collective_of_.find(&span);
    if (found == collective_of_.end()) return;
    const auto& [all, part] = found->second;
    if (all->sure) args["last_rank"] = all->parts[all->last].rank;
    args["waited_ms"] = 1e3 * all->waited_seconds(*part);
  }

  /// Adds arrows from the worker that came last to those that waited for it.
  void arrows(const std::vector<MatchedCollective>& collectives) {
    int id = 0;
    for (const MatchedCollective& each : collectives) {
      if (!each.sure) continue;
      const auto& last = each.parts[each.last];
      for (const auto& part : each.parts) {
        const std::int64_t at = last.span->begin_ns;
        // This worker had already left, or the clock error is too large for an arrow.
        if (part.rank == last.rank || part.span->end_ns < at) continue;
        if (each.waited_seconds(part) < kArrowSeconds) continue;
        if (++id > kMostArrows) return;
        add(arrow("s", id, last, at));
        Json head = arrow("f", id, part, at);
        head["bp"] = "e";
        add(head);
      }
    }
  }

  [[nodiscard]] Json arrow(const char* phase, int id, const MatchedCollective::Part& part,
                           std::int64_t at) const {
    return {{"ph", phase},   {"id", id},         {"name", "came last"},
            {"cat", "wait"}, {"pid", part.rank}, {"tid", tid(part.track)},
            {"ts", us(at)}};
  }

  const CollectedTrace& trace_;
  const std::function<void(std::string_view)>& write_;
  std::int64_t begin_ns_ = 0;
  std::map<const CollectedSpan*,
           std::pair<const MatchedCollective*, const MatchedCollective::Part*>>
      collective_of_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

void write_trace_json(const CollectedTrace& trace,
                      const std::vector<MatchedCollective>& collectives,
                      const std::function<void(std::string_view)>& write) {
  Writer(trace, write).all(collectives);
}

}  // namespace pfc
