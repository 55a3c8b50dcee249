#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <stdio.h>

#include <cerrno>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/comm/shard.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

/// One file to write.
struct FileContent {
  std::string name;
  std::vector<SafetensorsEntry> entries = {};  ///< of `copies`, or of the state itself
  std::vector<HostTensor> copies = {};
  std::map<std::string, std::string> metadata = {};

  void add(HostTensor copy) {
    entries.push_back({copy.name, copy.dtype, copy.shape, copy.bytes});
    copies.push_back(std::move(copy));  // the bytes stay where they are
  }
  void add(std::vector<HostTensor> all) {
    for (HostTensor& copy : all) add(std::move(copy));
  }
};

/// Makes a file's content from the state, now.
using MakeFile = std::function<FileContent()>;

/// As safetensors names it.
std::string dtype_name(DType type) { return type == DType::kBFloat16 ? "BF16" : "F32"; }

void add_tensor(FileContent& file, Ops& ops, const std::string& name, const Tensor& tensor,
                CheckpointMode mode) {
  std::vector<std::int64_t> shape;
  shape.reserve(static_cast<std::size_t>(tensor.shape.rank()));
  for (int i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
  const std::string dtype = dtype_name(tensor.dtype);
  if (mode == CheckpointMode::kInPlace && ops.on_host()) {
    const auto* const bytes = static_cast<const std::byte*>(tensor.data);
    file.entries.push_back({name, dtype, std::move(shape), {bytes, tensor.bytes()}});
    return;
  }
  HostTensor copy{.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = {}};
  copy.bytes.resize(tensor.bytes());
  if (!copy.bytes.empty()) ops.copy_to_host(copy.bytes.data(), tensor);
  file.add(std::move(copy));
}

/// Of host memory.
void add_values(FileContent& file, const std::string& name, const std::string& dtype,
                std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                CheckpointMode mode) {
  if (mode == CheckpointMode::kInPlace) {
    file.entries.push_back({name, dtype, std::move(shape), bytes});
  } else {
    file.add(HostTensor{.name = name,
                        .dtype = dtype,
                        .shape = std::move(shape),
                        .bytes = {bytes.begin(), bytes.end()}});
  }
}

/// Which updates each row has seen.
void add_history(FileContent& file, const Head::State& head, CheckpointMode mode) {
  static_assert(sizeof(PastUpdate) == 3 * sizeof(float));
  const std::span<const PastUpdate> updates = head.history->updates();
  if (updates.empty()) return;
  add_values(file, format::kUpdated, "I32", {static_cast<std::int64_t>(head.updated.size())},
             std::as_bytes(head.updated), mode);
  add_values(file, format::kUpdates, "F32", {static_cast<std::int64_t>(updates.size()), 3},
             std::as_bytes(updates), mode);
}

FileContent centres_file(const TrainingState& state, const Membership& me, CheckpointMode mode) {
  const Head::State head = state.head.state();
  const RowRange rows = state.head.shard();
  FileContent file{.name = format::centres_name(me.rank, me.world_size),
                   .metadata = {{"first_class", std::to_string(rows.begin)},
                                {"end_class", std::to_string(rows.end)}}};
  add_tensor(file, state.ops, format::kWeight, head.centres, mode);
  add_tensor(file, state.ops, format::kMomentum, head.momentum, mode);
  if (head.second) add_tensor(file, state.ops, format::kSecond, head.second, mode);
  add_history(file, head, mode);
  return file;
}

FileContent backbone_file(const TrainingState& state) {
  FileContent file{.name = format::kBackbone};
  file.add(export_state_dict(state.ops, state.backbone));
  return file;
}

FileContent optimizer_file(const TrainingState& state) {
  const Arena& weights = state.backbone.weights;
  FileContent file{.name = format::kBackboneOptimizer};
  file.add(export_flat(state.ops, weights, state.optimizer.momentum(), format::kMomentumPrefix));
  if (const Tensor second = state.optimizer.second()) {
    file.add(export_flat(state.ops, weights, second, format::kSecondPrefix));
  }
  return file;
}

/// This worker's files. `state` is borrowed by what is returned.
std::vector<MakeFile> files_of(const TrainingState& state, const Membership& me,
                               CheckpointMode mode) {
  std::vector<MakeFile> files;
  files.emplace_back([&state, &me, mode] { return centres_file(state, me, mode); });
  if (me.rank == 0) {  // every worker has the same backbone
    files.emplace_back([&state] { return backbone_file(state); });
    files.emplace_back([&state] { return optimizer_file(state); });
  }
  return files;
}

/// The same files, made now; each is let go of when it has been asked for.
std::vector<MakeFile> made(const std::vector<MakeFile>& files) {
  std::vector<MakeFile> done;
  for (const MakeFile& make : files) {
    // Shared only because std::function wants to be copied.
    auto content = std::make_shared<FileContent>(make());
    done.emplace_back([content] { return std::move(*content); });
  }
  return done;
}

format::File write(const std::filesystem::path& folder, const FileContent& file) {
  const WrittenFile written = write_safetensors(folder / file.name, file.entries, file.metadata);
  return {.name = file.name, .bytes = written.bytes, .sha256 = written.sha256};
}

/// Turns what the file system refuses into the one line that a person needs.
template <typename Work>
auto storage(Work work) {
  try {
    return work();
  } catch (const std::filesystem::filesystem_error& e) {
    throw StorageError(e.path1().string() + ": " + e.code().message());
  }
}

/// Gives a finished folder its final name. What had that name before is called `old` afterwards.
void move_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                 const std::filesystem::path& old) {
  const bool replaces = std::filesystem::exists(to);
  const unsigned flags = replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) {
    if (replaces) std::filesystem::rename(from, old);
  } else if (errno == EINVAL || errno == ENOSYS) {
    // A file system without these flags (NFS): not at once, but the older checkpoints are there.
    if (replaces) std::filesystem::rename(to, old);
    std::filesystem::rename(from, to);
  } else {
    throw StorageError(to.string() + ": cannot move the checkpoint here: " +
                       std::generic_category().message(errno));
  }
  sync_folder(to.parent_path());
}

