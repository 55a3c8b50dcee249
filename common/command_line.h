// What the command lines of all programs have in common: --help, --version, --color, suggestions
// for mistyped words, and how an error becomes one line and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pfc {

/// Adds --version and --color to the program and parses. The program's own options are also taken
/// after a command: pfcctl status --color never. Returns the exit code when the program has nothing
/// left to do (--help, --version). Throws InputError for a mistake: it names the option or command,
/// what was found, what was expected, and for a mistyped word the nearest one that exists.
std::optional<int> parse_command_line(CLI::App& program, int argc, char** argv);

/// Checks an address: HOST:PORT, with a port from 1 to 65535.
CLI::Validator host_and_port();

/// Checks a whole number.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Takes one of these words. The option's variable gets its place in the list, as an enumeration
/// counts.
CLI::Validator choice_of(const std::vector<std::string>& words);

/// Takes a limit of time, from a millisecond, or from 0 where there may be none, to a year: "70"
/// (seconds), "2.5s", "500ms", "2min", "1h". The option's variable gets the seconds.
CLI::Validator duration(bool may_be_none = false);

/// Runs `body`, a program's main. An exception becomes one line on stderr and an exit code:
/// kExitBadInput for InputError, kExitFailed for any other. Ignores SIGXFSZ: where a file would
/// grow beyond the limit of this process's files (ulimit -f) the write fails, and that is told.
int run_program(const std::string& name, const std::function<int()>& body);

}  // namespace pfc
