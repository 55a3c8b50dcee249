// In which phases each worker has spent its last steps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// Of the current generation. The sums of a rank are halved when they have grown to kWindow
/// seconds: so they tell of about the last 20 s, or of the last step where one takes longer.
class PhaseTimes {
 public:
  static constexpr double kWindow = 20;          ///< seconds
  static constexpr std::size_t kMostNames = 24;  ///< what is beyond that is "other"

  /// A worker's report, and the one before it.
  void add(Rank rank, const proto::Progress& before, const proto::Progress& report);
  void clear();

  /// In the order in which they were first told.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::size_t ranks() const { return ranks_.size(); }
  /// Seconds a step, by name(); shorter than names() where the rest is 0. Empty: nothing is known.
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
