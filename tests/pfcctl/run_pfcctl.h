// The program as a person meets it: what it prints, and its exit code.
#pragma once

#include <sys/wait.h>

#include <cstdio>
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

}  // namespace pfc
