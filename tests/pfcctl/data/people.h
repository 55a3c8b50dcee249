// A small data set of people, for tests of the verbs that write data sets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"

namespace pfc::testing {

/// Writes FOLDER/p00/0.jpg ...: `images` of each of `people`, all different.
inline void write_people(const std::filesystem::path& folder, int people, int images) {
  for (int p = 0; p < people; ++p) {
    const std::string digits = (p < 10 ? "0" : "") + std::to_string(p);
    const std::filesystem::path person = folder / ("p" + digits);
    std::filesystem::create_directories(person);
    for (int i = 0; i < images; ++i) {
      write_file(person / (std::to_string(i) + ".jpg"),
                 make_jpeg(16, 16, static_cast<unsigned>(1 + p * images + i)));
    }
  }
}

/// An image and label from a data set.
struct Labelled {
  std::vector<std::byte> bytes;
  std::int64_t label = 0;
  auto operator<=>(const Labelled&) const = default;
};

inline std::vector<Labelled> contents(const Dataset& dataset) {
  std::vector<Labelled> all;
  ImageBuffer storage;
  for (std::int64_t i = 0; i < dataset.info().images; ++i) {
    const Sample sample = dataset.read(i, storage);
    all.push_back({{sample.encoded.begin(), sample.encoded.end()}, sample.label});
  }
  return all;
}

}  // namespace pfc::testing
