#include "config/explain.hpp"
#include "config/wording.hpp"
#include "spec/experiment.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("every hint for a key of another runner names a key of ours") {
  const config::Schema& schema = *config::Codec<spec::Experiment>::schema();
  for (const config::Alias& alias : config::aliases()) {
    INFO(alias.word << " -> " << alias.key);
    const bool has_no_key = alias.key.empty() || alias.key == "type" || alias.key == "extends";
    if (!has_no_key) CHECK_NOTHROW(config::explain(std::string(alias.key), schema, spec::builtin_vocabulary()));
  }
}
