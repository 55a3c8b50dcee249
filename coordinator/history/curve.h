// Loss and speed of a job over its whole duration, in a bounded number of points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace pfc {

/// Mean and range of a value over the reports of a point. Ignores non-finite values. NaN if all
/// values are non-finite.
struct CurveValue {
  double mean = 0;
  double least = 0;
  double most = 0;
};

/// A point of the curve: consecutive steps of a job.
struct CurvePoint {
  std::int64_t ms = 0;    ///< time of the last step, since 1970, the coordinator's clock
  std::int64_t step = 0;  ///< last step
  Generation generation = 0;
  std::int64_t reports = 0;  ///< number of merged reports of rank 0
  CurveValue loss;
  CurveValue samples_per_second;  ///< total of all workers
};

/// Has at most kMost points. When full, neighbouring points are merged in pairs, and new points
/// take twice as many reports. So the curve has the same shape for a week as for a minute, and
/// keeps all peaks.
class Curve {
 public:
  static constexpr std::size_t kMost = 2'000;

  /// Adds a report of rank 0.
  void add(const CurvePoint& report);
  void clear(std::int64_t begun_ms);

  [[nodiscard]] const std::vector<CurvePoint>& points() const { return points_; }
  /// Start time, milliseconds since 1970.
  [[nodiscard]] std::int64_t begun_ms() const { return begun_ms_; }
  /// Version number. Increases when points other than the last one have changed.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void halve();

  std::vector<CurvePoint> points_;
  std::int64_t reports_a_point_ = 1;
  std::int64_t begun_ms_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace pfc
