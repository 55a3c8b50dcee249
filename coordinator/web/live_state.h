// What the page at / shows of a coordinator, whole or as changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/web/live_feed.h"
#include "coordinator/web/live_json.h"

namespace pfc {

/// Used on the event loop only.
class LiveState final : public LiveSource {
 public:
  /// Borrows the coordinator.
  explicit LiveState(const Coordinator& coordinator) : coordinator_(coordinator) {}

  std::string changes() override;
  std::string all() override;

 private:
  struct Part {
    std::string name;
    std::string json;
  };
  /// Those that are told as a whole whenever they have changed.
  [[nodiscard]] std::vector<Part> parts() const;

  const Coordinator& coordinator_;
  std::vector<Part> told_;
  std::uint64_t curves_ = 0;  ///< version of the history that was told
  std::size_t points_ = 0;    ///< how many points of it
  std::int64_t reports_ = 0;  ///< in the last of them
  std::int64_t events_ = 0;   ///< number of the last event that was told
};

}  // namespace pfc
