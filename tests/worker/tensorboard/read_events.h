// Reads the events of a file. Uses only the documented layout of frames, not pfc's code.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tensorboard/compat/proto/event.pb.h"
#include "tests/support/files.h"

namespace pfc::testing {

/// REQUIRES: the file is complete.
inline std::vector<tensorboard::Event> read_events(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::vector<tensorboard::Event> events;
  for (std::size_t begin = 0; begin < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + begin, sizeof length);
    begin += 12;
    EXPECT_LE(begin + length + 4, bytes.size()) << path;
    if (begin + length + 4 > bytes.size()) break;
    EXPECT_TRUE(
        events.emplace_back().ParseFromArray(bytes.data() + begin, static_cast<int>(length)));
    begin += length + 4;
  }
  return events;
}

/// Returns the values of all events of one step.
inline std::map<std::string, tensorboard::Summary::Value> values_of(
    const std::vector<tensorboard::Event>& events, std::int64_t step) {
  std::map<std::string, tensorboard::Summary::Value> values;
  for (const tensorboard::Event& event : events) {
    if (event.step() != step) continue;
    for (const auto& value : event.summary().value()) {
      EXPECT_FALSE(values.contains(value.tag())) << value.tag() << " occurs twice";
      values[value.tag()] = value;
    }
  }
  return values;
}

/// Returns the steps of events with values, in file order.
inline std::vector<std::int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<std::int64_t> steps;
  for (const tensorboard::Event& event : read_events(path)) {
    if (event.has_summary()) steps.push_back(event.step());
  }
  return steps;
}

}  // namespace pfc::testing
