#include "config/explain.hpp"

#include "context.hpp"
#include "spec/load.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace trainctl::app {
namespace {

int explain(const std::string& key, const Context& context) {
  const config::Explanation found =
      config::explain(key, spec::experiment_schema(), spec::builtin_vocabulary());
  if (!context.json) {
    put(stdout, config::to_text(found));
    return 0;
  }
  Json document = {{"schema", "trainctl.explain/1"}};
  document.update(config::to_json(found));
  print_json(document);
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, Context& context) {
  const auto key = std::make_shared<std::string>();
  CLI::App& verb =
      add_verb(program, context,
               {"explain", "a key's type, default, bounds, meaning and an example", kConfigGroup},
               [key, &context] { return explain(*key, context); });
  verb.add_option("key", *key,
                  "trainer.max_epochs, optimizer, optimizer.adam, optimizer.adam.lr ...")
      ->required()
      ->type_name("KEY");
}

}  // namespace trainctl::app
