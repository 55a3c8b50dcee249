// Reads a whole data set; shared by the fuzz targets of data sets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/error.h"
#include "data/open_dataset.h"

namespace pfc::fuzz {

/// Opens the data set and reads all of it. Any bytes are either an InputError or a data set with
/// at least one image.
inline void read_all(const std::filesystem::path& rec) {
  constexpr std::int64_t kMost = 1000;
  try {
    const auto dataset = open_dataset({.rec = rec, .image_size = 8});
    check(dataset->info().images > 0 && dataset->info().classes > 0, "read_all: an empty data set");
    ImageBuffer storage;
    for (std::int64_t i = 0; i < std::min(dataset->info().images, kMost); ++i) {
      try {
        static_cast<void>(dataset->read(i, storage));
        static_cast<void>(dataset->label(i, storage));
        static_cast<void>(dataset->name(i));
      } catch (const InputError&) {
      }
    }
    static_cast<void>(dataset->briefs());
  } catch (const InputError&) {
  }
}

}  // namespace pfc::fuzz
