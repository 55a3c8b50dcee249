// One thing that a check has looked at on a host (docs/check.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pfc {

struct CheckFinding {
  enum class Verdict { kOk, kNote, kSlows, kStops };
  /// With the findings of other hosts that have the same `what`.
  enum class Comparison { kNone, kSameEverywhere, kAsFastAsOthers };

  std::string what;      ///< "open files"
  std::string found;     ///< "a limit of 1024"
  std::string expected;  ///< "at least 120"; empty: there is nothing to expect
  Verdict verdict = Verdict::kOk;
  std::string remedy = {};  ///< what a person does about it, in one sentence
  double value = 0;         ///< of what was measured, in `unit`
  std::string unit = {};    ///< "images/s"; empty: nothing was measured
  Comparison comparison = Comparison::kNone;
  /// The verdict where another host has something else, or is much faster. The remedy is for that.
  Verdict otherwise = Verdict::kOk;
  double enough = 0;    ///< a value from here on is never slow; 0: there is no such value
  bool of_host = true;  ///< false: of this worker alone
};

/// Takes what was found so far, so that it is known whatever becomes of this process. Throws
/// CommError.
using TellFindings = std::function<void(const std::vector<CheckFinding>&)>;

}  // namespace pfc
