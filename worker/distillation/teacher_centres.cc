#include "worker/distillation/teacher_centres.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "common/config/job_json.h"
#include "common/config/parameters/parameter_rules.h"
#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/sha256.h"
#include "data/identity_names.h"
#include "worker/checkpoint/arcface/arcface_checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

constexpr const char* kAlternative = "use another teacher, or set distill_logits to 0";

fs::path folder_of(const fs::path& file) { return fs::absolute(file).parent_path(); }

std::string names_file(const fs::path& file) { return folder_of(file) / "identities.txt"; }

}  // namespace

TeacherCentres::TeacherCentres(const JobConfig& job, const ModelFile& teacher,
                               const Dataset& dataset)
    : file_(job.teacher) {
  const auto tensor = teacher.weights.others.tensors().find(kCentresName);
  if (tensor != teacher.weights.others.tensors().end() && tensor->second.shape.size() == 2) {
    source_ = file_;
    classes_ = tensor->second.shape[0];
    dimension_ = tensor->second.shape[1];
  } else {
    find();
  }
  if (classes_ != job.num_classes) {
    throw InputError(fmt::format(
        "teacher: {}: its class centres in {} have {} classes, expected the job's {}, because "
        "distill_logits compares the same classes; {}",
        file_.string(), source_.string(), classes_, job.num_classes, kAlternative));
  }
  if (dimension_ != teacher.options.embedding_size) {
    throw InputError(fmt::format(
        "teacher: {}: the rows of its class centres in {} have {} numbers, expected {}, the size "
        "of its embeddings, because distill_logits needs rows without biases or sub-centres; {}",
        file_.string(), source_.string(), dimension_, teacher.options.embedding_size,
        kAlternative));
  }
  check_names(dataset);
}

/// Finds a checkpoint in the folder of the teacher's file.
void TeacherCentres::find() {
  const fs::path folder = folder_of(file_);
  std::error_code ignored;  // an unreadable file is reported when it is read
  std::optional<fs::path> checkpoint;
  if (fs::exists(folder / format::kManifest, ignored)) {
    checkpoint = folder;
  } else if (const auto newest = newest_checkpoint(folder)) {
    checkpoint = newest->folder;
  }
  if (checkpoint) {
    const format::Identity id = format::load_manifest(*checkpoint).identity;
    kind_ = Kind::kCheckpoint;
    source_ = *checkpoint;
    files_ = {*checkpoint / format::kManifest};  // has the checksums of the others
    classes_ = id.classes;
    dimension_ = id.embedding_size;
    return;
  }
  const auto theirs = find_arcface_checkpoint(folder);
  if (!theirs) {
    throw InputError(fmt::format(
        "teacher: {}: found no class centres in the file or its folder, expected a tensor "
        "\"centres\", a checkpoint step-*, or arcface_torch's files of all GPUs, because "
        "distill_logits is set; copy them there, or set distill_logits to 0",
        file_.string()));
  }
  kind_ = Kind::kArcface;
  source_ = folder;
  files_ = theirs->centres;
  read_arcface_centres(*theirs, [&](std::int64_t first, std::int64_t dimension,
                                    std::span<const float> centres) {
    if (dimension_ != 0 && dimension != dimension_) {
      throw InputError(fmt::format(
          "teacher: {}: found class centres of {} and of {} numbers in the files of its GPUs; copy "
          "files that were saved together",
          source_.string(), dimension_, dimension));
    }
    dimension_ = dimension;
    classes_ = first + std::ssize(centres) / dimension;
  });
}

void TeacherCentres::check_names(const Dataset& dataset) const {
  const IdentityNames names = read_identity_names(names_file(file_), classes_);
  for (std::int64_t c = 0; c < names.size(); ++c) {
    const std::string theirs = names.at(c), ours = dataset.identity(c);
    if (theirs.empty() || ours.empty() || theirs == ours) continue;
    throw InputError(fmt::format(
        "teacher: {}: class {} is \"{}\", but \"{}\" in the job's data: distill_logits needs the "
        "same classes in the same order; {}",
        names_file(file_), c, theirs, ours, kAlternative));
  }
}

