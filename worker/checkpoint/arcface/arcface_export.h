// Writes a checkpoint of pfc as one of arcface_torch, from which train_v2.py resumes.
#pragma once

#include <filesystem>
#include <functional>

namespace pfc {

/// Writes checkpoint_gpu_0.pt ... checkpoint_gpu_{gpus-1}.pt into `output`, which it creates.
/// Each holds the backbone, the class centres of its GPU, the optimizer's moments, and the state
/// of PolynomialLRWarmup. Calls `written` after each file. Holds one tensor of one GPU in memory
/// at a time. Throws InputError if the checkpoint cannot be read, its network is not one of
/// arcface_torch, or one of the files exists. Throws StorageError if a file cannot be written.
void export_arcface_checkpoint(const std::filesystem::path& checkpoint, int gpus,
                               const std::filesystem::path& output,
                               const std::function<void(const std::filesystem::path&)>& written);

}  // namespace pfc
