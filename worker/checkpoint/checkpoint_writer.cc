#include <sys/stat.h>

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

#include "comm/shard.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/safetensors.h"
#include "model/files/model_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_folders.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/checkpoint/transfer/file_transfer.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

/// One file to write.
struct FileContent {
  std::string name;
  std::vector<SafetensorsEntry> entries = {};  ///< views of `copies`, or of the state itself
  std::vector<HostTensor> copies = {};
  std::map<std::string, std::string> metadata = {};

  void add(HostTensor copy) {
    entries.push_back({copy.name, copy.dtype, copy.shape, copy.bytes});
    copies.push_back(std::move(copy));  // moving keeps the bytes' addresses
  }
  void add(std::vector<HostTensor> all) {
    for (HostTensor& copy : all) add(std::move(copy));
  }
};

/// Creates a file's content from the current state.
using MakeFile = std::function<FileContent()>;

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  shape.reserve(static_cast<std::size_t>(tensor.shape.rank()));
  for (int i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
  return shape;
}

void add_tensor(FileContent& file, Ops& ops, const std::string& name, const Tensor& tensor,
                CheckpointMode mode) {
  std::vector<std::int64_t> shape = shape_of(tensor);
  const std::string dtype = format::dtype_name(tensor.dtype);
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

/// Returns a table of the head that is written in pieces, each while its rows are in memory.
/// REQUIRES: the table is in host memory or in a file.
SafetensorsEntry table_in_pieces(Head& head, const std::string& name, const Tensor& table) {
  const auto pieces = [&head, table](const ByteSink& sink) {
    const std::int64_t first = head.shard().begin;
    for (const RowRange& piece : pieces_of(head.shard(), table.shape[1])) {
      const auto pinned = head.pin(piece, PageUse::kRead, table);
      const Tensor rows = row_range(table, piece.begin - first, piece.size());
      sink({static_cast<const std::byte*>(rows.data), rows.bytes()});
    }
  };
  return {.name = name,
          .dtype = format::dtype_name(table.dtype),
          .shape = shape_of(table),
          .bytes = {},
          .pieces = pieces};
}

/// Adds a table of the head and its scales, if it has them. A table that is in a kept file stays
/// there.
void add_rows(FileContent& file, const TrainingState& state, const std::string& name,
              const ScaledRows& rows, CheckpointMode mode) {
  if (!rows) return;
  if (!state.head.centre_file().kept()) {
    if (mode == CheckpointMode::kInPlace && state.ops.on_host()) {
      file.entries.push_back(table_in_pieces(state.head, name, rows));
    } else {
      add_tensor(file, state.ops, name, rows, mode);
    }
  }
  if (rows.scales) add_tensor(file, state.ops, name + format::kScaleSuffix, rows.scales, mode);
}

/// Adds a tensor of values in host memory.
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

/// Adds the number of updates that each row has seen, and the history of updates.
void add_history(FileContent& file, const Head::State& head, CheckpointMode mode) {
  static_assert(sizeof(PastUpdate) == 3 * sizeof(float));
  const std::span<const PastUpdate> updates = head.history->updates();
  if (updates.empty()) return;
  add_values(file, format::kUpdated, "I32", {static_cast<std::int64_t>(head.updated.size())},
             std::as_bytes(head.updated), mode);
  add_values(file, format::kUpdates, "F32", {static_cast<std::int64_t>(updates.size()), 3},
             std::as_bytes(updates), mode);
}

FileContent centres_file(const TrainingState& state, const Membership& me,
                         const format::Tables& tables, CheckpointMode mode) {
  const Head::State head = state.head.state();
  const RowRange rows = state.head.shard();
  FileContent file{.name = format::centres_name(me.rank, me.world_size),
                   .metadata = {{"first_class", std::to_string(rows.begin)},
                                {"end_class", std::to_string(rows.end)}}};
  if (tables.kept()) {
    file.metadata[format::kTables] = tables_text(state.head.keep_tables(tables.checkpoint));
  }
  add_rows(file, state, format::kWeight, head.centres, mode);
  add_rows(file, state, format::kMomentum, head.momentum, mode);
  add_rows(file, state, format::kSecond, head.second, mode);
  add_history(file, head, mode);
  return file;
}

std::map<std::string, std::string> about_backbone(const TrainingState& state) {
  return metadata_of({.network = state.network, .pixels = state.pixels});
}

FileContent backbone_file(const TrainingState& state) {
  FileContent file{.name = format::kBackbone, .metadata = about_backbone(state)};
  file.add(export_state_dict(state.ops, state.backbone));
  return file;
}

FileContent average_file(const TrainingState& state) {
  FileContent file{.name = format::kBackboneAverage, .metadata = about_backbone(state)};
  state.average->during([&] { file.add(export_state_dict(state.ops, state.backbone)); });
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

FileContent neighbours_file(const ClassNeighbours& neighbours, CheckpointMode mode) {
  FileContent file{.name = format::kNeighboursFile};
  add_values(file, format::kNeighbours, "I32",
             {std::ssize(neighbours.table) / neighbours.degree, neighbours.degree},
             std::as_bytes(std::span(neighbours.table)), mode);
  return file;
}

/// Returns this worker's files. They borrow all arguments.
std::vector<MakeFile> files_to_write(const TrainingState& state, const Membership& me,
                                     const format::Tables& tables, CheckpointMode mode) {
  std::vector<MakeFile> files;
  files.emplace_back([&, mode] { return centres_file(state, me, tables, mode); });
  if (me.rank == 0) {  // every worker has the same backbone
    files.emplace_back([&state] { return backbone_file(state); });
    files.emplace_back([&state] { return optimizer_file(state); });
    if (state.average != nullptr) files.emplace_back([&state] { return average_file(state); });
    const ClassNeighbours* const neighbours = state.head.state().neighbours;
    if (neighbours != nullptr && !neighbours->table.empty()) {
      files.emplace_back([neighbours, mode] { return neighbours_file(*neighbours, mode); });
    }
  }
  return files;
}

/// Creates the content of all files now. Each content is freed after it has been taken.
std::vector<MakeFile> made(const std::vector<MakeFile>& files) {
  std::vector<MakeFile> done;
  for (const MakeFile& make : files) {
    // shared_ptr only because std::function must be copyable.
    auto content = std::make_shared<FileContent>(make());
    done.emplace_back([content] { return std::move(*content); });
  }
  return done;
}

format::File write_content(const std::filesystem::path& folder, const FileContent& file) {
  const WrittenFile written = write_safetensors(folder / file.name, file.entries, file.metadata);
  return {.name = file.name, .bytes = written.bytes, .sha256 = written.sha256};
}

class FolderWriter : public CheckpointWriter {
 public:
  explicit FolderWriter(const CheckpointOptions& options) : options_(options), folders_(options) {
    if (options_.membership.rank == 0) folders_.remove_leftovers();
  }
  /// Rank 0 removes a checkpoint that was not published, including the other workers' parts.
  ~FolderWriter() override {
    if (thread_.joinable()) thread_.join();
    if (options_.membership.rank == 0 && identity_.trained.step != published_) {
      folders_.give_up(identity_.trained.step);
    }
  }

  void begin(const TrainingState& state, const TrainedSoFar& trained, const nlohmann::json& job,
             CheckpointMode mode) override;
  std::int64_t finished_step() override;
  void wait() override;
  std::uint64_t publish(std::int64_t step) override;

 private:
  [[nodiscard]] format::Tables tables_to_keep(const CentreFile& file, std::int64_t step) const;
  void run(std::int64_t step, const std::vector<MakeFile>& files);
  void write_part(std::int64_t step, const std::vector<MakeFile>& files) const;
  void send_part(const std::vector<MakeFile>& files) const;
  void receive_parts(const std::filesystem::path& folder) const;
  [[nodiscard]] std::vector<format::File> gather_parts(const std::filesystem::path& folder) const;

  const CheckpointOptions options_;
  CheckpointFolders folders_;
  std::thread thread_;          // training thread only
  format::Identity identity_;   // of the last begin(); training thread only
  std::int64_t published_ = 0;  // training thread only

  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_:
  bool writing_ = false;
  std::int64_t finished_ = 0;
  std::exception_ptr error_;
};

void FolderWriter::begin(const TrainingState& state, const TrainedSoFar& trained,
                         const nlohmann::json& job, CheckpointMode mode) {
  wait();
  if (thread_.joinable()) thread_.join();
  identity_ = {.job_id = options_.job_id,
               .trained = trained,
               .world_size = options_.membership.world_size,
               .global_batch = options_.global_batch,
               .classes = state.classes,
               .embedding_size = state.head.state().centres.shape[1],
               .sample_unit = state.head.positions().sample_unit,
               .position_seed = state.head.positions().seed,
               .tables = tables_to_keep(state.head.centre_file(), trained.step),
               .loss_scale = state.loss_scale.state(),
               .loss_state = *state.head.state().loss,
               .threads = state.threads,
               .data = state.data,
               .job = job};
  {
    const std::lock_guard lock(mutex_);
    writing_ = true;
  }
  try {
    const std::vector<MakeFile> files =
        files_to_write(state, options_.membership, identity_.tables, mode);
    if (mode == CheckpointMode::kInPlace) return run(trained.step, files);
    thread_ = std::thread([this, step = trained.step, copies = made(files)] { run(step, copies); });
  } catch (...) {  // no memory for the copies, or no thread could be started
    const std::lock_guard lock(mutex_);
    writing_ = false;
    throw;
  }
}

/// Returns nothing if the tables are not in a kept file.
format::Tables FolderWriter::tables_to_keep(const CentreFile& file, std::int64_t step) const {
  if (!file.kept()) return {};
  return {.folder = file.folder.filename().string(),
          .checkpoint = format::tables_checkpoint(
              step, {.job_id = options_.job_id, .generation = options_.membership.generation})};
}

void FolderWriter::run(std::int64_t step, const std::vector<MakeFile>& files) {
  const TraceTrack::Scope scope(options_.track, "write_checkpoint", step);
  std::exception_ptr error;
  try {
    folders_.wait_for_removals();  // the disk may lack space for an extra checkpoint
    if (options_.links != nullptr && options_.links->to_rank_zero) {
      send_part(files);
    } else {
      write_part(step, files);
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!error) finished_ = step;
  error_ = std::move(error);
  idle_.notify_all();
}

// Several workers call this; one creates the folder. Does not create the output folder itself: if
// that is missing, it was removed.
void make_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST) return;
  if (errno != ENOENT) throw StorageError(folder.string() + ": " + file_error_text(errno));
  throw StorageError("output: " + folder.parent_path().string() +
                     " is missing; it existed when the job began");
}

/// Sends one file: the part of a worker without a backbone to write.
void FolderWriter::send_part(const std::vector<MakeFile>& files) const {
  check(files.size() == 1, "only rank 0 writes more than one file");
  const FileContent file = files.front()();
  send_file(*options_.links->to_rank_zero,
            [&](const ByteSink& sink) { stream_safetensors(sink, file.entries, file.metadata); });
}

/// Receives the parts of the workers that do not see the folder.
void FolderWriter::receive_parts(const std::filesystem::path& folder) const {
  std::vector<Incoming> incoming;
  std::vector<format::File> files;
  for (const OutputLink& link : options_.links->remote) {
    files.push_back({.name = format::centres_name(link.rank, options_.membership.world_size)});
    incoming.push_back({.link = &link, .file = folder / files.back().name});
  }
  const std::vector<WrittenFile> written = receive_files(incoming, options_.links->host);
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].bytes = written[i].bytes;
    files[i].sha256 = written[i].sha256;
    format::write_part(folder, incoming[i].link->rank, {files[i]});
  }
}

