// Several sequences as one, in which all of them advance evenly.
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

/// The images of several data sets, numbered one set behind the other, in another sequence: each
/// stretch of it has images of each set in proportion to the sets' sizes (to within one image a
/// set), and those of one set follow each other. So a stretch of the sequence is one stretch of
/// each set. Each call takes a time in proportion to the number of sets. Thread-safe.
class Interleaving {
 public:
  /// How many images each set has. REQUIRES: not empty, and all are above 0.
  explicit Interleaving(const std::vector<std::int64_t>& sets);

  [[nodiscard]] std::int64_t images() const { return sets_.back().images_so_far; }
  /// The number of the image at a place 0 .. images() - 1 of the sequence.
  [[nodiscard]] std::int64_t at(std::int64_t place) const;
  /// Appends the images at the places of a range: one range for each set that has some there.
  void append_ranges(const ImageRange& places, std::vector<ImageRange>& to) const;

 private:
  struct Set {
    std::int64_t first = 0;          ///< number of its first image
    std::int64_t images_so_far = 0;  ///< of it and the sets before
  };
  std::vector<Set> sets_;
};

}  // namespace pfc
