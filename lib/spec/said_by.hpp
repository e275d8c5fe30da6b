#pragma once

#include "config/schema/stage.hpp"

#include <optional>
#include <typeindex>
#include <typeinfo>

namespace trainctl::spec {

/// `options.takes(asked)` where the stage has options of one of these types; nothing where it has
/// others, or they do not say.
template <class Asked, class... Options>
std::optional<bool> said_by(const config::Stage& stage, Asked asked) {
  std::optional<bool> said;
  const auto ask = [&]<class One>(const One*) {
    if constexpr (requires(const One& options) { options.takes(asked); }) {
      if (stage.options_type == std::type_index(typeid(One))) said = stage.as<One>().takes(asked);
    }
  };
  (ask(static_cast<const Options*>(nullptr)), ...);
  return said;
}

}  // namespace trainctl::spec
