#include "pfcctl/chaos/recovery.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "pfcctl/chaos/schedule.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

bool ends_a_worker(proto::FaultKind kind) {
  return kind == proto::FAULT_KILL_WORKER || kind == proto::FAULT_KILL_AGENT;
}

bool has_gone_on(const DoneFault& fault, const JobView& last, const JobView& view) {
  if (view.generation != fault.before.generation) return view.trains && view.has_stepped;
  if (ends_a_worker(fault.kind) && fault.before.trains) return false;
  const bool is_over = last.at >= fault.before.at + fault.lasts;
  const bool steps = view.trains && view.has_stepped && last.generation == view.generation &&
                     view.images_seen > last.images_seen;
  return is_over && steps;
}

template <typename... Values>
std::string recovery_text(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

double in_seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

/// Returns "3.2 s", or "-" if the list is empty.
std::string quantile_text(const std::vector<milliseconds>& sorted, double part) {
  if (sorted.empty()) return "-";
  const auto last = static_cast<double>(sorted.size() - 1);
  return recovery_text("%.1f s", in_seconds(sorted[static_cast<std::size_t>(last * part)]));
}

}  // namespace

JobView view_of(const proto::StatusReply& status, milliseconds at) {
  JobView view{.at = at,
               .generation = status.generation(),
               .trains = status.state() == "training",
               .images_seen = status.images_seen(),
               .images_lost = status.images_lost()};
  if (status.workers().empty()) return view;
  const proto::Progress& lead = status.workers(0).progress();
  view.has_stepped = lead.images_seen() > lead.resumed_images();
  return view;
}

std::vector<const DoneFault*> Recovery::see(const JobView& view) {
  std::vector<const DoneFault*> gone_on;
  for (DoneFault& fault : faults_) {
    if (fault.took || !last_ || !has_gone_on(fault, *last_, view)) continue;
    fault.took = view.at - fault.before.at;
    gone_on.push_back(&fault);
  }
  last_ = view;
  return gone_on;
}

std::optional<milliseconds> Recovery::waits_since() const {
  std::optional<milliseconds> oldest;
  for (const DoneFault& fault : faults_) {
    if (!fault.took && (!oldest || fault.before.at < *oldest)) oldest = fault.before.at;
  }
  return oldest;
}

std::string summary(const std::vector<DoneFault>& faults, const ChaosResult& result) {
  struct Kind {
    int done = 0;
    std::vector<milliseconds> took;
  };
  std::map<proto::FaultKind, Kind> kinds;
  for (const DoneFault& fault : faults) {
    Kind& kind = kinds[fault.kind];
    kind.done += 1;
    if (fault.took) kind.took.push_back(*fault.took);
  }
  std::string text =
      recovery_text("%-12s %7s %8s %9s %9s\n", "fault", "count", "resumed", "median", "worst");
  for (auto& [kind, of_kind] : kinds) {
    std::ranges::sort(of_kind.took);
    text += recovery_text("%-12s %7d %8zu %9s %9s\n", name_of(kind).c_str(), of_kind.done,
                          of_kind.took.size(), quantile_text(of_kind.took, 0.5).c_str(),
                          quantile_text(of_kind.took, 1).c_str());
  }
  if (result.refused > 0) text += recovery_text("%d more were not injected\n", result.refused);
  const std::int64_t lost = result.end.images_lost - result.begin.images_lost;
  text += recovery_text("images lost: %lld", static_cast<long long>(lost));
  if (!faults.empty()) {
    text += recovery_text(", %.1f a fault",
                          static_cast<double>(lost) / static_cast<double>(faults.size()));
  }
  const double seconds = in_seconds(result.end.at - result.begin.at);
  if (seconds <= 0) return text + "\n";
  const double rate =
      static_cast<double>(result.end.images_seen - result.begin.images_seen) / seconds;
  text += recovery_text("\ngoodput: %.1f images/s that count, over %.0f s", rate, seconds);
  if (result.rate_before > 0) {
    text += recovery_text("; %.1f %% of the %.1f before the first fault",
                          100 * rate / result.rate_before, result.rate_before);
  }
  return text + "\n";
}

}  // namespace pfc
