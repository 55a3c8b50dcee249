// Who keeps the others waiting: each worker tells through the store which collective it has come
// to, and whoever is behind is the culprit. For transports that cannot tell by themselves.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

/// One collective of a Comm; they are counted from 1, so 0 is none.
struct Collective {
  std::uint64_t number = 0;
  std::string kind;  ///< "all_reduce"
  std::size_t bytes = 0;
};

/// "all_reduce of 40 bytes (number 17)".
std::string to_text(const Collective& collective);

/// The newest collective that each worker has begun, under the Comm's name in the store, which is
/// borrowed. Nothing here throws: what it says only completes an error.
class CollectiveReports {
 public:
  CollectiveReports(KeyValueStore& store, const std::string& comm_name, const Membership& me);

  void tell(const Collective& newest) const;
  /// By rank; nullopt of whom nothing is heard until the patience is over, and of this worker.
  [[nodiscard]] std::vector<std::optional<Collective>> ask(
      std::chrono::milliseconds patience) const;

 private:
  [[nodiscard]] std::string key(Rank rank) const;

  KeyValueStore& store_;
  const std::string prefix_;
  const Membership me_;
};

/// The end of the error of a worker that has begun `mine`: who is behind, who does something else,
/// and who says nothing. places: "127.0.0.1, GPU 1" by rank.
std::string name_culprits(const Collective& mine, Rank me,
                          std::span<const std::optional<Collective>> reports,
                          std::span<const std::string> places);

}  // namespace pfc
