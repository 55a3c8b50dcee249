// What a worker tells of a long work before its first step.
#pragma once

#include <functional>
#include <string>

namespace pfc {

/// Takes a line that says what is being done, again and again while the work goes on: "scanning
/// /data/train.rec: 40 %". Called by the thread that does the work. Empty: nobody asks.
using Doing = std::function<void(const std::string& what)>;

}  // namespace pfc
