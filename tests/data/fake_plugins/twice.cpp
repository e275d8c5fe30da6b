#include "config/schema/describe.hpp"
#include "spec/plugin_entry.hpp"

// Describes a model that already exists, or a stage of a kind that plug-ins cannot add.

namespace {

using namespace trainctl;

struct Nothing {
  static constexpr auto kSummary = "Nothing.";
  static void describe(config::Describe<Nothing>&) {}
};

void describe(config::Vocabulary& all) {
  all.add<Nothing>("model", "fake_first");
  all.add<Nothing>(FAKE_KIND, FAKE_NAME);
}

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{.describe = describe};
