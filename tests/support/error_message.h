// Returns the message of the error that an operation throws.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace pfc::testing {

/// Runs `operation` and returns the message of the error that it throws. REQUIRES: it throws Error.
template <typename Error, typename Operation>
std::string message_of(Operation&& operation) {
  try {
    operation();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "several lines: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace pfc::testing
