// Stores the output of a Terminal.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/terminal/output.h"

namespace pfc::testing {

class TextOutput final : public Output {
 public:
  void write(Kind kind, std::string_view text) override {
    (kind == Kind::kWorkerStdout ? out : err).append(text);
    both.append(text);
  }

  std::string out, err;
  std::string both;  ///< out and err, in the order of writing
};

}  // namespace pfc::testing
