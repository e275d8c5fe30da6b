#include "spec/dataset/pack.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/pack/pack_dataset.hpp"
#include "data/registry.hpp"

namespace trainctl::data {

void register_dataset_pack(Catalogue& catalogue) {
  catalogue.datasets["pack"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::dataset::Pack>();
    auto pack = std::make_shared<const PackDataset>(options.path);
    if (options.source) {
      const auto source = builtin_catalogue().datasets.at(options.source.type)(options.source);
      check_pack_source(pack->header(), source->fingerprint(), printable(options.path.string()));
    }
    return pack;
  };
  catalogue.facts["pack"] = [](const config::Stage& stage) {
    return PackDataset::facts(stage.as<spec::dataset::Pack>().path);
  };
}

}  // namespace trainctl::data
