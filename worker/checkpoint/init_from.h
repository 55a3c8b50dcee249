// Starts a job from given weights.
#pragma once

#include <filesystem>

#include "worker/checkpoint/checkpoint.h"

namespace pfc {

/// Weights from a safetensors file in PyTorch's names (backbone.safetensors, or an exported state
/// dict); its optional tensor `centres` [C, D] float32 sets the class centres too. Neither momentum
/// nor step count. Throws InputError that names the file and the tensor.
void init_from(const std::filesystem::path& file, const TrainingState& state);

}  // namespace pfc
