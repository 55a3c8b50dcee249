#include "common/config/keys/arcface_torch_keys.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace pfc {
namespace {

constexpr std::string_view kNoWandb =
    "pfc sends nothing to Weights & Biases; metrics are in metrics.jsonl in the output folder, and "
    "at /metrics for Prometheus";

constexpr std::array<ArcfaceTorchKey, 10> kKeys{{
    {"save_all_states",
     "every checkpoint contains all states; set save_every_steps or save_every_seconds"},
    {"dali", "num_workers threads of each worker decode the images"},
    {"wandb_key", kNoWandb},
    {"suffix_run_name", kNoWandb},
    {"using_wandb", kNoWandb},
    {"wandb_entity", kNoWandb},
    {"wandb_project", kNoWandb},
    {"wandb_log_all", kNoWandb},
    {"save_artifacts", kNoWandb},
    {"wandb_resume", kNoWandb},
}};

bool asks_for_nothing(const nlohmann::json& value) {
  return value.is_null() || value == false || value == 0 || value == "";
}

bool asked_for(const nlohmann::json& job, std::string_view key) {
  const auto found = job.find(key);
  return found != job.end() && !asks_for_nothing(*found);
}

}  // namespace

std::span<const ArcfaceTorchKey> arcface_torch_keys() { return kKeys; }

std::span<const ArcfaceTorchKey> wandb_keys() {
  const auto first =
      std::ranges::find(kKeys, kNoWandb, [](const ArcfaceTorchKey& each) { return each.instead; });
  return {first, kKeys.end()};
}

std::vector<std::string> ignored_key_warnings(const nlohmann::json& job) {
  std::vector<std::string> warnings;
  for (auto each = kKeys.begin(); each != kKeys.end();) {
    const std::string_view reason = each->instead;
    std::string keys;
    int count = 0;
    for (; each != kKeys.end() && each->instead == reason; ++each) {
      if (!asked_for(job, each->key)) continue;
      keys += (count++ == 0 ? "" : ", ") + std::string(each->key);
    }
    if (count == 0) continue;
    warnings.push_back(keys + (count == 1 ? " is" : " are") + " ignored: " + std::string(reason));
  }
  return warnings;
}

}  // namespace pfc
