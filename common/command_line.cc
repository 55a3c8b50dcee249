#include "common/command_line.h"

#include <csignal>
#include <cstdio>
#include <vector>

#include "common/config/nearest.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/version.h"

namespace pfc {
namespace {

/// The command (pfcctl data synth) that the arguments have reached.
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

/// "unknown option --bogus", with the nearest option or command; empty where every word is known.
std::string unknown_word(const CLI::App& program) {
  const std::vector<std::string> unknown = program.remaining(true);
  if (unknown.empty()) return {};
  const CLI::App& command = reached(program);
  std::string word = unknown.front();
  const bool option = word.starts_with("-");
  if (option) word = word.substr(0, word.find('='));
  const auto known = option ? options_of(command) : commands_of(command);
  const std::string nearest = nearest_word(word, known);
  std::string text = (option           ? "unknown option "
                      : !known.empty() ? "unknown command "
                                       : "unexpected argument ") +
                     word;
  if (!nearest.empty()) text += "; did you mean " + nearest + "?";
  return text;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + command.get_name();
}

}  // namespace

CLI::Validator host_and_port() {
  return {[](const std::string& text) -> std::string {
            const std::size_t colon = text.rfind(':');
            const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
            const bool digits = !port.empty() && port.size() <= 5 &&
                                port.find_first_not_of("0123456789") == std::string::npos;
            if (colon != 0 && digits && std::stoi(port) >= 1 && std::stoi(port) <= 65535) return {};
            return "found '" + text + "', expected HOST:PORT with a port from 1 to 65535";
          },
          ""};
}

CLI::Validator positive_seconds() {
  return {[](const std::string& text) -> std::string {
            constexpr double kYear = 31'536'000;
            double seconds = 0;
            if (CLI::detail::lexical_cast(text, seconds) && seconds > 0 && seconds <= kYear)
              return {};
            return "found " + text + ", expected seconds above 0 and at most 31536000 (a year)";
          },
          ""};
}

std::optional<int> parse_command_line(CLI::App& program, int argc, char** argv) {
  program.set_version_flag("--version", version(), "Print the version and exit");
  program
      .add_option_function<std::string>(
          "--color", set_colour,
          "Colour of errors and warnings: auto, always or never; auto: "
          "on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  try {
    program.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    const std::string unknown = unknown_word(program);
    throw InputError((unknown.empty() ? std::string(error.what()) : unknown) + " (" +
                     path_of(reached(program)) + " --help lists what there is)");
  }
}

int run_program(const std::string& name, const std::function<int()>& body) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is an error of the write (EFBIG)
  const auto fail = [&name](const std::exception& error, int exit_code) {
    const std::string line =
        message_line(name, Severity::kError, error_text(error), stderr_has_colour());
    std::fprintf(stderr, "%s\n", line.c_str());
    return exit_code;
  };
  try {
    return body();
  } catch (const InputError& error) {
    return fail(error, kExitBadInput);
  } catch (const std::exception& error) {
    return fail(error, kExitFailed);
  }
}

}  // namespace pfc
