#include "config/explain.hpp"

#include "base/error.hpp"
#include "context.hpp"
#include "plugin_option.hpp"
#include "report/bottleneck_page.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

struct ExplainArguments {
  std::string key;
  std::vector<std::string> plugins;
  bool bottlenecks = false;
};

int explain_bottlenecks(const Context& context) {
  if (context.json) {
    print_json({{"schema", "trainctl.bottlenecks/1"}, {"rules", report::bottlenecks_json()}});
  } else {
    put(stdout, report::bottlenecks_page());
  }
  return 0;
}

int explain(const ExplainArguments& arguments, const Context& context) {
  ENSURE(config, arguments.key.empty() == arguments.bottlenecks,
         "explain takes one KEY, as in 'trainctl explain optimizer.adam.lr', or --bottlenecks");
  if (arguments.bottlenecks) return explain_bottlenecks(context);
  use_plugin_files(arguments.plugins);
  const config::Explanation found =
      config::explain(arguments.key, spec::experiment_schema(), spec::vocabulary_in_use());
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
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App& verb =
      add_verb(program, context,
               {"explain", "a key's type, default, bounds, meaning and an example", kConfigGroup},
               [arguments, &context] { return explain(*arguments, context); });
  verb.add_option("key", arguments->key,
                  "trainer.max_epochs, optimizer, optimizer.adam, optimizer.adam.lr ...")
      ->type_name("KEY");
  verb.add_flag("--bottlenecks", arguments->bottlenecks,
                "what holds runs up: symptoms, diagnoses, fixes");
  add_plugin_option(verb, arguments->plugins);
}

}  // namespace trainctl::app
