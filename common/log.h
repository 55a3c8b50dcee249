// How every program logs: short lines on stderr, so that stdout stays for results.
#pragma once

#include <string>
#include <vector>

namespace pfc {

/// The levels that --log-level takes, from the most talkative.
const std::vector<std::string>& log_levels();

/// Sets spdlog's default logger: lines like "09:15:02 I worker 3: ...". Called once, at the
/// beginning of main; `name` ("worker 3") may be empty. Throws InputError for an unknown level.
void set_up_log(const std::string& name, const std::string& level = "info");

}  // namespace pfc
