// Damaged images that a verb tolerates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pfc {

/// Collects damaged images, up to the fraction that the user allows.
class Damages {
 public:
  Damages(std::int64_t images, double allowed_part)
      : images_(images), allowed_part_(allowed_part) {}
  /// Throws InputError if more images are damaged than allowed.
  void add(const std::string& name, const std::string& what);
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }

 private:
  const std::int64_t images_;
  const double allowed_part_;
  std::vector<std::string> all_;
};

}  // namespace pfc
