// pfcctl token: creates, lists and revokes tokens, with which hosts join and users read the status.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/error.h"
#include "common/one_line.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using Stub = proto::CoordinatorService::Stub;

const std::vector<std::string> kRoles{"agent", "reader", "submitter"};

struct CreateOptions {
  Target target;
  std::vector<std::string> hosts;
  double lifetime = 0;
  std::size_t role = 0;  ///< index into kRoles
};

struct RevokeOptions {
  Target target;
  std::string id;
  std::string host;
};

std::string expiry_text(std::int64_t seconds) {
  if (seconds == 0) return "never";
  const std::time_t time = seconds;
  std::tm parts{};
  localtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string state_of(const proto::TokenStatus& token, std::int64_t now) {
  if (token.revoked()) return "revoked";
  return token.expires() != 0 && token.expires() <= now ? "expired" : "valid";
}

std::string hosts_of(const proto::TokenStatus& token) {
  if (token.role() != kRoles.front()) return "-";
  std::string hosts;
  for (const std::string& host : token.hosts())
    hosts += (hosts.empty() ? "" : ",") + one_line(host);
  return hosts.empty() ? "all" : hosts;
}

void create(const CreateOptions& options) {
  if (options.role != 0 && !options.hosts.empty()) {
    throw InputError("--host is for tokens of role agent; leave it out for a " +
                     kRoles[options.role]);
  }
  proto::CreateTokenRequest request;
  request.set_role(kRoles[options.role]);
  for (const std::string& host : options.hosts) request.add_hosts(host);
  // Rounded up, because 0 seconds would mean that no lifetime was given.
  request.set_lifetime_seconds(static_cast<std::int64_t>(std::ceil(options.lifetime)));
  const CoordinatorCall call(options.target.endpoint());
  const proto::CreateTokenReply reply = call(&Stub::CreateToken, request);
  std::cout << one_line(reply.text()) << std::endl;
}

void list(const Target& target) {
  const CoordinatorCall call(target.endpoint());
  const proto::ListTokensReply reply = call(&Stub::ListTokens, proto::ListTokensRequest());
  const std::int64_t now = std::time(nullptr);
  std::printf("%-12s  %-9s  %-7s  %-19s  %s\n", "ID", "ROLE", "STATE", "EXPIRES", "HOSTS");
  for (const proto::TokenStatus& token : reply.tokens()) {
    std::printf("%-12s  %-9s  %-7s  %-19s  %s\n", one_line(token.id()).c_str(),
                one_line(token.role()).c_str(), state_of(token, now).c_str(),
                expiry_text(token.expires()).c_str(), hosts_of(token).c_str());
  }
  std::fflush(stdout);
}

void revoke(const RevokeOptions& options) {
  if (options.id.empty() == options.host.empty()) {
    throw InputError(
        "expected either a token's ID (see pfcctl token list) or --host NAME, and not both");
  }
  proto::RevokeTokenRequest request;
  request.set_id(options.id);
  request.set_host(options.host);
  const CoordinatorCall call(options.target.endpoint());
  call(&Stub::RevokeToken, request);
  std::cout << (options.host.empty() ? "token " + options.id + " is revoked"
                                     : "the certificate of host " + options.host + " is revoked")
            << std::endl;
}

void add_create(CLI::App& token) {
  CLI::App* verb = token.add_subcommand("create",
                                        "Creates a token and prints it for pfc-agent --join or "
                                        "--access-file. It cannot be printed again");
  const auto options = std::make_shared<CreateOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_option(
          "--host", options->hosts,
          "Host that may use the token; may be repeated. Default: all hosts in the coordinator's "
          "--hosts. A host that joins with its own token gets a new certificate")
      ->allow_extra_args(false);
  verb->add_option("--lifetime", options->lifetime,
                   "How long the token is valid: 2h, 90min. Default for agents: the coordinator's "
                   "--token-lifetime; for other roles: until it is revoked")
      ->transform(duration());
  auto* const role =
      verb->add_option("--role", options->role,
                       "What the owner of the token may do. agent: join as a host; reader: read "
                       "status, queue and metrics, also with Prometheus and browsers; submitter: "
                       "also submit jobs, stop them and read their logs")
          ->transform(choice_of(kRoles))
          ->default_str(kRoles.front())
          ->type_name("ROLE");
  verb->add_flag_callback(
          "--read-only", [options] { options->role = 1; }, "The same as --role reader")
      ->excludes(role);
  verb->footer(
      "Examples:\n"
      "  pfcctl token create --host node-7 --lifetime 2h\n"
      "  pfcctl token create --role submitter > access-for-anna");
  verb->callback([options] { create(*options); });
}

void add_list(CLI::App& token) {
  CLI::App* verb = token.add_subcommand("list", "Lists the tokens, without their secrets");
  const auto target = std::make_shared<Target>();  // owned by the verb's callback
  target->declare(*verb);
  verb->footer("Example:\n  pfcctl token list");
  verb->callback([target] { list(*target); });
}

void add_revoke(CLI::App& token) {
  CLI::App* verb = token.add_subcommand("revoke", "Revokes a token, or the certificate of a host");
  const auto options = std::make_shared<RevokeOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_option("id", options->id, "The token's ID (see pfcctl token list)");
  verb->add_option("--host", options->host, "Host whose certificate is revoked");
  verb->footer("Example:\n  pfcctl token revoke 1f0c5ad2e6b7");
  verb->callback([options] { revoke(*options); });
}

}  // namespace

void add_token_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "token", "Creates, lists and revokes the tokens with which hosts join and users connect");
  verb->require_subcommand(1);
  add_create(*verb);
  add_list(*verb);
  add_revoke(*verb);
  verb->footer(
      "Run it on the coordinator's machine, as the coordinator's user (docs/security.md).");
}

}  // namespace pfc
