// Stores the fastest algorithm of each convolution on disk. Timing the algorithms takes seconds,
// and runs that use the same algorithms give bit-identical results.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace pfc {

/// cuDNN's numbers for an algorithm and its math type.
struct AlgorithmChoice {
  int algorithm = 0;
  int math = 0;
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};

/// A text file per kind of GPU, version of cuDNN and driver, with one line per choice. All workers
/// of a host share the file. If several choose an algorithm for the same convolution, all of them
/// use the choice that was saved first. A damaged file or a folder that cannot be written is
/// ignored with a warning.
class AlgorithmCache {
 public:
  using Choices = std::map<std::string, AlgorithmChoice>;

  /// Creates `folder` when the first choice is stored. Empty: choices are not stored on disk.
  AlgorithmCache(const std::filesystem::path& folder, const std::string& gpu,
                 const std::string& cudnn_version, const std::string& driver);

  [[nodiscard]] bool on_disk() const { return !path_.empty(); }
  /// REQUIRES: `key` is one line without tabs.
  [[nodiscard]] std::optional<AlgorithmChoice> find(const std::string& key) const;
  /// Stores the choice, unless another worker has stored one meanwhile. Returns the stored one.
  AlgorithmChoice keep(const std::string& key, const AlgorithmChoice& choice);
  /// Removes a choice that does not work on this GPU.
  void forget(const std::string& key);

 private:
  void write(const Choices& choices) const;

  std::filesystem::path path_;
  Choices choices_;
};

}  // namespace pfc
