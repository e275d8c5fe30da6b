#include "spec/transform/normalize.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"

namespace trainctl::data {

void register_transform_normalize(Catalogue& catalogue) {
  catalogue.normalizations["normalize"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::transform::Normalize>();
    ENSURE(config, options.mean.size() == options.std.size(),
           "mean has {} values and std has {}; give one of each a channel", options.mean.size(),
           options.std.size());
    Normalization out;
    for (const double mean : options.mean) out.mean.push_back(static_cast<float>(mean));
    for (const double std : options.std) out.std.push_back(static_cast<float>(std));
    return out;
  };
}

}  // namespace trainctl::data
