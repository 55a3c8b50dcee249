// A job without a network: the classification layer alone is trained, on embeddings.
#pragma once

#include <string_view>

namespace pfc {

/// The value of JobConfig::network. Embeddings are passed on as they come from the data.
inline constexpr std::string_view kNoNetwork = "none";

}  // namespace pfc
