#include "coordinator/report/progress_limits.h"

#include <algorithm>
#include <cmath>

#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr int kMostCommunicators = 16;  // a worker has four
constexpr int kMostKinds = 16;          // a communicator has six
constexpr int kMostSamples =
    2 * 4'096;  // a worker keeps at most 4096, and adds those of its last step

std::string name(const std::string& text) { return one_line(text, kLongestName); }

void limit_kinds(proto::CommTotal& total) {
  if (total.kinds_size() > kMostKinds) {
    total.mutable_kinds()->DeleteSubrange(kMostKinds, total.kinds_size() - kMostKinds);
  }
  for (proto::CollectiveTotal& kind : *total.mutable_kinds()) kind.set_kind(name(kind.kind()));
}

}  // namespace

proto::Progress limited(const proto::Progress& progress) {
  proto::Progress kept = progress;
  kept.set_phase(name(progress.phase()));
  kept.set_device(name(progress.device()));
  kept.clear_comm();
  for (int i = 0; i < std::min(progress.comm_size(), kMostCommunicators); ++i) {
    proto::CommTotal* total = kept.add_comm();
    *total = progress.comm(i);
    total->set_purpose(name(total->purpose()));
    total->set_newest(name(total->newest()));
    limit_kinds(*total);
  }
  kept.clear_phases();
  for (int i = 0; i < std::min(progress.phases_size(), kMostSamples); ++i) {
    const proto::PhaseSeconds& sample = progress.phases(i);
    if (!std::isfinite(sample.seconds()) || sample.seconds() < 0) continue;
    proto::PhaseSeconds* added = kept.add_phases();
    added->set_phase(name(sample.phase()));
    added->set_seconds(sample.seconds());
  }
  return kept;
}

}  // namespace pfc
