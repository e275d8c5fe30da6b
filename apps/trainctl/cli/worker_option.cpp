#include "cli/worker_option.hpp"

#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "data/loader/auto_loading.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace trainctl::app {

CLI::Option& add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                             const std::string& text, int least, int most) {
  const auto number = whole_number(least, most);
  const auto take = [&value, flag, number](const std::string& word) {
    value.emplace();
    if (word == "auto") return;
    const std::string problem = number(word);
    if (!problem.empty()) throw CLI::ValidationError(flag + ": " + problem + ", nor auto");
    value->value = std::stoi(word);
  };
  return *verb.add_option_function<std::string>(flag, take, text)->type_name("N|auto");
}

data::LoadingChoice choose_for_reading(const spec::Loader& wish, const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options) {
  // Nothing trains on these cores, and nothing else is launched from one of them.
  const data::LoadingLimits limits{.cores = usable_cores(), .trains_on_them = true};
  return data::decide_loading(wish, pipeline, options, limits, /*step_s=*/0, steady_clock());
}

}  // namespace trainctl::app
