// Reads the events written by a training log.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/report/training_log.h"

namespace pfc {

inline std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Record of a step of 64 images.
inline StepRecord record(std::int64_t step) {
  return {.stats = {.step = step,
                    .loss = 2.5,
                    .distillation_loss = 0.25,
                    .logits_loss = 0.5,
                    .lr = 0.1,
                    .samples = 64},
          .step_seconds = 0.5,
          .phases = {{"forward", 0.1}, {"forward", 0.2}, {"head", 0.05}},
          .comm = {{"gradients", {.calls = 3, .sent_bytes = 7'200'000}}},
          .gpu_memory_bytes = 5'000'000'000,
          .loss_scale = 1024};
}

inline std::vector<nlohmann::json> events_of(const std::filesystem::path& output) {
  std::vector<nlohmann::json> events;
  for (const std::string& line : lines_of(output / "metrics.jsonl")) {
    events.push_back(nlohmann::json::parse(line));
  }
  return events;
}

}  // namespace pfc
