// Amounts of memory as people write and read them.
#pragma once

#include <cstdint>
#include <string>

namespace pfc {

/// "80GB", "80GiB", "512 MB", "1.5GB", "1000000": bytes. KB, MB, GB and TB are powers of 1000; KiB,
/// MiB, GiB and TiB of 1024. Throws InputError, which begins with `origin` ("--device-memory"), for
/// anything else, and for less than a million without a unit.
std::uint64_t parse_byte_size(const std::string& text, const std::string& origin);

/// "512 bytes", "12.3 MiB", "1.50 GiB": three significant digits.
std::string byte_size_text(std::uint64_t bytes);

}  // namespace pfc
