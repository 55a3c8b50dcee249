// Converts amounts of memory to and from text.
#pragma once

#include <cstdint>
#include <string>

namespace pfc {

/// Returns the bytes of a text such as "80GB", "80GiB", "512 MB", "1.5GB" or "1000000". KB, MB, GB
/// and TB are powers of 1000; KiB, MiB, GiB and TiB of 1024. Throws InputError, whose message
/// starts with `origin` ("--device-memory"), for other text, and for numbers below a million
/// without a unit.
std::uint64_t parse_byte_size(const std::string& text, const std::string& origin);

/// Returns text with three significant digits: "512 bytes", "12.3 MiB", "1.50 GiB".
std::string byte_size_text(std::uint64_t bytes);

}  // namespace pfc
