#include "base/error.hpp"
#include "config/schema/describe.hpp"
#include "data/core/registry.hpp"
#include "spec/plugin_entry.hpp"

// A valid plug-in without an engine. It also tries to replace mnist.

namespace {

using namespace trainctl;

struct Ring {
  static constexpr auto kSummary = "A data set of a plug-in.";
  int points = 3;
  static void describe(config::Describe<Ring>& options) {
    options.field("points", &Ring::points, {.at_least = 1}, "Points of the ring.");
  }
};

struct Net {
  static constexpr auto kSummary = "A model of a plug-in.";
  std::int64_t width = 8;
  static void describe(config::Describe<Net>& options) {
    options.field("width", &Net::width, {.at_least = 1}, "Outputs of a layer.");
  }
};

struct Silent {
  static constexpr auto kSummary = "A metric of a plug-in that says nothing of targets.";
  static void describe(config::Describe<Silent>& /*options*/) {}
};

struct Pinball {
  static constexpr auto kSummary = "A loss of a plug-in.";
  bool tokens = false;
  static void describe(config::Describe<Pinball>& options) {
    options.field("tokens", &Pinball::tokens, "For tokens, too.");
  }
  [[nodiscard]] bool takes(spec::Targets targets) const {
    return targets == spec::Targets::numbers || (tokens && targets == spec::Targets::tokens);
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
  all.add<Pinball>("loss", "fake_loss");
  all.add<Silent>("metric", "fake_metric");
}

void add_data(data::Catalog& all) {
  all.facts["fake_ring"] = facts;
  all.facts["mnist"] = no_facts;
}

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
    .describe = describe,
    .add_data = add_data,
    .takes_targets = spec::stage_supports<spec::Targets, Pinball, Silent>};
