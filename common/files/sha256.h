// SHA-256 (FIPS 180-4): the checksum of every file that a checkpoint's manifest lists.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace pfc {

/// Takes bytes piece by piece. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// Lower-case hex, 64 characters; once, at the end.
  [[nodiscard]] std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The checksum of one piece, lower-case hex.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace pfc
