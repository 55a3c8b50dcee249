// What every fuzz target of data sets does with one.
#pragma once

#include <filesystem>
#include <vector>

#include "common/error.h"
#include "worker/data/open_dataset.h"

namespace pfc::fuzz {

/// Opens what is there and reads all of it. Any bytes are either data or an InputError.
inline void read_all(const std::filesystem::path& rec) {
  constexpr std::int64_t kMost = 1000;
  try {
    const auto dataset = open_dataset({.rec = rec, .image_size = 8});
    std::vector<std::byte> storage;
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
