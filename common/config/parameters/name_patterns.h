// Patterns of tensor names. "*" matches any text: "layer1.*".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

bool matches_pattern(std::string_view name, std::string_view pattern);
bool matches_any(std::string_view name, std::span<const std::string> patterns);

/// Returns the beginnings of a name that end before a dot, and the whole name: "layer1", "layer1.0"
/// and "layer1.0.conv1" for "layer1.0.conv1".
std::vector<std::string> beginnings_of(const std::string& name);

/// Throws InputError if a pattern matches none of `names`. The message begins with the job's key,
/// suggests the nearest beginning of a name, and lists the first words of all names. `what` is what
/// the names belong to, for example "tensor".
void check_patterns(std::string_view key, std::span<const std::string> patterns,
                    std::span<const std::string> names, std::string_view what = "tensor");

}  // namespace pfc
