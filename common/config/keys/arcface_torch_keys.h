// Keys of arcface_torch that have no effect in pfc. A job may contain them; a warning names the
// replacement. docs/configuration.md has the same table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

struct ArcfaceTorchKey {
  std::string_view key;
  std::string_view instead;  ///< why it has no effect, or what to use; one sentence, no period
};

std::span<const ArcfaceTorchKey> arcface_torch_keys();
/// Returns the keys of Weights & Biases.
std::span<const ArcfaceTorchKey> wandb_keys();

/// Returns one warning per reason: "dali is ignored: images are ...". Keys with the same reason
/// share a warning. A key whose value is false, 0, null or "" causes no warning.
std::vector<std::string> ignored_key_warnings(const nlohmann::json& job);

}  // namespace pfc