class FolderWriter : public CheckpointWriter {
 public:
  explicit FolderWriter(const CheckpointOptions& options)
      : options_(options), removal_(options.remove) {
    if (options_.membership.rank == 0) remove_stale_folders();
  }
  /// Rank 0 takes away what was not published, the others' parts too: the job ends without it.
  ~FolderWriter() override {
    if (thread_.joinable()) thread_.join();
    if (options_.membership.rank != 0 || identity_.step == published_) return;
    std::error_code ignored;
    std::filesystem::remove_all(temporary(identity_.step), ignored);
  }

  void begin(const TrainingState& state, std::int64_t step, const nlohmann::json& job,
             CheckpointMode mode) override;
  std::int64_t finished_step() override;
  void wait() override;
  void publish(std::int64_t step) override;

 private:
  [[nodiscard]] std::filesystem::path temporary(std::int64_t step) const {
    return options_.output / format::temporary_name(step, options_.membership.generation);
  }
  void remove_stale_folders();
  void run(std::int64_t step, const std::vector<MakeFile>& files);
  void write_part(std::int64_t step, const std::vector<MakeFile>& files) const;
  [[nodiscard]] std::vector<format::File> gather_parts(const std::filesystem::path& folder) const;
  [[nodiscard]] std::filesystem::path name_to_remove(std::int64_t step) {
    std::filesystem::path name;
    do {  // an earlier job may have left one that could not be removed
      name =
          options_.output / format::removed_name(step, options_.membership.generation, ++removed_);
    } while (std::filesystem::exists(name));
    return name;
  }
  void prune(std::int64_t published);

  const CheckpointOptions options_;
  CheckpointRemoval removal_;
  std::thread thread_;          // the training thread's
  format::Identity identity_;   // the training thread's: of the last begin()
  std::int64_t published_ = 0;  // the training thread's
  int removed_ = 0;             // the training thread's: names given away so far

  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_:
  bool writing_ = false;
  std::int64_t finished_ = 0;
  std::exception_ptr error_;
};

void FolderWriter::remove_stale_folders() {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(options_.output, missing)) {
    const std::string name = entry.path().filename().string();
    if (!format::is_temporary(name)) continue;
    if (format::is_removed(name)) {  // an old checkpoint: one that stays does no harm
      removal_.start(entry.path());
      continue;
    }
    std::error_code error;
    std::filesystem::remove_all(entry.path(), error);
    // The writer of an earlier generation may be removing the same folder: only what stays counts.
    if (error && std::filesystem::exists(entry.path(), missing)) {
      throw StorageError(entry.path().string() + ": " + error.message());
    }
  }
}

