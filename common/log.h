// How all programs write messages: "PROGRAM: error: TEXT", on stderr, so that stdout is for
// results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pfc {

enum class Severity { kNote, kWarning, kError };

/// "pfc-agent: warning: TEXT"; a note has no such word. With `colour`, "warning:" is yellow and
/// "error:" is red. The text, which may quote another program, becomes one line
/// (common/one_line.h).
std::string message_line(std::string_view program, Severity severity, std::string_view text,
                         bool colour);

/// Writes message_line() and a line's end on stderr. Where nobody reads stderr it gives up after 2
/// s, so that a program that ends with an error does end.
void print_message(std::string_view program, Severity severity, std::string_view text);

/// Whether messages on stderr are coloured: where it is a terminal and NO_COLOR is not set
/// (https://no-color.org), unless set_colour() has said otherwise.
bool stderr_has_colour();

/// What --color says: "auto", "always" or "never".
void set_colour(const std::string& when);

/// The levels that --log-level takes, from the one that writes most.
const std::vector<std::string>& log_levels();

/// Sets spdlog's default logger, which writes lines of the form above. REQUIRES: called once, at
/// the beginning of main. Throws InputError for an unknown level.
void set_up_log(const std::string& program, const std::string& level = "info");

}  // namespace pfc
