// A fixture for tests of data sets in a temporary folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "data/open_dataset.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {

class DataFolder : public ::testing::Test {
 protected:
  /// Also creates the folder of the file.
  void write(const std::string& path, std::span<const std::byte> bytes) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    write_file(folder_ / path, bytes);
  }
  void write(const std::string& path, const std::string& text) const {
    write(path, std::as_bytes(std::span(text)));
  }
  static std::vector<std::int64_t> labels_of(const Dataset& dataset) {
    std::vector<std::int64_t> all;
    ImageBuffer storage;
    for (std::int64_t i = 0; i < dataset.info().images; ++i) {
      all.push_back(dataset.read(i, storage).label);
    }
    return all;
  }
  static std::vector<std::byte> image_of(const Dataset& dataset, std::int64_t image) {
    ImageBuffer storage;
    const auto encoded = dataset.read(image, storage).encoded;
    return {encoded.begin(), encoded.end()};
  }
  static std::string error(const DatasetOptions& options) {
    return message_of<InputError>([&] { open_dataset(options); });
  }
  static std::string error(const std::filesystem::path& rec) {
    return error(DatasetOptions{.rec = rec});
  }

  TemporaryFolder folder_;
};

}  // namespace pfc::testing
