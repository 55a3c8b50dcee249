#include "security/join_string.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/network_address.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestJoinString = 512;  // a host's name has at most 253 characters
constexpr std::size_t kFingerprintDigits = 64;
constexpr std::size_t kLongestHost = 253;
constexpr std::string_view kSpace = " \t\r\n";

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

/// Reads stdin to its end, but stops once the text is too long for a join string.
std::string read_stdin() {
  std::string text;
  std::array<char, kLongestJoinString> piece{};
  while (text.size() <= kLongestJoinString) {
    const ssize_t got = read(STDIN_FILENO, piece.data(), piece.size());
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

JoinString parse_join_string(std::string_view text, std::string_view origin) {
  const auto refuse = [origin](const std::string& found) {
    throw InputError(std::string(origin) + ": " + found +
                     "; expected TOKEN@HOST:PORT#FINGERPRINT, as the coordinator or pfcctl token "
                     "create prints it");
  };
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  if (text.empty()) refuse("it is empty");
  if (text.size() > kLongestJoinString)
    refuse("it is longer than " + std::to_string(kLongestJoinString) + " bytes");
  const std::size_t at = text.find('@');
  if (at == text.npos) refuse("it has no @");
  const std::size_t hash = text.find('#', at);
  if (hash == text.npos) refuse("it has no # (quote it in a shell)");
  JoinString join{.token = std::string(text.substr(0, at)),
                  .address = std::string(text.substr(at + 1, hash - at - 1)),
                  .fingerprint = std::string(text.substr(hash + 1))};
  if (!is_hex(join.token, kTokenDigits)) refuse("the token is not 32 digits of 0-9 and a-f");
  const std::string host = host_of(join.address);
  if (host.empty() || host.size() > kLongestHost || !is_printable(host)) {
    refuse("the text between @ and # is not HOST:PORT");
  }
  if (!is_hex(join.fingerprint, kFingerprintDigits)) {
    refuse("the fingerprint is not 64 digits of 0-9 and a-f");
  }
  return join;
}

std::string to_text(const JoinString& join) {
  return join.token + "@" + join.address + "#" + join.fingerprint;
}

std::string parse_token(std::string_view text, std::string_view origin) {
  if (text.find('@') != text.npos) return parse_join_string(text, origin).token;
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(first);
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  if (is_hex(text, kTokenDigits)) return std::string(text);
  throw InputError(std::string(origin) +
                   ": expected a token, 32 digits of 0-9 and a-f: the part before the @ of the "
                   "join string that the coordinator or pfcctl token create prints");
}

std::string read_join_text(const std::filesystem::path& path) {
  return path == "-" ? read_stdin() : read_text(path, kLongestJoinString + 1);
}

JoinString read_join_string(const std::filesystem::path& path) {
  return parse_join_string(read_join_text(path), path == "-" ? "stdin" : path.string());
}

std::string take_join_variable() {
  char* const value = std::getenv(kJoinVariable);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return {};
  std::string text = value;
  // The original value stays readable in /proc/PID/environ unless it is overwritten.
  std::fill(value, value + text.size(), 'x');
  unsetenv(kJoinVariable);  // NOLINT(concurrency-mt-unsafe)
  return text;
}

}  // namespace pfc