std::string TeacherCentres::brief() const {
  std::string text = fmt::format("class centres of {}", source_.filename().string());
  for (const fs::path& file : files_) text += ", SHA-256 " + sha256_hex(MappedFile(file).bytes());
  return text;
}

void TeacherCentres::read_checkpoint(const ClassPositions& positions, RowRange shard,
                                     const Take& take) const {
  const format::Manifest manifest = format::load_manifest(source_);
  const format::Identity& id = manifest.identity;
  const OptimizerKind optimizer =
      parse_job(id.job, (source_ / format::kManifest).string()).optimizer;
  const StoredCentres stored(id, positions, shard, optimizer, [&](const std::string& name) {
    return format::open_verified(source_, manifest, name);
  });
  UpdateHistory history(optimizer);
  const SeenUpdates seen = stored.seen(shard);
  history.restore(seen.updates);
  for (const RowRange& rows : pieces_of(shard, dimension_)) {
    const auto first = static_cast<std::size_t>(rows.begin - shard.begin);
    CaughtUpRows caught_up(
        stored, history, rows, dimension_,
        std::span(seen.updated).subspan(first, static_cast<std::size_t>(rows.size())));
    take(rows.begin, caught_up.take_weights());
  }
}

void TeacherCentres::read(const ClassPositions& positions, RowRange shard, const Take& take) const {
  const auto take_common = [&](std::int64_t first, std::span<const float> centres) {
    const RowRange labels{first, first + std::ssize(centres) / dimension_};
    const auto take_rows = [&](std::int64_t position, RowRange rows) {
      take(position, centres.subspan(static_cast<std::size_t>((rows.begin - first) * dimension_),
                                     static_cast<std::size_t>(rows.size() * dimension_)));
    };
    if (positions.in_label_order()) {
      for (const RowRange& rows : pieces_of(common_rows(labels, shard), dimension_)) {
        take_rows(rows.begin, rows);
      }
      return;
    }
    for (std::int64_t position = shard.begin; position < shard.end; ++position) {
      const std::int64_t label = positions.label_at(position);
      if (labels.contains(label)) take_rows(position, {label, label + 1});
    }
  };
  switch (kind_) {
    case Kind::kCheckpoint:
      return read_checkpoint(positions, shard, take);
    case Kind::kTensor: {
      const WeightsFile file = read_weights(file_);
      return take_common(
          0, file.others.float32(kCentresName, std::vector<std::int64_t>{classes_, dimension_}));
    }
    case Kind::kArcface:
      return read_arcface_centres(
          find_arcface_checkpoint(source_).value(),
          [&](std::int64_t first, std::int64_t /*dimension*/, std::span<const float> centres) {
            take_common(first, centres);
          });
  }
}

void TeacherCentres::fill(Ops& ops, const ClassPositions& positions, RowRange shard,
                          const Tensor& rows) const {
  std::vector<float> unit;
  read(positions, shard, [&](std::int64_t first, std::span<const float> centres) {
    unit.assign(centres.begin(), centres.end());
    for (std::int64_t row = 0; row < std::ssize(unit) / dimension_; ++row) {
      const auto centre = std::span(unit).subspan(static_cast<std::size_t>(row * dimension_),
                                                  static_cast<std::size_t>(dimension_));
      // A centre of zeros stays as it is.
      if (normalise(centre) || std::ranges::all_of(centre, [](float x) { return x == 0; }))
        continue;
      throw InputError(fmt::format("teacher: {}: the centre of class {} is not finite; {}",
                                   source_.string(), positions.label_at(first + row),
                                   kAlternative));
    }
    copy_rows_to_device(ops, row_range(rows, first - shard.begin, std::ssize(centres) / dimension_),
                        unit.data());
  });
}

}  // namespace pfc
