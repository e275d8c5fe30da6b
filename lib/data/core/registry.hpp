#pragma once

#include "config/schema/schema.hpp"
#include "data/core/dataset.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/core/transform.hpp"
#include "data/loader/sampling.hpp"

#include <functional>
#include <map>

namespace trainctl::data {

/// The data stages by name, a value: tests build their own with fakes. Filled by plain register
/// functions listed in data.def; nothing registers itself.
struct Catalog {
  std::map<std::string, std::function<std::shared_ptr<const Dataset>(const config::Stage&)>>
      datasets;
  /// What a data set holds, from its headers, for `validate`: under 10 ms.
  std::map<std::string, std::function<Facts(const config::Stage&)>> facts;
  /// The group of each sample, numbered from 0, by the column that dataset.split.group_by names;
  /// for data sets that have columns.
  std::map<std::string, std::function<std::vector<std::uint32_t>(const config::Stage&)>> groups;
  /// The feature columns of a table as they are stored, for `data stats`.
  std::map<std::string, std::function<std::vector<ColumnStats>(const config::Stage&)>> columns;
  std::map<std::string, std::function<std::shared_ptr<const Transform>(const config::Stage&)>>
      transforms;
  std::map<std::string, std::function<std::shared_ptr<const BatchTransform>(const config::Stage&)>>
      batch_transforms;
  /// The transforms that are no step on pixels: they end the list, and the device applies them.
  std::map<std::string, std::function<Normalization(const config::Stage&)>> normalizations;
  std::map<std::string, std::function<ClassSampling(const config::Stage&)>> samplers;

  /// Takes over what has a name that is new here.
  void merge(Catalog other);
};

/// Makes a `Stage`, which takes its options, for a list of the catalog.
template <class Stage, class Options>
auto maker() {
  return
      [](const config::Stage& stage) { return std::make_shared<const Stage>(stage.as<Options>()); };
}

/// The stages of data.def.
Catalog builtin_catalog();
/// They, and those of the plug-ins in use.
Catalog catalog_in_use();

}  // namespace trainctl::data
