#include "coordinator/rules/progress/progress_limits.h"

#include <algorithm>
#include <cmath>

#include "common/one_line.h"
#include "common/phase_buckets.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestProgressName = 64;
constexpr int kMostCommunicators = 16;   // a worker has four
constexpr int kMostKinds = 16;           // a communicator has six
constexpr int kMostReportedPhases = 64;  // a worker has two dozen

std::string short_name(const std::string& text) { return one_line(text, kLongestProgressName); }

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

void limit_kinds(proto::CommTotal& total) {
  if (total.kinds_size() > kMostKinds) {
    total.mutable_kinds()->DeleteSubrange(kMostKinds, total.kinds_size() - kMostKinds);
  }
  for (proto::CollectiveTotal& kind : *total.mutable_kinds())
    kind.set_kind(short_name(kind.kind()));
}

}  // namespace

proto::Progress limited(const proto::Progress& progress) {
  proto::Progress kept = progress;
  kept.set_phase(short_name(progress.phase()));
  kept.set_device(short_name(progress.device()));
  kept.clear_comm();
  for (int i = 0; i < std::min(progress.comm_size(), kMostCommunicators); ++i) {
    proto::CommTotal* total = kept.add_comm();
    *total = progress.comm(i);
    total->set_purpose(short_name(total->purpose()));
    total->set_newest(short_name(total->newest()));
    limit_kinds(*total);
  }
  kept.clear_phases();
  for (int i = 0; i < std::min(progress.phases_size(), kMostReportedPhases); ++i) {
    const proto::PhaseSeconds& phase = progress.phases(i);
    if (!is_time(phase.seconds()) || !is_time(phase.longest())) continue;
    proto::PhaseSeconds* added = kept.add_phases();
    *added = phase;
    added->set_phase(short_name(phase.phase()));
    if (phase.buckets_size() > static_cast<int>(kPhaseBuckets)) {
      added->mutable_buckets()->Truncate(static_cast<int>(kPhaseBuckets));
    }
  }
  return kept;
}

}  // namespace pfc
