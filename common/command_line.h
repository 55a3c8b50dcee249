// Common command-line handling of all programs: --help, --version, --color, suggestions for
// mistyped words, and errors as one line with an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pfc {

/// Adds --version and --color to the program and parses the arguments. The program's own options
/// are also accepted after a command: pfcctl status --color never. Returns an exit code if nothing
/// is left to do (--help, --version). Throws InputError for a wrong argument. The message names the
/// option or command, what was found and what was expected, and suggests the nearest word for a
/// typing error.
std::optional<int> parse_command_line(CLI::App& program, int argc, char** argv);

/// Accepts HOST:PORT with a port from 1 to 65535.
CLI::Validator host_and_port();

/// Accepts a whole number in [least, most].
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Accepts one of these words. The variable receives the word's index, for use as an enumeration.
CLI::Validator choice_of(const std::vector<std::string>& words);

/// Accepts a duration from 1 ms (or from 0, with `may_be_none`) to a year: "70" (seconds), "2.5s",
/// "500ms", "2min", "1h". The option's variable receives seconds.
CLI::Validator duration(bool may_be_none = false);

/// Runs `body`, a program's main. An exception becomes one line on stderr and an exit code:
/// kExitBadInput for InputError, kExitFailed for any other. Ignores SIGXFSZ, so that a write
/// beyond the file size limit (ulimit -f) fails with an error instead of killing the process.
int run_program(const std::string& name, const std::function<int()>& body);

}  // namespace pfc
