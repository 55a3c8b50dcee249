#include "common/command_line.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/config/nearest.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/exit_codes.h"
#include "common/files/file_error.h"
#include "common/log.h"
#include "common/network_address.h"
#include "common/version.h"

namespace pfc {
namespace {

constexpr const char* kDuration = "duration";  // name of the validator

/// Maps a command name of another program to pfcctl's command with the same meaning.
const std::map<std::string, std::string> kOtherWords{
    {"cancel", "stop"},  {"kill", "stop"}, {"abort", "stop"}, {"run", "submit"},
    {"start", "submit"}, {"ps", "status"}, {"list", "queue"}, {"jobs", "queue"},
    {"log", "logs"},     {"tail", "logs"}, {"watch", "top"},  {"tokens", "token"}};

/// Returns the innermost command given (pfcctl data synth).
const CLI::App& reached(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : reached(*commands.back());
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + command.get_name();
}

/// Returns the options accepted at this command: its own and those of its parent commands.
std::vector<std::string> options_at(const CLI::App& command) {
  std::vector<std::string> names = options_of(command);
  if (command.get_parent() == nullptr) return names;
  const std::vector<std::string> outer = options_at(*command.get_parent());
  names.insert(names.end(), outer.begin(), outer.end());
  return names;
}

/// Returns a word for use in a message. Quotes it if it is empty or contains white space.
std::string shown_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_of(" \t\n'") == std::string::npos;
  return plain ? word : "'" + word + "'";
}

/// Returns "unknown option --bogus" with the nearest known word; empty if every word is known.
std::string unknown_word(const CLI::App& program) {
  const std::vector<std::string> unknown = program.remaining(true);
  if (unknown.empty()) return {};
  const CLI::App& command = reached(program);
  std::string word = unknown.front();
  const bool option = word.starts_with("-");
  if (option) word = word.substr(0, word.find('='));
  const auto known = option ? options_at(command) : commands_of(command);
  if (option && std::find(known.begin(), known.end(), word) != known.end()) {
    return "option " + word + " must come after the command: " + path_of(command) + " " + word;
  }
  std::string nearest = nearest_word(word, known);
  if (const auto same = kOtherWords.find(word);
      same != kOtherWords.end() && std::ranges::count(known, same->second) > 0) {
    nearest = same->second;
  }
  std::string text = (option           ? "unknown option "
                      : !known.empty() ? "unknown command "
                                       : "unexpected argument ") +
                     shown_word(word);
  if (!nearest.empty()) text += "; did you mean " + nearest + "?";
  return text;
}

/// Text of a CLI11 message before and after a marker.
struct Halves {
  std::string first, second;
};
Halves split(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return {.first = text, .second = {}};
  return {.first = text.substr(0, at), .second = text.substr(at + mark.size())};
}

/// Returns what the option's variable expects, such as "a whole number".
std::string expected_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return "a whole number";
  return type.starts_with("FLOAT") ? "a number" : "another value";
}

/// Rewrites an error of CLI11 in this project's style: it names the option, the value found and
/// the value expected. The original messages are in CLI/Error.hpp.
std::string in_our_words(const CLI::ParseError& error, const CLI::App& command) {
  const std::string text = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ConversionError: {  // "Could not convert: --workers = many"
      const auto [name, value] = split(split(text, "Could not convert: ").second, " = ");
      if (name.empty()) return text;
      return name + ": found '" + value + "', expected " + expected_of(command, name);
    }
    case CLI::ExitCodes::RequiredError: {  // "--config is required", "A subcommand is required"
      const std::string name = split(text, " is required").first;
      return name == "A subcommand" ? "a command is missing" : "option " + name + " is missing";
    }
    case CLI::ExitCodes::ArgumentMismatch: {  // "--config: 1 required TEXT missing", or too many
      if (text.ends_with(" missing")) {
        return split(text, ": ").first + ": found nothing, expected a value";
      }
      const std::string name = split(split(text, " arguments to ").second, ",").first;
      return (name.empty() ? split(text, ": ").first : name) + " is given more than once";
    }
    case CLI::ExitCodes::RequiresError: {  // "--rank requires --coordinator"
      const auto [name, other] = split(text, " requires ");
      return name + " needs " + other + " as well";
    }
    case CLI::ExitCodes::ExcludesError: {  // "--coordinator excludes --config"
      const auto [name, other] = split(text, " excludes ");
      return name + " and " + other + " cannot be given together";
    }
    default:
      return text;
  }
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](const std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return {};
            std::string list;
            for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
            return "found '" + text + "', expected one of " + list;
          },
          ""};
}

