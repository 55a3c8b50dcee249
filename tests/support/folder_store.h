// KeyValueStore for workers that are processes of one host. Each key is a file in a folder.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/key_value_store.h"
#include "common/error.h"

namespace pfc::testing {

class FolderStore : public KeyValueStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::vector<char>& value) override {
    const std::filesystem::path whole = path_of(key);
    const std::filesystem::path part = whole.string() + ".part";
    std::ofstream(part, std::ios::binary)
        .write(value.data(), static_cast<std::streamsize>(value.size()));
    std::filesystem::rename(part, whole);  // atomic: readers never see a partial value
  }

  std::vector<char> get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(path_of(key))) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw CommError("no value of '" + key + "' after " + std::to_string(timeout.count()) +
                        " ms");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream file(path_of(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  [[nodiscard]] std::filesystem::path path_of(std::string key) const {
    std::ranges::replace(key, '/', '-');
    return folder_ / key;
  }

  const std::filesystem::path folder_;
};

}  // namespace pfc::testing
