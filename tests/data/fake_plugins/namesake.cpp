#include "config/schema/describe.hpp"
#include "spec/plugin_entry.hpp"

// A loss for one kind of target. Every library built from this file defines a type of the same
// name.

namespace namesake {

using namespace trainctl;

struct Loss {
  static constexpr auto kSummary =
      "A loss of a plug-in whose type is not the only one of its name.";
  static void describe(config::Describe<Loss>& /*options*/) {}
  [[nodiscard]] bool takes(spec::Targets targets) const {
    return targets == spec::Targets::FAKE_TARGETS;
  }
};

namespace {

void describe(config::Vocabulary& all) { all.add<Loss>("loss", FAKE_NAME); }

}  // namespace
}  // namespace namesake

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
    .describe = namesake::describe,
    .takes_targets = trainctl::spec::stage_supports<trainctl::spec::Targets, namesake::Loss>};
