#include "pfcctl/trace/collected_trace.h"

#include <algorithm>

#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostTracks = 1'024;  // per rank, which has about ten
constexpr std::size_t kMostNames = 65'536;

std::uint32_t track_index(CollectedRank& rank, const proto::TraceTrack& track) {
  const CollectedTrack wanted{track.row(), one_line(track.name(), kLongestName)};
  const auto found = std::ranges::find(rank.tracks, wanted);
  const auto place = static_cast<std::uint32_t>(found - rank.tracks.begin());
  if (found == rank.tracks.end()) rank.tracks.push_back(wanted);
  return place;
}

}  // namespace

std::int64_t CollectedRank::steps() const {
  if (summary.first_step() <= 0 || summary.last_step() < summary.first_step()) return 0;
  return summary.last_step() - summary.first_step() + 1;
}

std::size_t CollectedTrace::spans() const {
  std::size_t all = 0;
  for (const auto& [rank, collected] : ranks) all += collected.spans.size();
  return all;
}

bool CollectedTrace::complete() const {
  return std::ranges::all_of(ranks, [](const auto& each) { return each.second.problem.empty(); });
}

std::string rank_title(Rank rank, const CollectedRank& collected) {
  std::string title = "rank " + std::to_string(rank);
  if (collected.host.empty()) return title;
  return title + " (" + collected.host + ", slot " + std::to_string(collected.slot) + ")";
}

TraceCollector::TraceCollector(const proto::StartTraceReply& begun) : workers_(begun.workers()) {
  trace_.job_id = one_line(begun.job_id(), kLongestName);
  trace_.first_step = begun.first_step();
  trace_.last_step = begun.last_step();
}

std::uint32_t TraceCollector::name_of(const std::string& name) {
  if (names_.size() >= kMostNames) return 0;
  const auto [found, is_new] = names_.try_emplace(one_line(name, kLongestName),
                                                  static_cast<std::uint32_t>(trace_.names.size()));
  if (is_new) trace_.names.push_back(found->first);
  return found->second;
}

void TraceCollector::add(const proto::TraceChunk& part) {
  CollectedRank& rank = trace_.ranks[part.rank()];
  proto::TraceSpans sent;
  if (!sent.ParseFromString(part.spans()) || sent.tracks_size() > static_cast<int>(kMostTracks)) {
    rank.problem = "a part of it is malformed";
    return;
  }
  std::vector<std::uint32_t> tracks, names;
  for (const proto::TraceTrack& track : sent.tracks()) tracks.push_back(track_index(rank, track));
  for (const std::string& name : sent.names()) names.push_back(name_of(name));
  rank.spans.reserve(rank.spans.size() + static_cast<std::size_t>(sent.spans_size()));
  for (const proto::TraceSpan& span : sent.spans()) {
    if (span.track() >= tracks.size() || span.name() >= names.size()) {
      rank.problem = "a part of it is malformed";
      return;
    }
    const std::int64_t begin = sent.base_ns() + span.begin_ns();
    rank.spans.push_back({.track = tracks[span.track()],
                          .name = names[span.name()],
                          .begin_ns = begin,
                          .end_ns = begin + std::max<std::int64_t>(span.duration_ns(), 0),
                          .number = span.number(),
                          .bytes = span.bytes()});
  }
}

void TraceCollector::add(const proto::RankTrace& rank) {
  CollectedRank& collected = trace_.ranks[rank.rank()];
  collected.host = one_line(rank.host(), kLongestName);
  collected.slot = rank.slot();
  if (collected.problem.empty()) collected.problem = one_line(rank.problem(), 400);
  collected.summary = rank.summary();
  told_[rank.rank()] = true;
}

void TraceCollector::end_early(const std::string& why) {
  for (Rank rank = 0; rank < workers_; ++rank) {
    if (!told_.contains(rank)) trace_.ranks[rank].problem = one_line(why, 400);
  }
}

}  // namespace pfc
