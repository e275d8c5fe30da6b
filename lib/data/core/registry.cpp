#include "data/core/registry.hpp"

#include "base/strings.hpp"
#include "spec/plugins.hpp"

namespace trainctl::data {

#define STAGE(kind, name, ...) void register_##kind##_##name(Catalog& catalog);
#include "data/data.def"
#undef STAGE

Catalog builtin_catalog() {
  Catalog catalog;
#define STAGE(kind, name, ...) register_##kind##_##name(catalog);
#include "data/data.def"
#undef STAGE
  return catalog;
}

Catalog catalog_in_use() {
  Catalog all = builtin_catalog();
  for (const spec::Plugin& plugin : spec::plugins_in_use()) {
    if (plugin.entry->add_data == nullptr) continue;
    Catalog own;
    in_context("plug-in '" + printable(plugin.library.string()) + "'",
               [&] { plugin.entry->add_data(own); });
    all.merge(std::move(own));
  }
  return all;
}

void Catalog::merge(Catalog other) {
  datasets.merge(other.datasets);
  facts.merge(other.facts);
  groups.merge(other.groups);
  columns.merge(other.columns);
  transforms.merge(other.transforms);
  batch_transforms.merge(other.batch_transforms);
  normalizations.merge(other.normalizations);
  samplers.merge(other.samplers);
}

}  // namespace trainctl::data
