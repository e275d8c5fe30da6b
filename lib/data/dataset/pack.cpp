#include "spec/dataset/pack.hpp"

#include "base/strings.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/pack_dataset.hpp"
#include "data/pack/pack_origin.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Pack;

/// Without 'source': against what the pack remembers of it.
void check_origin(const PackHeader& header, const PackNotes& notes, const Pack& options) {
  if (options.source || options.on_stale == spec::dataset::OnStale::ignore) return;
  check_pack_origin(header, notes.origin, catalogue_in_use(), printable(options.path.string()));
}

}  // namespace

void register_dataset_pack(Catalogue& catalogue) {
  catalogue.datasets["pack"] = [](const config::Stage& stage) {
    const auto& options = stage.as<Pack>();
    auto pack = std::make_shared<const PackDataset>(options.path);
    check_origin(pack->header(), pack->notes(), options);
    if (options.source) {
      const auto source = catalogue_in_use().datasets.at(options.source.type)(options.source);
      check_pack_source(pack->header(), source->fingerprint(), printable(options.path.string()));
    }
    return pack;
  };
  catalogue.facts["pack"] = [](const config::Stage& stage) {
    const auto& options = stage.as<Pack>();
    const PackHead pack(options.path);
    check_origin(pack.header, pack.notes, options);
    return pack.facts();
  };
}

}  // namespace trainctl::data
