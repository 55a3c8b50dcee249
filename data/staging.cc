#include "data/staging.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "common/byte_size.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "common/machine/host_memory.h"
#include "data/layouts/layout.h"
#include "data/layouts/staged_names.h"
#include "data/records/writing/part_file.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpare = std::uint64_t{64} << 20;  // bytes to leave free
constexpr std::chrono::milliseconds kPause{200};
constexpr const char* kNames = "identities.txt";
constexpr const char* kLock = "lock";           // file name in the folder
constexpr long kMemoryFileSystem = 0x01021994;  // TMPFS_MAGIC in linux/magic.h

struct Source {
  fs::path from, to;
  struct stat status {};
};

[[noreturn]] void fail_staging(const fs::path& path, const char* doing) {
  const int error = errno;
  throw StorageError(path.string() + ": cannot " + doing + ": " + file_error_text(error));
}

/// Creates the folder if needed. Rejects a folder of another user, because every user can write to
/// /dev/shm.
void make_own_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail_staging(folder, "create this folder");
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) fail_staging(folder, "inspect");
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) {
    throw InputError(folder.string() +
                     ": is not a folder of this user; move it away, or stage somewhere else");
  }
}

/// Lock held by the process that changes the folder. Creates the folder if it is missing.
class Lock {
 public:
  Lock(const fs::path& folder, const Doing& doing) : file_(folder / kLock) {
    do {
      make_own_folder(folder);
      fd_ = open_to_write(file_, O_RDWR | O_CREAT);
      if (fd_ < 0 && errno != ENOENT) fail_staging(file_, "open");
      if (fd_ >= 0) wait(doing);
    } while (fd_ < 0 || !is_there());  // the folder may have been removed meanwhile
  }
  [[nodiscard]] bool has_waited() const { return has_waited_; }

 private:
  void wait(const Doing& doing) {
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) fail_staging(file_, "lock");
      has_waited_ = true;
      if (doing) doing("waiting for another worker that stages the data");
      std::this_thread::sleep_for(kPause);
    }
  }
  [[nodiscard]] bool is_there() const {
    struct stat there {
    }, open{};
    return ::fstat(fd_, &open) == 0 && ::lstat(file_.c_str(), &there) == 0 &&
           there.st_dev == open.st_dev && there.st_ino == open.st_ino;
  }

  const fs::path file_;
  Fd fd_;
  bool has_waited_ = false;
};

