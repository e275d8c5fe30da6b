#include "spec/plugin_entry.hpp"

#include <cstdlib>

// Built for another version of trainctl, or for an engine that is missing. None of its functions
// may run.

namespace {

void describe(trainctl::config::Vocabulary&) { std::abort(); }

}  // namespace

extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
    .layout = FAKE_LAYOUT, .abi = FAKE_ABI, .describe = describe, .engine = FAKE_ENGINE};
