// Converts configurations of arcface_torch (recognition/arcface_torch/configs) to jobs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace pfc {

/// Returns the job that arcface_torch would train with the configuration in `text`. `path` is its
/// file, for NAME (see below) and for errors. `base` is the text of base.py in the same folder;
/// without it, the defaults are those of arcface_torch's own base.py. As in arcface_torch, `output
/// = None` becomes work_dirs/NAME. Keys of Weights & Biases are dropped unless using_wandb is true.
/// A negative warmup_epoch becomes 0. Throws InputError.
nlohmann::json arcface_torch_job(std::string_view text, const std::filesystem::path& path,
                                 const std::optional<std::string>& base);

}  // namespace pfc
