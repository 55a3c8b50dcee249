// State of a coordinator for the page at /, complete or as changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/web/live/live_feed.h"
#include "coordinator/web/live/live_json.h"

namespace pfc {

/// Used on the event loop only.
class LiveState final : public LiveSource {
 public:
  /// Does not own the coordinator.
  explicit LiveState(const Coordinator& coordinator) : coordinator_(coordinator) {}

  std::string changes() override;
  std::string all() override;

 private:
  struct Part {
    std::string name;
    std::string json;
  };
  /// Returns the parts that are sent completely when they change.
  [[nodiscard]] std::vector<Part> parts() const;

  const Coordinator& coordinator_;
  std::vector<Part> told_;
  std::uint64_t curves_ = 0;  ///< version of the curve sent last
  std::size_t points_ = 0;    ///< number of points sent
  std::int64_t reports_ = 0;  ///< number of reports in the last point sent
  std::int64_t events_ = 0;   ///< number of the last event sent
};

}  // namespace pfc
