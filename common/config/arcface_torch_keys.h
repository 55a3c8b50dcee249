// The configuration keys of arcface_torch that mean nothing here: a job may have them, and a
// warning says what a person uses instead. The page docs/configuration.md has the same table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

struct ArcfaceTorchKey {
  std::string_view key;
  std::string_view instead;  ///< why, and what to do instead; one sentence without an end
};

std::span<const ArcfaceTorchKey> arcface_torch_keys();
/// Returns the keys of Weights & Biases.
std::span<const ArcfaceTorchKey> wandb_keys();

/// One warning for each reason why keys of this job are ignored: "dali is ignored: images are ...".
/// Keys with the same reason share a warning. A value of false, 0, null or "" asks for nothing and
/// has none.
std::vector<std::string> ignored_key_warnings(const nlohmann::json& job);

}  // namespace pfc
