// Detects slow ranks, from the time that each one's own work takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Finds the stragglers of one generation.
class Stragglers {
 public:
  static constexpr std::size_t kReports = 20;    ///< reports in the median of a rank
  static constexpr double kBegins = 1.5;         ///< slow from this multiple of the others' median
  static constexpr double kEnds = 1.2;           ///< no longer slow below this multiple
  static constexpr double kLeastSeconds = 0.01;  ///< minimum difference per step

  /// Adds a worker's report `now`; `before` is the previous one. Ignored if no step lies between.
  void add(Rank rank, const proto::Progress& before, const proto::Progress& now);

  struct Change {
    Rank rank = 0;
    bool begins = false;
    double own_seconds = 0;     ///< per step
    double others_seconds = 0;  ///< median of the other ranks
  };
  /// Returns the changes since the last call. A rank becomes slow when its time per step, the
  /// median of its last kReports reports, is kBegins times the other ranks' median and
  /// kLeastSeconds more.
  std::vector<Change> update();

  /// Returns the rank's time per step, divided by the other ranks' median; 0: not slow.
  [[nodiscard]] double slowness(Rank rank) const;
  /// Returns the rank's median time per step; 0: too few reports.
  [[nodiscard]] double own_seconds(Rank rank) const;

 private:
  struct Own {
    std::deque<double> last;  ///< seconds per step
    double median = 0;        ///< 0: too few reports
    double slowness = 0;
  };
  std::map<Rank, Own> ranks_;
  bool changed_ = false;
};

/// Returns "is slow: its own work takes 0.40 s a step, 2.1 times as long as ..." when a rank
/// becomes slow, and "is no longer slow: ..." when that ends.
std::string to_text(const Stragglers::Change& change);

}  // namespace pfc
