#include "security/credential.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestCredential = 64 << 10;  // bytes; a credential has about 2 KiB
constexpr std::chrono::seconds kPatience{10};

/// Returns the next PEM block of this kind from `from` on (empty: none), and moves `from`.
std::string take_block(std::string_view text, const std::string& kind, std::size_t& from) {
  const std::string begin = "-----BEGIN " + kind + "-----", end = "-----END " + kind + "-----\n";
  const std::size_t first = text.find(begin, from);
  const std::size_t last = text.find(end, first == text.npos ? text.size() : first);
  if (last == text.npos) return {};
  from = last + end.size();
  return std::string(text.substr(first, from - first));
}

std::string take_stdin() {
  std::string text;
  std::array<char, 4096> piece{};
  const TimePoint deadline = Clock::now() + kPatience;
  while (text.size() < kLongestCredential) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&input, 1, static_cast<int>(left)) <= 0) break;
    const ssize_t got = read(STDIN_FILENO, piece.data(), piece.size());
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null >= 0) dup2(null, STDIN_FILENO);
  return text;
}

}  // namespace

std::string to_text(const Credential& credential) {
  return credential.key + credential.certificate + credential.authority;
}

Credential credential_from_text(const std::string& text, const std::string& origin) {
  std::size_t keys = 0, certificates = 0;
  Credential credential{.authority = {},
                        .certificate = take_block(text, "CERTIFICATE", certificates),
                        .key = take_block(text, "PRIVATE KEY", keys)};
  credential.authority = take_block(text, "CERTIFICATE", certificates);
  if (credential.key.empty() || credential.certificate.empty() || credential.authority.empty()) {
    throw InputError(origin +
                     ": expected a private key, its certificate and the authority's certificate, "
                     "in PEM");
  }
  return credential;
}

Credential read_credential(const std::filesystem::path& path) {
  if (path == "-") return credential_from_text(take_stdin(), "stdin");
  return credential_from_text(read_secret(path, kLongestCredential), path.string());
}

}  // namespace pfc
