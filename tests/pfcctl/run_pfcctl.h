// Runs the program pfcctl and returns its output and exit code.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>

namespace pfc {

struct Ran {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

inline Ran pfcctl(const std::string& arguments) {
  const std::string command = std::string(PFCCTL) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Ran ran;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof(buffer), pipe)) ran.output.append(buffer, n);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// Expects success and each of the texts in the output.
inline void expect_tells(const Ran& ran, std::initializer_list<const char*> texts) {
  EXPECT_EQ(ran.status, 0) << ran.output;
  for (const char* text : texts) EXPECT_THAT(ran.output, ::testing::HasSubstr(text));
}

/// Expects the result of bad input: one line with these words, and exit code 2.
inline void expect_refused(const std::string& arguments, const std::string& words) {
  const Ran ran = pfcctl(arguments);
  EXPECT_EQ(ran.status, 2) << arguments << ": " << ran.output;
  EXPECT_THAT(ran.output, ::testing::StartsWith("pfcctl: error: ")) << arguments;
  EXPECT_THAT(ran.output, ::testing::HasSubstr(words)) << arguments;
  EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
}

}  // namespace pfc
