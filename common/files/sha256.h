// SHA-256 (FIPS 180-4), used for the checksums in checkpoint manifests.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace pfc {

/// Incremental hash. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// Returns 64 lower-case hex characters. Call once, at the end.
  [[nodiscard]] std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the checksum of `bytes` in lower-case hex.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace pfc
