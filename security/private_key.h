// Keys of agents, workers and the coordinator, and the requests by which they get a certificate.
#pragma once

#include <string>

#include "security/openssl.h"

namespace pfc {

/// A new ECDSA key on P-256.
KeyOwner make_key();
std::string to_pem(EVP_PKEY& key);

/// A request for a certificate, in PEM: it has the public key alone, signed with the private one.
std::string make_request(EVP_PKEY& key);

/// The public key of a request, which has been checked: ECDSA on P-256, and the sender has the
/// private key. Throws InputError where it is anything else.
KeyOwner key_of_request(const std::string& pem);

/// SHA-256 of a public key, lower-case hex.
std::string hash_of(EVP_PKEY& key);

}  // namespace pfc
