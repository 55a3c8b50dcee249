// Which algorithm was the fastest for a convolution, kept on disk between runs: choosing costs
// seconds, and the same choice is the same bits.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace pfc {

/// As cuDNN numbers them.
struct AlgorithmChoice {
  int algorithm = 0;
  int math = 0;
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};

/// One text file a kind of GPU and version of cuDNN, a line a choice. Workers of a host share it:
/// the first choice that is kept holds for all. A damaged file is ignored with a warning, and so is
/// a folder that cannot be written.
class AlgorithmCache {
 public:
  using Choices = std::map<std::string, AlgorithmChoice>;

  /// `folder` is made when something is kept; empty: nothing is.
  AlgorithmCache(const std::filesystem::path& folder, const std::string& gpu,
                 const std::string& cudnn_version);

  [[nodiscard]] bool on_disk() const { return !path_.empty(); }
  /// `key`: one line without tabs.
  [[nodiscard]] std::optional<AlgorithmChoice> find(const std::string& key) const;
  /// Returns what holds: the choice given, or one that another worker has kept meanwhile.
  AlgorithmChoice keep(const std::string& key, const AlgorithmChoice& choice);
  /// A choice that turned out to be none for this GPU.
  void forget(const std::string& key);

 private:
  void write(const Choices& choices) const;

  std::filesystem::path path_;
  Choices choices_;
};

}  // namespace pfc
