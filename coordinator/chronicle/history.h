// How loss and speed of a job have gone, from its begin until now, in a bounded number of points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace pfc {

/// The mean of a value over the steps of a point, and its range. A loss that is not finite counts
/// in none of them; a point that has no other is NaN.
struct CurveValue {
  double mean = 0;
  double least = 0;
  double most = 0;
};

/// Neighbouring steps of a job.
struct CurvePoint {
  std::int64_t ms = 0;    ///< of the last of them, since 1970, by the coordinator's clock
  std::int64_t step = 0;  ///< likewise
  Generation generation = 0;
  std::int64_t reports = 0;  ///< of rank 0 that it is made of
  CurveValue loss;
  CurveValue samples_per_second;  ///< of all workers
};

/// Has at most kMost points. When they are full each two neighbours become one, and from then on a
/// point takes twice as many reports: so a job of a week has the same shape as one of a minute, and
/// no peak is lost.
class History {
 public:
  static constexpr std::size_t kMost = 2'000;

  /// A report of rank 0.
  void add(const CurvePoint& report);
  void clear(std::int64_t begun_ms);

  [[nodiscard]] const std::vector<CurvePoint>& points() const { return points_; }
  /// When it began, in milliseconds since 1970.
  [[nodiscard]] std::int64_t begun_ms() const { return begun_ms_; }
  /// Grows whenever points that were there have changed, apart from the last one.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void halve();

  std::vector<CurvePoint> points_;
  std::int64_t reports_a_point_ = 1;
  std::int64_t begun_ms_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace pfc
