#pragma once

#include "data/core/registry.hpp"
#include "data/image/golden_pixels.hpp"

#include <memory>
#include <string>

namespace trainctl::data::testing {

/// Returns the built-in transform of that name.
template <class Options>
std::shared_ptr<const Transform> transform_of(const std::string& name, const Options& options) {
  return builtin_catalog().transforms.at(name)(config::make_stage("transform", name, options));
}

inline Picture applied(const Transform& transform, const ImageView& image,
                       CounterRng rng = {0, 0, 0, 0}) {
  Picture out;
  ImageTarget target(out.pixels);
  transform.apply(image, target, rng);
  out.shape = target.shape();
  out.pixels.resize(out.shape.bytes());
  return out;
}

}  // namespace trainctl::data::testing
