// Jobs without a network: only the classification layer is trained, on embeddings.
#pragma once

#include <string_view>

namespace pfc {

/// The value of JobConfig::network. Embeddings are used unchanged from the data.
inline constexpr std::string_view kNoNetwork = "none";

}  // namespace pfc
