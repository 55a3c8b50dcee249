// Time that each worker spent in each phase of its recent steps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Covers the current generation. A rank's sums are halved when they reach kWindow seconds, so
/// they cover about the last 20 s, or the last step if that is longer.
class PhaseTimes {
 public:
  static constexpr double kWindow = 20;          ///< seconds
  static constexpr std::size_t kMostNames = 24;  ///< further phases are counted as "other"

  /// Adds a worker's report; `before` is the previous one.
  void add(Rank rank, const proto::Progress& before, const proto::Progress& report);
  void clear();

  /// Names in order of first appearance.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::size_t ranks() const { return ranks_.size(); }
  /// Returns seconds per step, by name; missing entries are 0. Empty: unknown.
  [[nodiscard]] std::vector<double> seconds_a_step(Rank rank) const;

 private:
  struct OfRank {
    double steps = 0;
    double total = 0;
    std::vector<double> seconds;  // by name
  };
  std::size_t number_of(const std::string& name);

  std::vector<std::string> names_;
  std::vector<OfRank> ranks_;
};

}  // namespace pfc
