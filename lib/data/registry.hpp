#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/stage.hpp"
#include "data/dataset.hpp"
#include "data/transform.hpp"

namespace trainctl::data {

/// The data stages by name, a value: tests build their own with fakes. Filled by plain register functions listed in
/// data.def; nothing registers itself.
struct Catalogue {
  std::map<std::string, std::function<std::shared_ptr<const Dataset>(const config::Stage&)>> datasets;
  std::map<std::string, std::function<std::shared_ptr<const Transform>(const config::Stage&)>> transforms;
};

Catalogue builtin_catalogue();

}  // namespace trainctl::data
