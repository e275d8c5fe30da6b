#include "spec/load.hpp"

#include "config/reader.hpp"
#include "spec/check_data.hpp"
#include "spec/checker.hpp"

#include <utility>

namespace trainctl::spec {
namespace {

Loaded typed(config::LoadedTree tree, config::Diagnostics& diagnostics) {
  Loaded loaded{.experiment = {}, .tree = std::move(tree.tree), .files = std::move(tree.files)};
  if (loaded.tree.broken) return loaded;
  config::Reader reader(builtin_vocabulary(), diagnostics);
  reader.object(loaded.tree, experiment_schema(), "the experiment", &loaded.experiment);
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_monitors(checker);
  check_stages(checker);
  check_trainer(checker);
  return loaded;
}

config::Grammar grammar() { return {&experiment_schema(), &builtin_vocabulary()}; }

Loaded checked(Loaded loaded, config::Diagnostics& diagnostics) {
  check_against_data(loaded, std::nullopt, diagnostics);
  diagnostics.throw_if_errors();
  return loaded;
}

}  // namespace

Loaded read_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics) {
  return typed(config::load_tree(file, overrides, diagnostics, grammar()), diagnostics);
}

Loaded load_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics) {
  return checked(read_experiment(file, overrides, diagnostics), diagnostics);
}

Loaded load_experiment_text(const std::string& name, std::string_view text,
                            const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics) {
  return checked(
      typed({config::load_text(name, text, overrides, diagnostics, grammar()), {}}, diagnostics),
      diagnostics);
}

}  // namespace trainctl::spec
