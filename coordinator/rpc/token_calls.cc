#include "coordinator/rpc/token_calls.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>

#include "common/network_address.h"
#include "common/one_line.h"
#include "coordinator/rpc/admission.h"

namespace pfc {
namespace {

Refusal without_tokens() {
  return {.kind = Refusal::Kind::kOldGeneration,
          .message = "this coordinator serves in plaintext: it uses no tokens"};
}

Refusal unknown_host(const std::string& name) {
  return {.message = "host " + one_line(name) + " is not in the coordinator's --hosts"};
}

proto::TokenStatus to_proto(const Token& token) {
  proto::TokenStatus status;
  status.set_id(token.id);
  status.set_role(std::string(name_of(token.role)));
  for (const std::string& host : token.hosts) status.add_hosts(host);
  status.set_created(token.created);
  status.set_expires(token.expires);
  status.set_revoked(token.revoked);
  return status;
}

}  // namespace

template <typename Reply, typename Work>
void TokenCalls::on_files(const Answer<Reply>& answer, Work work) {
  boost::asio::post(files_, [answer, work] {
    try {
      answer(work());
    } catch (const std::exception& error) {
      answer(Refusal{.kind = Refusal::Kind::kInternal, .message = one_line(error.what())});
    }
  });
}

void TokenCalls::exchange(const Caller& caller, const proto::ExchangeTokenRequest& request,
                          const Answer<proto::ExchangeTokenReply>& answer) {
  using Reply = proto::ExchangeTokenReply;
  if (gate_ == nullptr) return answer(without_tokens());
  const std::string address = address_of_peer(caller.peer);
  if (!exchanges_.may_call(address)) return answer(Admission::too_many("exchanges of tokens"));
  const auto host = coordinator_.agents().listed_host(request.host(), address);
  if (!host) {
    const Refusal refusal =
        gate_->refuse(caller, "exchange_token", "unknown_host",
                      "host " + one_line(request.host()) + " (" + address +
                          ") is not in the coordinator's --hosts; start the agent with "
                          "--host NAME as it is written there");
    coordinator_.agent_was_refused(request.host(), refusal.message);
    return answer(refusal);
  }
  on_files(answer, [this, caller, request, host = *host]() -> std::variant<Reply, Refusal> {
    auto result = gate_->exchange(caller, request.token(), host, request.certificate_request());
    if (const auto* refusal = std::get_if<Refusal>(&result)) {
      coordinator_.agent_was_refused(host, address_of_peer(caller.peer) + ": " + refusal->message);
      return *refusal;
    }
    changed_(host);
    Reply reply;
    reply.set_host(host);
    reply.set_certificate(std::get<TokenStore::Exchange>(result).issued.certificate);
    return reply;
  });
}

void TokenCalls::create(const Caller& caller, const proto::CreateTokenRequest& request,
                        const Answer<proto::CreateTokenReply>& answer) {
  using Reply = proto::CreateTokenReply;
  if (gate_ == nullptr) return answer(without_tokens());
  const Role role = request.role().empty() ? Role::kAgent : role_named(request.role());
  if (role != Role::kAgent && role != Role::kReader && role != Role::kSubmitter) {
    return answer(Refusal{.kind = Refusal::Kind::kInvalid,
                          .message = "there is no token of role " + one_line(request.role(), 40) +
                                     "; expected agent, reader or submitter"});
  }
  TokenStore::Request wanted{.role = role,
                             .lifetime = std::chrono::seconds{request.lifetime_seconds()}};
  for (const std::string& each : request.hosts()) {
    const auto host = coordinator_.agents().listed_host(each, "");
    if (!host) return answer(unknown_host(each));
    wanted.hosts.push_back(*host);
  }
  on_files(answer, [this, caller, wanted]() -> std::variant<Reply, Refusal> {
    const Gate::NewToken made = gate_->create_token(caller, wanted, address_);
    Reply reply;
    reply.set_id(made.id);
    reply.set_text(made.text);
    return reply;
  });
}

void TokenCalls::list(const proto::ListTokensRequest& /*request*/,
                      const Answer<proto::ListTokensReply>& answer) {
  using Reply = proto::ListTokensReply;
  if (gate_ == nullptr) return answer(without_tokens());
  on_files(answer, [this]() -> std::variant<Reply, Refusal> {
    Reply reply;
    for (const Token& token : gate_->tokens()) *reply.add_tokens() = to_proto(token);
    return reply;
  });
}

void TokenCalls::revoke(const Caller& caller, const proto::RevokeTokenRequest& request,
                        const Answer<proto::RevokeTokenReply>& answer) {
  using Reply = proto::RevokeTokenReply;
  if (gate_ == nullptr) return answer(without_tokens());
  on_files(answer, [this, caller, request]() -> std::variant<Reply, Refusal> {
    if (!request.host().empty()) {
      if (!gate_->revoke_host(caller, request.host())) {
        return Refusal{.message = "host " + one_line(request.host()) + " has no certificate"};
      }
      changed_(request.host());
      return Reply();
    }
    if (gate_->revoke_token(caller, request.id())) return Reply();
    return Refusal{.message = "there is no token " + one_line(request.id()) +
                              "; pfcctl token list shows them"};
  });
}

}  // namespace pfc