void FolderWriter::begin(const TrainingState& state, std::int64_t step, const nlohmann::json& job,
                         CheckpointMode mode) {
  wait();
  if (thread_.joinable()) thread_.join();
  identity_ = {.step = step,
               .world_size = options_.membership.world_size,
               .global_batch = options_.global_batch,
               .classes = state.classes,
               .embedding_size = state.head.state().centres.shape[1],
               .loss_scale = state.loss_scale.state(),
               .job = job};
  {
    const std::lock_guard lock(mutex_);
    writing_ = true;
  }
  const std::vector<MakeFile> files = files_of(state, options_.membership, mode);
  if (mode == CheckpointMode::kInPlace) return run(step, files);
  thread_ = std::thread([this, step, copies = made(files)] { run(step, copies); });
}

void FolderWriter::run(std::int64_t step, const std::vector<MakeFile>& files) {
  std::exception_ptr error;
  try {
    removal_.wait();  // the disk may have no room for one checkpoint more than are kept
    write_part(step, files);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!error) finished_ = step;
  error_ = std::move(error);
  idle_.notify_all();
}

void FolderWriter::write_part(std::int64_t step, const std::vector<MakeFile>& files) const {
  const std::filesystem::path folder = temporary(step);
  std::vector<format::File> written;
  storage([&] { return std::filesystem::create_directories(folder); });
  try {
    for (const MakeFile& make : files) written.push_back(write(folder, make()));
    format::write_part(folder, options_.membership.rank, written);
  } catch (const StorageError&) {  // give back the space: others may need it to end well
    std::error_code ignored;
    if (options_.membership.rank != 0 && !std::filesystem::exists(folder, ignored)) {
      throw CommError(folder.string() + " is gone: rank 0 has given this checkpoint up");
    }
    for (const format::File& file : written) std::filesystem::remove(folder / file.name, ignored);
    std::filesystem::remove(folder, ignored);  // the last worker's succeeds
    throw;
  }
}

std::int64_t FolderWriter::finished_step() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return finished_;
}

void FolderWriter::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !writing_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::vector<format::File> FolderWriter::gather_parts(const std::filesystem::path& folder) const {
  std::vector<format::File> files;
  for (Rank rank = 0; rank < options_.membership.world_size; ++rank) {
    if (!std::filesystem::exists(folder / format::part_name(rank))) {
      throw StorageError(folder.string() + ": the part of rank " + std::to_string(rank) +
                         " is not here; all hosts must share the output folder");
    }
    for (format::File& file : format::read_part(folder, rank)) files.push_back(std::move(file));
  }
  return files;
}

void FolderWriter::publish(std::int64_t step) {
  check(options_.membership.rank == 0, "publish() is rank 0's");
  check(identity_.step == step, "publish() of a step that was not the last begun");
  const std::filesystem::path folder = temporary(step);
  storage([&] {
    format::write_manifest(folder, {.identity = identity_, .files = gather_parts(folder)});
    for (Rank rank = 0; rank < options_.membership.world_size; ++rank) {
      std::filesystem::remove(folder / format::part_name(rank));
    }
    sync_folder(folder);
    const std::filesystem::path replaced = name_to_remove(step);
    move_folder(folder, options_.output / format::folder_name(step), replaced);
    published_ = step;
    if (std::filesystem::exists(replaced)) removal_.start(replaced);
  });
  storage([&] { prune(step); });
}

// The one just published stays whatever its age: others may be left from a longer job.
void FolderWriter::prune(std::int64_t published) {
  const std::filesystem::path newest = options_.output / format::folder_name(published);
  std::int64_t kept = 1;
  for (const format::Published& p : format::published(options_.output)) {
    if (p.folder == newest || kept++ < options_.keep) continue;
    // Out of sight first: a crash must not leave half of it under a checkpoint's name.
    const std::filesystem::path hidden =
        name_to_remove(*format::step_of(p.folder.filename().string()));
    std::error_code error;
    std::filesystem::rename(p.folder, hidden, error);
    if (error) {
      spdlog::warn("{}: cannot remove an old checkpoint: {}", p.folder.string(), error.message());
    } else {
      removal_.start(hidden);
    }
  }
}

}  // namespace

// The tensors of centres_file(), backbone_file() and optimizer_file().
std::size_t checkpoint_copy_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                                  std::size_t optimizer_bytes) {
  return head.centres + head.momentum + head.second + head.updated + backbone.weights +
         backbone.state + optimizer_bytes;
}

std::unique_ptr<CheckpointWriter> make_checkpoint_writer(const CheckpointOptions& options) {
  return std::make_unique<FolderWriter>(options);
}

}  // namespace pfc
