#include "kernels/cuda/libraries/algorithm_cache.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/fd.h"
#include "kernels/cuda/cuda_device.h"

namespace pfc {
namespace {

constexpr const char* kFirstLine = "pfc convolution algorithms 2";
constexpr std::uintmax_t kMostBytes = 1 << 20;  // a few networks have a few hundred lines
constexpr int kMostAlgorithms = 64, kMostMaths = 8;

bool parse_line(const std::string& line, AlgorithmCache::Choices& choices) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos || tab == 0) return false;
  std::istringstream numbers(line.substr(tab + 1));
  AlgorithmChoice c;
  if (!(numbers >> c.algorithm >> c.math) || !(numbers >> std::ws).eof()) return false;
  if (c.algorithm < 0 || c.algorithm >= kMostAlgorithms || c.math < 0 || c.math >= kMostMaths) {
    return false;
  }
  choices[line.substr(0, tab)] = c;
  return true;
}

AlgorithmCache::Choices read(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  std::ifstream file(path);
  std::string line;
  AlgorithmCache::Choices choices;
  bool good = bytes <= kMostBytes && std::getline(file, line) && line == kFirstLine;
  while (good && std::getline(file, line)) good = parse_line(line, choices);
  if (good) return choices;
  spdlog::warn("{}: damaged; selecting convolution algorithms again", path.string());
  return {};
}

// Prevents other processes from reading or replacing the file during its lifetime.
class Lock {
 public:
  explicit Lock(const std::filesystem::path& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ < 0 || flock(fd_, LOCK_EX) != 0)
      throw StorageError(path.string() + ": cannot be locked");
  }

 private:
  const Fd fd_;
};

}  // namespace

AlgorithmCache::AlgorithmCache(const std::filesystem::path& folder, const std::string& gpu,
                               const std::string& cudnn_version, const std::string& driver) {
  if (folder.empty()) return;
  std::string name =
      "convolutions-" + gpu + "-cudnn-" + cudnn_version + "-driver-" + driver + ".txt";
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  path_ = folder / name;
  choices_ = read(path_);
}

std::optional<AlgorithmChoice> AlgorithmCache::find(const std::string& key) const {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

AlgorithmChoice AlgorithmCache::keep(const std::string& key, const AlgorithmChoice& choice) {
  if (on_disk()) {
    try {
      std::filesystem::create_directories(path_.parent_path());
      const Lock lock(path_.string() + ".lock");
      Choices all = read(path_);
      if (all.emplace(key, choice).second) write(all);
      choices_.merge(all);
    } catch (const std::exception& error) {
      spdlog::warn("{}; the next run will select convolution algorithms again", error.what());
    }
  }
  return choices_.emplace(key, choice).first->second;
}

void AlgorithmCache::forget(const std::string& key) {
  choices_.erase(key);
  if (!on_disk()) return;
  try {
    const Lock lock(path_.string() + ".lock");
    Choices all = read(path_);
    if (all.erase(key) > 0) write(all);
  } catch (const std::exception& error) {
    spdlog::warn(
        "{}; the file still names a convolution algorithm that fails on this GPU; remove it",
        error.what());
  }
}

void AlgorithmCache::write(const Choices& choices) const {
  std::ostringstream text;
  text << kFirstLine << '\n';
  for (const auto& [key, choice] : choices) {
    text << key << '\t' << choice.algorithm << ' ' << choice.math << '\n';
  }
  write_file_atomically(path_, text.str());
}

std::filesystem::path default_cache_folder() {
  // getenv() is safe here: this runs before other threads start.
  const char* const cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "pfc";
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "pfc";
  return {};
}

}  // namespace pfc
