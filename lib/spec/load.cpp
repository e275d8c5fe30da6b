#include "spec/load.hpp"

#include "config/reader.hpp"
#include "spec/checker.hpp"

#include <utility>

namespace trainctl::spec {
namespace {

void check(const Loaded& loaded, config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_monitors(checker);
  check_scheduler(checker, schedule_length(loaded.experiment, std::nullopt, 1));
  check_stages(checker);
  check_trainer(checker);
}

Loaded typed(config::LoadedTree tree, config::Diagnostics& diagnostics) {
  Loaded loaded{.experiment = {}, .tree = std::move(tree.tree), .files = std::move(tree.files)};
  if (!loaded.tree.broken) {
    config::Reader reader(builtin_vocabulary(), diagnostics);
    reader.object(loaded.tree, experiment_schema(), "the experiment", &loaded.experiment);
    check(loaded, diagnostics);
  }
  diagnostics.throw_if_errors();
  return loaded;
}

}  // namespace

Loaded load_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics) {
  return typed(config::load_tree(file, overrides, diagnostics), diagnostics);
}

Loaded load_experiment_text(const std::string& name, std::string_view text, const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics) {
  return typed({config::load_text(name, text, overrides, diagnostics), {}}, diagnostics);
}

}  // namespace trainctl::spec
