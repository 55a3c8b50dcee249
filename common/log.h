// Messages of all programs: "PROGRAM: error: TEXT", on stderr; stdout is for results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

enum class Severity { kNote, kWarning, kError };

/// Returns text such as "pfc-agent: warning: TEXT"; for a note, "pfc-agent: TEXT". With `colour`,
/// "warning:" is yellow and "error:" is red. The text may quote another program and is converted
/// to one line (common/one_line.h).
std::string message_line(std::string_view program, Severity severity, std::string_view text,
                         bool colour);

/// Writes message_line() and a newline to stderr. Gives up after 2 s if stderr is not read, so
/// that a program that fails can exit.
void print_message(std::string_view program, Severity severity, std::string_view text);

/// Returns whether messages on stderr are coloured: by default if it is a terminal and NO_COLOR is
/// not set (https://no-color.org). set_colour() overrides this.
bool stderr_has_colour();

/// Sets the value of --color: "auto", "always" or "never".
void set_colour(const std::string& when);

/// Returns the levels that --log-level accepts, most verbose first.
const std::vector<std::string>& log_levels();

/// Configures spdlog's default logger to write lines in the format of message_line(). REQUIRES:
/// called once, at the start of main. Throws InputError for an unknown level.
void set_up_log(const std::string& program, const std::string& level = "info");

}  // namespace pfc