bool same_size_and_time(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

bool is_copied(const Source& source) {
  struct stat there {};
  return ::lstat(source.to.c_str(), &there) == 0 && S_ISREG(there.st_mode) &&
         same_size_and_time(there, source.status);
}

void check_room(const fs::path& where, std::uint64_t needed) {
  struct statvfs room {};
  struct statfs kind {};
  if (::statvfs(where.c_str(), &room) != 0 || ::statfs(where.c_str(), &kind) != 0) {
    fail_staging(where, "inspect");
  }
  std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
  const char* what = "free";
  if (static_cast<long>(kind.f_type) == kMemoryFileSystem) {
    const std::uint64_t memory = host_memory().available_bytes;
    if (memory < free) what = "of memory available";
    free = std::min(free, memory);
  }
  if (needed + kSpare <= free) return;
  throw InputError(
      fmt::format("stage: {} has {} {}, and the data need {}: name another folder, or "
                  "leave stage out and read the data where they are",
                  where.string(), byte_size_text(free), what, byte_size_text(needed + kSpare)));
}

void copy_bytes(const Source& source, PartFile& to, const Doing& doing) {
  RegularFile from(source.from);
  std::vector<std::byte> piece(std::size_t{4} << 20);
  std::uint64_t done = 0;
  while (const std::size_t bytes = from.read(piece)) {
    to.write(std::span(piece).first(bytes));
    done += bytes;
    if (doing) {
      doing(fmt::format("staging {}: {} %", source.from.string(),
                        100 * done / std::max<std::uint64_t>(from.bytes(), 1)));
    }
  }
  struct stat after {};
  if (::stat(source.from.c_str(), &after) != 0) fail_staging(source.from, "inspect");
  if (same_size_and_time(after, source.status)) return;
  throw StorageError(source.from.string() + ": has changed while it was staged; stage it again");
}

void copy(const Source& source, const Doing& doing) {
  PartFile to(source.to);
  to.keep(0);
  try {
    copy_bytes(source, to, doing);
    to.commit();
  } catch (...) {  // a partial file would only waste space
    ::unlink(to.part().c_str());
    throw;
  }
  const std::array<timespec, 2> times{source.status.st_mtim, source.status.st_mtim};
  if (::utimensat(AT_FDCWD, source.to.c_str(), times.data(), 0) != 0) {
    fail_staging(source.to, "set the time of");
  }
}

std::vector<Source> sources_of(const fs::path& rec, const fs::path& folder) {
  std::vector<Source> sources;
  for (const fs::path& file : files_to_stage(rec)) {
    const bool numbered = lower_case_ending(file) == ".tar";  // a shard
    Source source{.from = file,
                  .to = folder / (numbered ? staged_shard_name(sources.size(), file)
                                           : file.filename().string())};
    if (::stat(file.c_str(), &source.status) != 0) fail_staging(file, "inspect");
    if (std::ranges::find(sources, source.to, &Source::to) != sources.end()) {
      throw InputError(
          fmt::format("{}: stage: two of its files are called {}; put them into one "
                      "folder, under different names",
                      rec.string(), file.filename().string()));
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

/// Returns whether this can be the name of a file that pfc has staged.
bool is_staged_name(const std::string& staged) {
  constexpr std::string_view kBeingCopied = ".part";  // used by PartFile
  std::string_view name = staged;
  if (name.ends_with(kBeingCopied)) name.remove_suffix(kBeingCopied.size());
  constexpr std::array<std::string_view, 5> kEndings{".rec", ".idx", ".tar", ".npy",
                                                     ".safetensors"};
  return name == kLock || name == kNames || name == "property" ||
         std::ranges::any_of(kEndings, [&](auto end) { return name.ends_with(end); });
}

/// Returns whether a folder with this file could be taken for a data set of another layout.
bool would_be_read(const fs::path& path) {
  const std::string name = path.filename().string(), ending = path.extension().string();
  return name == "train.lst" || name == "train.tsv" || ending == ".mdb" || ending == ".lmdb";
}

/// Removes shards and .idx files of an earlier copy that the data set no longer has, because they
/// would be read too.
void remove_others(const fs::path& folder, const std::vector<Source>& sources) {
  as_storage_error([&] {
    std::vector<fs::path> others;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool wanted =
          name == kLock || std::ranges::find(sources, entry.path(), &Source::to) != sources.end();
      const bool is_file = fs::is_regular_file(entry.symlink_status());
      if (!wanted && is_file && is_staged_name(name)) others.push_back(entry.path());
      if (!is_staged_name(name) && would_be_read(entry.path())) {
        throw InputError(entry.path().string() +
                         ": was not staged by pfc, and pfc would read it instead of the staged "
                         "data; move it elsewhere");
      }
    }
    for (const fs::path& other : others) fs::remove(other);
  });
}

}  // namespace

fs::path staged_folder(const fs::path& rec, const fs::path& where) {
  fs::path normal = fs::absolute(rec).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();  // "faces/" is "faces"
  const std::string path = normal.string();
  return where / fmt::format("{}{}-{}", kStagedFolder, ::geteuid(),
                             sha256_hex(std::as_bytes(std::span(path))).substr(0, 16));
}

namespace {

std::vector<fs::path> embeddings_and_companions(const fs::path& file) {
  const fs::path folder = file.parent_path();
  std::vector<fs::path> files{file};
  if (file.extension() == ".npy") files.push_back(folder / "labels.npy");
  if (something_at(folder / kNames)) files.push_back(folder / kNames);
  return files;
}

std::vector<fs::path> shards_and_names(std::vector<fs::path> shards) {
  const fs::path names = shards.front().parent_path() / kNames;
  if (something_at(names)) shards.push_back(names);
  return shards;
}

}  // namespace

std::vector<fs::path> files_to_stage(const fs::path& rec) {
  Location found = find_layout(rec);
  if (found.layout == Layout::kTar) return shards_and_names(std::move(found.paths));
  if (found.layout == Layout::kSafetensors || found.layout == Layout::kNpy) {
    return embeddings_and_companions(found.paths.front());
  }
  if (found.layout != Layout::kRecordIO) {
    throw InputError(
        rec.string() +
        ": stage: only RecordIO, tar shards and embeddings are copied; make one file of these "
        "images first with pfcctl data pack");
  }
  const fs::path folder = found.paths.front().parent_path();
  std::vector<fs::path> beside{folder / "property", folder / kNames};
  for (const fs::path& rec_file : found.paths) {
    beside.push_back(fs::path(rec_file).replace_extension(".idx"));
  }
  std::vector<fs::path> files = std::move(found.paths);
  std::ranges::copy_if(beside, std::back_inserter(files), something_at);
  return files;
}

namespace {

void expect_folder(const fs::path& where) {
  std::error_code ignored;
  if (fs::is_directory(where, ignored)) return;
  throw InputError("stage: " + where.string() + ": no such folder on this host");
}

std::uint64_t source_bytes(const std::vector<Source>& sources) {
  std::uint64_t bytes = 0;
  for (const Source& each : sources) bytes += static_cast<std::uint64_t>(each.status.st_size);
  return bytes;
}

}  // namespace

void check_staging(std::span<const fs::path> recs, const fs::path& where) {
  expect_folder(where);
  std::uint64_t needed = 0;
  for (const fs::path& rec : recs) {
    std::vector<Source> sources = sources_of(rec, staged_folder(rec, where));
    std::erase_if(sources, is_copied);
    needed += source_bytes(sources);
  }
  if (needed > 0) check_room(where, needed);
}

fs::path stage_dataset(const fs::path& rec, const fs::path& where, const Doing& doing) {
  std::error_code ignored;
  expect_folder(where);
  const fs::path folder = staged_folder(rec, where);
  // Check for errors before the folder is created.
  std::vector<Source> sources = sources_of(rec, folder);
  const Lock lock(folder, doing);
  if (lock.has_waited()) sources = sources_of(rec, folder);  // they may have changed meanwhile
  // Staging renames only shards. All other files keep their names, even if `rec` is a pattern.
  const bool renamed = sources.front().to.filename() != sources.front().from.filename();
  const bool one_file = sources.front().from == rec;
  fs::path opened = folder;
  if (!fs::is_directory(rec, ignored)) {
    opened = renamed ? (one_file ? sources.front().to : folder) : folder / rec.filename();
  }
  remove_others(folder, sources);
  std::erase_if(sources, is_copied);
  // First remove files of other data: there may not be room for both.
  for (const Source& source : sources) fs::remove(source.to, ignored);
  if (!sources.empty()) check_room(folder, source_bytes(sources));
  for (const Source& source : sources) copy(source, doing);
  return opened;
}

bool remove_staged(const fs::path& rec, const fs::path& where, const Doing& doing) {
  const fs::path folder = staged_folder(rec, where);
  if (!something_at(folder)) return false;
  const Lock lock(folder, doing);
  remove_own_folder(folder, is_staged_name, kLock);
  return true;
}

}  // namespace pfc
