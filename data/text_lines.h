// Reads a text file of any size line by line, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/doing.h"

namespace pfc {

/// Usual maximum of a line's bytes; paths are shorter.
inline constexpr std::size_t kLongestLine = 16384;

/// Calls take(line, number) for each line, numbered from 1, including empty lines and a last line
/// without a line end. Lines end with "\n" or "\r\n"; in a file without any "\n" they end with
/// "\r". Line ends and a byte order mark are removed. UTF-16 with a byte order mark is converted to
/// UTF-8. Throws InputError that names file and line if the file cannot be read or has a line
/// longer than `longest` bytes. Also rethrows exceptions of `take`.
void read_lines(const std::filesystem::path& file, const Doing& doing,
                const std::function<void(std::string_view line, std::int64_t number)>& take,
                std::size_t longest = kLongestLine);

/// Returns the path with "/" instead of "\\", the separator in lists made on Windows.
std::string with_slashes(std::string_view path);

/// Returns the non-empty fields of a line, separated by tabs, or, if it has no tab, by any of
/// `others`. Views of the line.
std::vector<std::string_view> fields_of(std::string_view line, std::string_view others);
/// Returns the part of a line from the first to the last of these fields, including separators.
/// REQUIRES: `fields` come from fields_of() on one line; not empty.
std::string_view joined(std::span<const std::string_view> fields);

}  // namespace pfc
