#pragma once

#include "base/error.hpp"
#include "config/schema/schema.hpp"

#include <memory>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>

namespace trainctl::config {

/// A chosen stage with its parsed options: the value of a field such as `optimizer: {type: adam,
/// lr: 0.001}`. Immutable once parsed; copies share the options. Empty (`type == ""`) where an
/// optional stage was left out.
struct Stage {
  std::string kind;  // "optimizer"
  std::string type;  // "adam"
  std::shared_ptr<const void> options;
  std::type_index options_type = typeid(void);
  Position position;
  std::shared_ptr<const Schema> schema;  // of the options, for writing them

  explicit operator bool() const { return !type.empty(); }

  template <class Options>
  [[nodiscard]] const Options& as() const {
    ASSERT(options_type == std::type_index(typeid(Options)));
    return *static_cast<const Options*>(options.get());
  }
};

template <class Options>
Stage make_stage(std::string kind, std::string type, Options options) {
  return {std::move(kind),
          std::move(type),
          std::make_shared<const Options>(std::move(options)),
          typeid(Options),
          {},
          std::make_shared<const Schema>(schema_of<Options>())};
}

}  // namespace trainctl::config
