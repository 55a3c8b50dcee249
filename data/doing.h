// Progress reports of long work before a worker's first step.
#pragma once

#include <functional>
#include <string>

namespace pfc {

/// Receives a line about the current work, repeatedly while it continues: "scanning
/// /data/train.rec: 40 %". Called by the thread that does the work. May be empty.
using Doing = std::function<void(const std::string& what)>;

}  // namespace pfc
