// Jobs without a network, whose data are embeddings, or features for one linear layer.
#pragma once

#include <string_view>

namespace pfc {

/// The value of JobConfig::network. The rows of the data are the embeddings, or a linear layer maps
/// them to embeddings (JobConfig::feature_size).
inline constexpr std::string_view kNoNetwork = "none";

}  // namespace pfc