void FolderWriter::write_part(std::int64_t step, const std::vector<MakeFile>& files) const {
  const std::filesystem::path folder = folders_.temporary(step);
  std::vector<format::File> written;
  make_folder(folder);
  try {
    if (options_.links != nullptr) receive_parts(folder);
    for (const MakeFile& make : files) written.push_back(write_content(folder, make()));
    format::write_part(folder, options_.membership.rank, written);
  } catch (const StorageError&) {  // free the space, which other workers' parts may need
    std::error_code error;
    if (options_.membership.rank != 0 && !std::filesystem::exists(folder, error) && !error) {
      throw CommError(folder.string() + " is missing: rank 0 has abandoned this checkpoint");
    }
    // Rank 0 or the next job removes what cannot be removed now.
    for (const format::File& file : written) std::filesystem::remove(folder / file.name, error);
    std::filesystem::remove(folder, error);  // succeeds for the last worker
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
                         " is missing; it existed when its worker reported it as written");
    }
    for (format::File& file : format::read_part(folder, rank)) files.push_back(std::move(file));
  }
  return files;
}

std::uint64_t FolderWriter::publish(std::int64_t step) {
  check(options_.membership.rank == 0, "publish() is only for rank 0");
  check(identity_.trained.step == step, "publish(): not the step that was begun last");
  const std::filesystem::path folder = folders_.temporary(step);
  std::uint64_t bytes = 0;
  as_storage_error([&] {
    const std::vector<format::File> files = gather_parts(folder);
    for (const format::File& file : files) bytes += file.bytes;
    format::write_manifest(folder, {.identity = identity_, .files = files});
    for (Rank rank = 0; rank < options_.membership.world_size; ++rank) {
      std::filesystem::remove(folder / format::part_name(rank));
    }
  });
  sync_folder(folder);
  folders_.publish(identity_);
  published_ = step;
  return bytes;
}

}  // namespace

// The tensors of centres_file(), backbone_file(), optimizer_file(), average_file() and
// neighbours_file().
std::size_t checkpoint_copy_bytes(const HeadMemory& head, const BackboneMemory& backbone,
                                  std::size_t optimizer_bytes, std::int64_t updates) {
  return head.rows() + head.saved_neighbours + backbone.weights + backbone.state + optimizer_bytes +
         static_cast<std::size_t>(updates) * sizeof(PastUpdate);
}

std::unique_ptr<CheckpointWriter> make_checkpoint_writer(const CheckpointOptions& options) {
  return std::make_unique<FolderWriter>(options);
}

}  // namespace pfc
