#include "common/config/arcface_torch_keys.h"

#include <array>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace pfc {
namespace {

using Treatment = ArcfaceTorchKey::Treatment;

constexpr std::string_view kNoWandb =
    "metrics go to metrics.jsonl in the output folder and to /metrics for Prometheus, and "
    "nothing is sent to Weights & Biases";

constexpr std::array<ArcfaceTorchKey, 11> kKeys{{
    {"save_all_states", Treatment::kIgnored,
     "every checkpoint holds all states; save_every_steps and save_every_seconds say when they are "
     "written"},
    {"dali", Treatment::kIgnored, "images are decoded by num_workers threads of each worker"},
    {"dali_aug", Treatment::kRefused,
     "its augmentations do not exist here; remove the key or set it to false (augment: true flips "
     "images)"},
    {"wandb_key", Treatment::kIgnored, kNoWandb},
    {"suffix_run_name", Treatment::kIgnored, kNoWandb},
    {"using_wandb", Treatment::kIgnored, kNoWandb},
    {"wandb_entity", Treatment::kIgnored, kNoWandb},
    {"wandb_project", Treatment::kIgnored, kNoWandb},
    {"wandb_log_all", Treatment::kIgnored, kNoWandb},
    {"save_artifacts", Treatment::kIgnored, kNoWandb},
    {"wandb_resume", Treatment::kIgnored, kNoWandb},
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

void check_arcface_torch_keys(const nlohmann::json& job, const JobOrigin& origin) {
  for (const ArcfaceTorchKey& each : kKeys) {
    if (each.treatment != Treatment::kRefused || !asked_for(job, each.key)) continue;
    const std::string key(each.key);
    throw InputError(origin.of(key) + ": " + key + ": " + std::string(each.instead));
  }
}

std::vector<std::string> ignored_key_warnings(const nlohmann::json& job) {
  std::vector<std::string> warnings;
  for (auto each = kKeys.begin(); each != kKeys.end();) {
    const std::string_view reason = each->instead;
    std::string keys;
    int count = 0;
    for (; each != kKeys.end() && each->instead == reason; ++each) {
      if (each->treatment != Treatment::kIgnored || !asked_for(job, each->key)) continue;
      keys += (count++ == 0 ? "" : ", ") + std::string(each->key);
    }
    if (count == 0) continue;
    warnings.push_back(keys + (count == 1 ? " is" : " are") + " ignored: " + std::string(reason));
  }
  return warnings;
}

}  // namespace pfc
