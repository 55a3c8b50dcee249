// The one line that an operation fails with.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace pfc::testing {

/// Runs `operation`, which must throw Error, and gives its message.
template <typename Error, typename Operation>
std::string message_of(Operation&& operation) {
  try {
    operation();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << "not one line: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace pfc::testing
