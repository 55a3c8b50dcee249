// Reads all of a data set and reports its faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "pfcctl/data/writing.h"

namespace pfc {

struct Validation {
  std::int64_t images = 0, classes = 0;
  bool embeddings = false;   ///< the data are embeddings, so no copy without bad images can be made
  std::int64_t damaged = 0;  ///< images that cannot be read or decoded
  std::int64_t mislabelled = 0;  ///< images whose label is not an integer in 0 .. classes - 1
  std::int64_t repeated = 0;  ///< images with the same bytes as an earlier image of the same label
  /// Images with the same bytes as an image of another label; each counts.
  std::int64_t contradicted = 0;
  std::int64_t empty_classes = 0;
  std::vector<std::string> examples;  ///< the first few of each kind, in the order of the images
  std::vector<std::string> warnings;  ///< warnings of the data's reader
  std::vector<std::int64_t> good;     ///< images without any fault, in order

  /// Returns whether no image has a fault. Empty classes and warnings are reported, but do not
  /// count.
  [[nodiscard]] bool is_good() const { return std::ssize(good) == images; }
};

/// Decodes every image on `threads` threads (0: all cores) and compares all by the SHA-256 of
/// their bytes, which takes 32 bytes of memory per image. Of images with the same bytes and label
/// the first one is good. Of images with the same bytes and different labels none is good. For
/// embeddings, reads every row.
Validation validate(const Dataset& dataset, int threads, const ShowProgress& progress);

std::string validation_text(const Validation& validation);
std::string validation_json(const Validation& validation);

}  // namespace pfc
