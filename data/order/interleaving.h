// Merges several sequences so that all advance evenly.
#pragma once

#include <cstdint>
#include <vector>

namespace pfc {

/// Numbers first .. end - 1.
struct ImageRange {
  std::int64_t first = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end - first; }
  friend bool operator==(const ImageRange&, const ImageRange&) = default;
};

/// Merges the images of several data sets, numbered one set after another, into one sequence. Every
/// range of the sequence has images of each set in proportion to the set's size (to within one
/// image per set). Each set's images keep their order, so a range of the sequence consists of one
/// range of each set. Each call takes time proportional to the number of sets. Thread-safe.
class Interleaving {
 public:
  /// `sets`: number of images in each set. REQUIRES: not empty, and all are positive.
  explicit Interleaving(const std::vector<std::int64_t>& sets);

  [[nodiscard]] std::int64_t images() const { return sets_.back().images_so_far; }
  /// Returns the image number at a place 0 .. images() - 1 of the sequence.
  [[nodiscard]] std::int64_t at(std::int64_t place) const;
  /// Appends the images at the places of a range: one range for each set that has images there.
  void append_ranges(const ImageRange& places, std::vector<ImageRange>& to) const;

 private:
  struct Set {
    std::int64_t first = 0;          ///< number of the set's first image
    std::int64_t images_so_far = 0;  ///< images of the sets up to this one, inclusive
  };
  std::vector<Set> sets_;
};

}  // namespace pfc
