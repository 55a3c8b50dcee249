#include "worker/distillation/teacher_file.h"

#include <spdlog/fmt/fmt.h>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/sha256.h"
#include "kernels/make_ops.h"

namespace pfc {
namespace {

ModelFile read_file(const std::filesystem::path& path) {
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
  ModelFile teacher = read_file(job.teacher);
  BackboneOptions& options = teacher.options;
  if (options.embedding_size != job.embedding_size) {
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
  if (!is_ours && is_torchvision(teacher.weights.state_dict)) options.pixels = job.pixels;
  return teacher;
}

std::string teacher_brief(const std::filesystem::path& file, const ModelFile& teacher) {
  return teacher.options.network + ", SHA-256 " + sha256_hex(MappedFile(file).bytes());
}

}  // namespace pfc
