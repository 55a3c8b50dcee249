#include "worker/checkpoint/transfer/fetch_checkpoint.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "comm/rank_zero.h"
#include "common/byte_size.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/mapped_file.h"
#include "worker/checkpoint/checkpoint_folders.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/transfer/file_transfer.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

/// The checkpoint that a worker finds in its own `output` folder.
struct Found {
  std::int64_t images = -1;  ///< images seen in training; -1: no checkpoint of this job
  std::int64_t step = 0;
};

/// Returns the newest own checkpoint whose files have all of it. Throws on rank 0 if its folder
/// cannot be listed.
std::optional<format::Published> newest_own(const CheckpointOptions& options, bool is_rank_zero) {
  try {
    for (format::Published& p : format::published(options.output)) {
      const bool is_own = p.identity && p.identity->job_id == options.job_id;
      if (is_own && (is_rank_zero || !p.identity->tables.kept())) return std::move(p);
    }
  } catch (const StorageError& error) {
    if (is_rank_zero) throw;
    spdlog::warn("{}; checkpoints there are ignored", error.what());
  }
  return std::nullopt;
}

/// Returns the worker with the newest checkpoint; 0 if rank 0 has it.
Rank holder_of(const std::vector<Found>& all, const OutputLinks& links) {
  Rank holder = 0;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const bool newer = all[rank].images > all[static_cast<std::size_t>(holder)].images;
    if (newer && !links.sees[rank]) holder = static_cast<Rank>(rank);
  }
  return holder;
}

void send(Comm& to_rank_zero, const fs::path& file) {
  const MappedFile mapped(file);
  send_file(to_rank_zero, [&](const ByteSink& sink) { sink(mapped.bytes()); });
}

/// Sends the manifest and the files that it lists.
void send_checkpoint(Comm& to_rank_zero, const fs::path& folder) {
  send(to_rank_zero, folder / format::kManifest);
  for (const format::File& file : format::load_manifest(folder).files) {
    send(to_rank_zero, folder / file.name);
  }
}

WrittenFile receive(const OutputLink& link, const fs::path& file, const std::string& host) {
  const Incoming incoming{.link = &link, .file = file};
  return receive_files({&incoming, 1}, host).front();
}

/// Returns the number of bytes received. The sender sends every file, so errors are thrown only
/// after the last file was received.
std::uint64_t receive_checkpoint(const OutputLink& link, std::int64_t step,
                                 const CheckpointOptions& options) {
  CheckpointFolders folders(options);
  const fs::path folder = folders.temporary(step);
  fs::create_directory(folder);
  std::uint64_t bytes = receive(link, folder / format::kManifest, options.links->host).bytes;
  const format::Manifest manifest = format::load_manifest(folder);
  std::string wrong;
  for (const format::File& file : manifest.files) {
    const fs::path path = folder / fs::path(file.name).filename();
    const WrittenFile written = receive(link, path, options.links->host);
    bytes += written.bytes;
    if (format::is_file_name(file.name) && written.sha256 == file.sha256) continue;
    wrong = fmt::format("host {}: {}/{}: sha256 is {}, expected {}", link.host,
                        (options.output / format::folder_name(step)).string(), file.name,
                        written.sha256, file.sha256);
  }
  if (!wrong.empty()) {
    folders.give_up(step);
    throw InputError(wrong +
                     "; move this checkpoint out of the folder on that host, then submit the "
                     "job again with \"resume\": true");
  }
  sync_folder(folder);
  folders.publish(manifest.identity);
  folders.wait_for_removals();
  return bytes;
}

}  // namespace

std::string fetch_newest_checkpoint(Comm& host, const CheckpointOptions& options) {
  const OutputLinks& links = *options.links;
  Found mine;
  std::optional<format::Published> own = newest_own(options, host.rank() == 0);
  if (own) mine = {.images = own->identity->trained.images, .step = own->identity->trained.step};
  std::vector<Found> all(static_cast<std::size_t>(host.size()));
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Found));
  host.all_gather(Tensor(&mine, DType::kUInt8, {kBytes}),
                  Tensor(all.data(), DType::kUInt8, {kBytes * host.size()}));
  const Rank holder = holder_of(all, links);
  if (holder == 0) return {};
  if (host.rank() == holder) send_checkpoint(*links.to_rank_zero, own->folder);
  std::string told;
  on_rank_zero(host, [&] {
    const OutputLink& link = *std::ranges::find(links.remote, holder, &OutputLink::rank);
    const std::int64_t step = all[static_cast<std::size_t>(holder)].step;
    const std::uint64_t bytes = receive_checkpoint(link, step, options);
    told = fmt::format("copied the checkpoint of step {} from host {} to {} on host {} ({})", step,
                       link.host, options.output.string(), links.host, byte_size_text(bytes));
  });
  return told;
}

}  // namespace pfc
