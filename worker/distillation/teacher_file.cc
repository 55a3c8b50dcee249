#include "worker/distillation/teacher_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/sha256.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

/// Rejects a file in the job's output folder, where the job renames and deletes models.
void check_place(const JobConfig& job) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(job.output, error), error);
  if (error) return;  // check_output() reports it
  const fs::path given = fs::absolute(job.teacher);
  for (const fs::path& file : {fs::weakly_canonical(given),
                               fs::weakly_canonical(given.parent_path()) / given.filename()}) {
    if (std::ranges::mismatch(folder, file).in1 != folder.end()) continue;
    throw InputError(fmt::format(
        "teacher: {}: found a file in the job's output folder {}, where the job replaces and "
        "deletes models; copy it to another folder",
        job.teacher.string(), job.output.string()));
  }
}

ModelFile read_file(const fs::path& path) {
  try {
    return read_model(path);
  } catch (const InputError& error) {
    throw InputError(std::string("teacher: ") + error.what());
  }
}

/// Returns whether the tensors are those of a network with these options.
bool fits_network(const NamedTensors& tensors, const BackboneOptions& options) {
  if (!has_sizes(options)) return false;
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  try {
    check_state_dict(backbone_parameters(*ops, options), tensors);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

ModelFile read_teacher(const JobConfig& job, std::int64_t height, std::int64_t width) {
  check_place(job);
  ModelFile teacher = read_file(job.teacher);
  BackboneOptions& options = teacher.options;
  if (job.distill_embeddings != DistillEmbeddings::kNone &&
      options.embedding_size != job.embedding_size) {
    throw InputError(
        fmt::format("teacher: {}: its network {} has embedding size {}, expected the job's {}; set "
                    "embedding_size to {}, or use another teacher",
                    job.teacher.string(), options.network, options.embedding_size,
                    job.embedding_size, options.embedding_size));
  }
  if (options.height != height || options.width != width) {
    const std::int64_t side = options.height;
    options.height = height;
    options.width = width;
    if (!fits_network(teacher.weights.state_dict, options)) {
      throw InputError(fmt::format(
          "teacher: {}: its network {} needs images of {} x {} pixels, but the job's are {} x {}; "
          "set image_size to {}, or use another teacher",
          job.teacher.string(), options.network, side, side, height, width, side));
    }
  }
  const bool is_ours = teacher.weights.about.contains("network");
  if (teacher.weights.format == "PyTorch" ||
      (!is_ours && is_torchvision(teacher.weights.state_dict))) {
    options.pixels = job.pixels;
  }
  return teacher;
}

std::string teacher_brief(const fs::path& file, const ModelFile& teacher) {
  const PixelScale& pixels = teacher.options.pixels;
  return fmt::format("{}, SHA-256 {}, image_mean {}, image_std {}", teacher.options.network,
                     sha256_hex(MappedFile(file).bytes()), nlohmann::json(pixels.mean).dump(),
                     nlohmann::json(pixels.std).dump());
}

}  // namespace pfc
