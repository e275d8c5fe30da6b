#include "config/schema/dump.hpp"
#include "spec/load.hpp"

#include <utility>

namespace trainctl::spec {

const config::Schema& experiment_schema() { return *config::Codec<Experiment>::schema(); }

config::Node resolved_tree(const Loaded& loaded) {
  config::Node written = config::write_options(experiment_schema(), &loaded.experiment);
  remove_applied_split(written, loaded.experiment);
  return config::with_origins(std::move(written), loaded.tree);
}

std::string dump_resolved(const Loaded& loaded) {
  return config::dump(resolved_tree(loaded), {.comments = config::Comments::origins});
}

}  // namespace trainctl::spec
