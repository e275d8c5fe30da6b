#pragma once

#include "spec/stage_headers.hpp"

#include <type_traits>

namespace trainctl::spec {

/// Returns the options of a stage as `Base`, from which they derive; null if they do not, and for
/// stages of plug-ins.
template <class Base>
const Base* base_of(const config::Stage& stage) {
  const Base* found = nullptr;
#define TRAINCTL_BASE(kind, name, Type)                       \
  if constexpr (std::is_base_of_v<Base, kind::Type>) {        \
    if (found == nullptr) found = stage.get_if<kind::Type>(); \
  }
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_BASE)
#undef TRAINCTL_BASE
  return found;
}

}  // namespace trainctl::spec
