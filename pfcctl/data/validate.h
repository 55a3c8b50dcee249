// Reads all of a data set, and says what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct Validation {
  std::int64_t images = 0, classes = 0;
  bool embeddings = false;        ///< not images: there is no copy without what is not good
  std::int64_t damaged = 0;       ///< images that cannot be read or decoded
  std::int64_t mislabelled = 0;   ///< whose label is no integer of 0 .. classes - 1
  std::int64_t repeated = 0;      ///< whose bytes an earlier image of the same label has
  std::int64_t contradicted = 0;  ///< whose bytes an image of another label has, each counted
  std::int64_t empty_classes = 0;
  std::vector<std::string> examples;  ///< the first few of each kind, in the order of the images
  std::vector<std::string> warnings;  ///< that the data's reader gives
  std::vector<std::int64_t> good;     ///< images without any of that, in order

  /// Whether training would meet nothing odd. Empty classes and warnings are told, but do not
  /// count.
  [[nodiscard]] bool is_good() const { return std::ssize(good) == images; }
};

/// Decodes every image on `threads` threads (0: all cores) and compares all by the SHA-256 of their
/// bytes: 32 bytes of memory an image. Of images with the same bytes and label the first one is
/// good; of those with the same bytes and different labels none is. Of embeddings every row is
/// read.
Validation validate(const Dataset& dataset, int threads, const ShowProgress& progress);

std::string validation_text(const Validation& validation);
std::string validation_json(const Validation& validation);

}  // namespace pfc
