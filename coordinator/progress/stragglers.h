// Which ranks make the others wait step after step, from how long each one's own work takes.
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

/// Of one generation.
class Stragglers {
 public:
  static constexpr std::size_t kReports = 20;    ///< over which a rank is judged
  static constexpr double kBegins = 1.5;         ///< times the median of the others
  static constexpr double kEnds = 1.2;           ///< it is no longer slow below that
  static constexpr double kLeastSeconds = 0.01;  ///< a step; less is not worth a word

  /// Of a worker that has told `now`, and `before` it `before`. Nothing where no step lies between.
  void add(Rank rank, const proto::Progress& before, const proto::Progress& now);

  struct Change {
    Rank rank = 0;
    bool begins = false;
    double own_seconds = 0;     ///< of a step
    double others_seconds = 0;  ///< median of the others'
  };
  /// What has changed since the last call. A rank is slow when its own time of a step, the median
  /// of its last kReports reports, is kBegins times the median of the other ranks' and
  /// kLeastSeconds more.
  std::vector<Change> update();

  /// How many times as long as the others' its own work takes; 0: it is not slow.
  [[nodiscard]] double slowness(Rank rank) const;
  /// Of a step, the median; 0: it has not told enough yet.
  [[nodiscard]] double own_seconds(Rank rank) const;

 private:
  struct Own {
    std::deque<double> last;  ///< seconds of a step
    double median = 0;        ///< 0: there are too few
    double slowness = 0;
  };
  std::map<Rank, Own> ranks_;
  bool changed_ = false;
};

/// "its own work takes 0.40 s a step, 2.1 times as long as the other ranks' (0.19 s)" or that it
/// does no longer.
std::string to_text(const Stragglers::Change& change);

}  // namespace pfc
