// Private keys, and the requests that turn them into certificates.
#pragma once

#include <string>

#include "security/openssl.h"

namespace pfc {

/// Makes an ECDSA key on P-256.
KeyOwner make_key();
std::string to_pem(EVP_PKEY& key);

/// Returns a certificate request in PEM: the public key, signed with the private key.
std::string make_request(EVP_PKEY& key);

/// Returns the public key of a request after checking that it is ECDSA on P-256 and that the
/// sender has the private key. Throws InputError otherwise.
KeyOwner key_of_request(const std::string& pem);

/// Returns the SHA-256 of a public key, lower-case hex.
std::string hash_of(EVP_PKEY& key);

}  // namespace pfc
