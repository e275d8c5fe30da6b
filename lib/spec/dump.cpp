#include "config/dump.hpp"

#include "spec/load.hpp"

namespace trainctl::spec {

const config::Schema& experiment_schema() { return *config::Codec<Experiment>::schema(); }

config::Node resolved_tree(const Loaded& loaded) {
  return config::with_origins(config::write_options(experiment_schema(), &loaded.experiment),
                              loaded.tree);
}

std::string dump_resolved(const Loaded& loaded) {
  return config::dump(resolved_tree(loaded), {.comments = config::Comments::origins});
}

}  // namespace trainctl::spec
