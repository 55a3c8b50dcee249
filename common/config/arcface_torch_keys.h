// The configuration keys of arcface_torch that mean nothing here: whether a job may have them, and
// what a person uses instead. The page docs/configuration.md has the same table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/job_origin.h"

namespace pfc {

struct ArcfaceTorchKey {
  enum class Treatment {
    kIgnored,  ///< accepted; a warning says what to use instead
    kRefused,  ///< an error: training without it would give another model
  };
  std::string_view key;
  Treatment treatment = Treatment::kIgnored;
  std::string_view instead;  ///< why, and what to do instead; one sentence without an end
};

std::span<const ArcfaceTorchKey> arcface_torch_keys();

/// Throws InputError when the job asks for something that is refused. A value of false, 0, null or
/// "" asks for nothing.
void check_arcface_torch_keys(const nlohmann::json& job, const JobOrigin& origin);

/// One warning for each reason why keys of this job are ignored: "dali is ignored: images are ...".
/// Keys with the same reason share a warning; those that ask for nothing have none.
std::vector<std::string> ignored_key_warnings(const nlohmann::json& job);

}  // namespace pfc
