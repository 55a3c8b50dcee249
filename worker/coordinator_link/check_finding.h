// One result of a check on a host (docs/check.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pfc {

struct CheckFinding {
  enum class Verdict { kOk, kNote, kSlows, kStops };
  /// How to compare a finding with the findings of other hosts that have the same `what`.
  enum class Comparison { kNone, kSameEverywhere, kAsFastAsOthers };

  std::string what;      ///< "open files"
  std::string found;     ///< "a limit of 1024"
  std::string expected;  ///< "at least 120"; empty if there is no expectation
  Verdict verdict = Verdict::kOk;
  std::string remedy = {};  ///< what the user should do, in one sentence
  double value = 0;         ///< measured value, in `unit`
  std::string unit = {};    ///< "images/s"; empty if nothing was measured
  Comparison comparison = Comparison::kNone;
  /// The verdict if another host has a different finding, or is much faster. `remedy` says what to
  /// do then.
  Verdict otherwise = Verdict::kOk;
  double enough = 0;    ///< values of at least this are never slow; 0 if there is no such limit
  bool of_host = true;  ///< false: applies only to this worker
};

/// Reports the findings so far, in case this process fails later. Throws CommError.
using TellFindings = std::function<void(const std::vector<CheckFinding>&)>;

}  // namespace pfc
