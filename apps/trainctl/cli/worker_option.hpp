#pragma once

#include "config/schema/describe.hpp"
#include "data/loader/loader.hpp"
#include "data/loader/loading_plan.hpp"
#include "spec/experiment/experiment.hpp"

#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trainctl::app {

/// A whole number or the word `auto`, as the experiment file has it; absent where the file decides.
using AutoOption = std::optional<config::Auto<int>>;

/// Adds such an option, of numbers from `least` to `most`.
CLI::Option& add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                             const std::string& text, int least, int most);

/// Threads and batches ahead for a verb that trains nothing and takes batches as fast as they come:
/// what `wish` asks for, and a probe for what it leaves to `auto`.
data::LoadingChoice choose_for_reading(const spec::Loader& wish, const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options);

}  // namespace trainctl::app
