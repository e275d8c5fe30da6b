#pragma once

#include "config/schema/schema.hpp"
#include "data/core/dataset.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/core/transform.hpp"
#include "data/loader/sampling.hpp"

#include <functional>
#include <map>

namespace trainctl::data {

/// The data stages by name. Register functions listed in data.def fill it explicitly; there is no
/// static registration, so tests can build catalogs of fakes.
struct Catalog {
  std::map<std::string, std::function<std::shared_ptr<const Dataset>(const config::Stage&)>>
      datasets;
  /// Reads the facts of a data set from its headers, for `validate`, in less than 10 ms.
  std::map<std::string, std::function<Facts(const config::Stage&)>> facts;
  /// Returns the group of each sample, numbered from 0, by the column in dataset.split.group_by.
  /// Only data sets with columns have an entry.
  std::map<std::string, std::function<std::vector<std::uint32_t>(const config::Stage&)>> groups;
  /// Reads statistics of the feature columns of a table as they are stored, for `data stats`.
  std::map<std::string, std::function<std::vector<ColumnStats>(const config::Stage&)>> columns;
  std::map<std::string, std::function<std::shared_ptr<const Transform>(const config::Stage&)>>
      transforms;
  std::map<std::string, std::function<std::shared_ptr<const BatchTransform>(const config::Stage&)>>
      batch_transforms;
  /// Transforms that are not pixel operations: they come last in the list, and the device applies
  /// them.
  std::map<std::string, std::function<Normalization(const config::Stage&)>> normalizations;
  std::map<std::string, std::function<ClassSampling(const config::Stage&)>> samplers;

  /// Moves the stages whose names are not in this catalog yet.
  void merge(Catalog other);
};

/// Returns a factory that constructs `Stage` from its options.
template <class Stage, class Options>
auto maker() {
  return
      [](const config::Stage& stage) { return std::make_shared<const Stage>(stage.as<Options>()); };
}

/// Returns the stages of data.def.
Catalog builtin_catalog();
/// Returns the built-in stages and the stages of the loaded plug-ins.
Catalog catalog_in_use();

}  // namespace trainctl::data
