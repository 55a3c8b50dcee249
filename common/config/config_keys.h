// The keys of a job file by name: for the parser, for --set, and for the documentation's test.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace pfc {

/// Every key that parse_job takes; "fp16" too, the older way to write
/// "precision": "fp16". In no order that matters.
std::vector<std::string> job_keys();

/// Throws InputError with the nearest known key when `key` is not one of `known`.
void check_known_key(const std::string& key, std::span<const std::string> known,
                     const std::string& origin);

}  // namespace pfc
