#include "base/error.hpp"
#include "config/describe.hpp"
#include "data/registry.hpp"
#include "spec/plugin_entry.hpp"

// A plug-in as it should be, without an engine; it tries to put itself in the place of mnist, too.

namespace {

using namespace trainctl;

struct Ring {
  static constexpr auto kSummary = "A data set of a plug-in.";
  int points = 3;
  static void describe(config::Describe<Ring>& options) {
    options.field("points", &Ring::points, "Points of the ring.").at_least(1);
  }
};

struct Net {
  static constexpr auto kSummary = "A model of a plug-in.";
  std::int64_t width = 8;
  static void describe(config::Describe<Net>& options) {
    options.field("width", &Net::width, "Outputs of a layer.").at_least(1);
  }
};

data::Facts facts(const config::Stage& stage) {
  return {.samples = stage.as<Ring>().points,
          .classes = 2,
          .layout = {{"features", data::Dtype::f32, {2}}, {"label", data::Dtype::i64, {}}}};
}

data::Facts no_facts(const config::Stage&) {
  throw Error(ErrorKind::data, "the plug-in took the place of mnist");
}

void describe(config::Vocabulary& all) {
  all.add<Ring>("dataset", "fake_ring");
  all.add<Net>("model", "fake_net");
}

void add_data(data::Catalogue& all) {
  all.facts["fake_ring"] = facts;
  all.facts["mnist"] = no_facts;
}

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{.describe = describe,
                                                             .add_data = add_data};