/// Rejects "" for all options: usually a variable of a script was empty.
CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("found '', expected a value") : std::string();
          },
          ""};
}

/// Allows options of the program after a command, and rejects empty values.
void prepare_command(CLI::App& command) {
  command.fallthrough();
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(not_empty());
  }
  for (CLI::App* inner : command.get_subcommands([](CLI::App*) { return true; }))
    prepare_command(*inner);
}

/// Parses a duration such as "2min" and returns its seconds; nullopt if it is not a duration.
std::optional<double> seconds_of(const std::string& text) {
  constexpr std::pair<std::string_view, double> kTimeUnits[] = {
      {"", 1}, {"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return {};
  for (const auto& [unit, factor] : kTimeUnits) {
    if (std::string_view(rest, static_cast<std::size_t>(end - rest)) == unit)
      return number * factor;
  }
  return {};
}

bool reader_has_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/// Throws if the output could not be written to stdout: a script that saved it must not take it for
/// complete. A reader that closed the pipe (EPIPE) is not an error.
void expect_written() {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::cout.good() && std::ferror(stdout) == 0;
  if (written || errno == EPIPE || reader_has_gone()) return;
  // An earlier write may have failed, and its errno is lost. Another write probably fails with the
  // same errno.
  const bool known = errno != 0 || ::write(STDOUT_FILENO, "\n", 1) < 0;
  throw StorageError("cannot write standard output" + (known ? ": " + file_error_text(errno) : ""));
}

}  // namespace

CLI::Validator host_and_port() {
  return {[](const std::string& text) -> std::string {
            if (!host_of(text).empty()) return {};
            return "found '" + text +
                   "', expected HOST:PORT with a port from 1 to 65535, for example b:7450 or "
                   "[2001:db8::7]:7450";
          },
          ""};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](const std::string& text) -> std::string {
            std::int64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            if (error == std::errc() && rest == end && number >= least && number <= most) return {};
            return "found '" + text + "', expected a whole number from " + std::to_string(least) +
                   " to " + std::to_string(most);
          },
          ""};
}

CLI::Validator choice_of(const std::vector<std::string>& words) {
  return {[words](std::string& text) {
            std::string problem = one_of(words)(text);
            if (!problem.empty()) return problem;
            text = std::to_string(std::ranges::find(words, text) - words.begin());
            return problem;
          },
          ""};
}

CLI::Validator duration(bool may_be_none) {
  return {[may_be_none](std::string& text) -> std::string {
            constexpr double kYear = 31'536'000;
            const double least = may_be_none ? 0 : 0.001;
            const std::optional<double> seconds = seconds_of(text);
            if (!seconds || !(*seconds >= least && *seconds <= kYear)) {
              return "found '" + text + "', expected a time from " + (may_be_none ? "0" : "1ms") +
                     " to a year, for example 90s, 2min or 1h";
            }
            std::ostringstream number;
            number.precision(std::numeric_limits<double>::max_digits10);
            number << *seconds;
            text = number.str();
            return {};
          },
          "", kDuration};
}

/// Shows "DURATION" in the help of options that hold a duration, instead of the number type.
static void name_durations(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    try {
      static_cast<void>(option->get_validator(kDuration));
      option->type_name("DURATION");
    } catch (const CLI::OptionNotFound&) {  // NOLINT(bugprone-empty-catch): not a duration
    }
  }
  for (CLI::App* command : app.get_subcommands({})) name_durations(*command);
}

std::optional<int> parse_command_line(CLI::App& program, int argc, char** argv) {
  program.set_version_flag("--version", version(), "Print the version and exit");
  name_durations(program);
  program
      .add_option_function<std::string>("--color", set_colour,
                                        "Colours errors and warnings: auto, always or never; auto "
                                        "colours them on a terminal, unless NO_COLOR is set")
      ->check(one_of({"auto", "always", "never"}));
  prepare_command(program);
  try {
    program.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    const std::string unknown = unknown_word(program);
    const CLI::App& command = reached(program);
    throw InputError((unknown.empty() ? in_our_words(error, command) : unknown) + " (" +
                     path_of(command) + " --help lists commands and options)");
  }
}

int run_program(const std::string& name, const std::function<int()>& body) {
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit makes the write fail (EFBIG)
  const auto fail = [&name](const std::exception& error, int exit_code) {
    print_message(name, Severity::kError, text_of(error));
    return exit_code;
  };
  try {
    const int exit_code = body();
    expect_written();
    return exit_code;
  } catch (const InputError& error) {
    return fail(error, kExitBadInput);
  } catch (const std::exception& error) {
    return fail(error, kExitFailed);
  }
}

}  // namespace pfc
