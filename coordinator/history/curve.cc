#include "coordinator/history/curve.h"

#include <algorithm>
#include <cmath>

namespace pfc {
namespace {

/// Merges means over `of_a` and `of_b` reports. A NaN has no weight.
CurveValue merged(const CurveValue& a, std::int64_t of_a, const CurveValue& b, std::int64_t of_b) {
  if (!std::isfinite(a.mean)) return b;
  if (!std::isfinite(b.mean)) return a;
  const double part = static_cast<double>(of_a) / static_cast<double>(of_a + of_b);
  return {.mean = a.mean * part + b.mean * (1 - part),
          .least = std::min(a.least, b.least),
          .most = std::max(a.most, b.most)};
}

CurvePoint merged(const CurvePoint& earlier, const CurvePoint& later) {
  return {.ms = later.ms,
          .step = later.step,
          .generation = later.generation,
          .reports = earlier.reports + later.reports,
          .loss = merged(earlier.loss, earlier.reports, later.loss, later.reports),
          .samples_per_second = merged(earlier.samples_per_second, earlier.reports,
                                       later.samples_per_second, later.reports)};
}

}  // namespace

void Curve::add(const CurvePoint& report) {
  if (!points_.empty() && points_.back().reports < reports_a_point_) {
    points_.back() = merged(points_.back(), report);
    return;
  }
  if (points_.size() == kMost) halve();
  points_.push_back(report);
}

void Curve::halve() {
  for (std::size_t i = 0; 2 * i + 1 < points_.size(); ++i) {
    points_[i] = merged(points_[2 * i], points_[2 * i + 1]);
  }
  points_.resize(points_.size() / 2);
  reports_a_point_ *= 2;
  ++version_;
}

void Curve::clear(std::int64_t begun_ms) {
  points_.clear();
  reports_a_point_ = 1;
  begun_ms_ = begun_ms;
  ++version_;
}

}  // namespace pfc
