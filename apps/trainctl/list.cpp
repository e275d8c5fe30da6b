#include "cli/verb.hpp"
#include "spec/plugins.hpp"

namespace trainctl::app {
namespace {

// Returns the kinds in the order of the experiment file, followed by kinds not listed here.
std::vector<std::string> kinds_in_order(const config::Vocabulary& vocabulary) {
  constexpr std::array kOrder{"dataset",   "transform", "model",   "layer",  "task",  "loss",
                              "optimizer", "scheduler", "stopper", "metric", "logger"};
  const auto rank = [&](const std::string& kind) {
    return std::ranges::find(kOrder, kind) - kOrder.begin();
  };
  std::vector<std::string> kinds = vocabulary.kinds();
  std::ranges::stable_sort(kinds, {}, rank);
  return kinds;
}

Json document(const config::Vocabulary& vocabulary, const std::vector<std::string>& kinds) {
  Json all = Json::object();
  for (const std::string& kind : kinds) {
    Json& stages = all[kind] = Json::array();
    for (const std::string& name : vocabulary.names(kind)) {
      stages.push_back({{"name", name}, {"summary", vocabulary.find(kind, name)->schema.summary}});
    }
  }
  return {{"schema", "trainctl.list/2"}, {"kinds", all}};
}

void print_kind(const config::Vocabulary& vocabulary, const std::string& kind) {
  print(kind + ":");
  for (const std::string& name : vocabulary.names(kind)) {
    print(fmt::format("  {:<32}{}", name, vocabulary.find(kind, name)->schema.summary));
  }
}

struct ListArguments {
  std::string kind;
  std::vector<std::string> plugins;
};

int list(const ListArguments& arguments, const Context& context) {
  use_plugin_files(arguments.plugins);
  const std::string& wanted = arguments.kind;
  const config::Vocabulary& vocabulary = spec::vocabulary_in_use();
  std::vector<std::string> kinds = kinds_in_order(vocabulary);
  if (!wanted.empty()) {
    const bool known = std::ranges::find(kinds, wanted) != kinds.end();
    const auto near = nearest(wanted, kinds);
    ENSURE(config, known, "unknown kind '{}'; {}", printable(wanted),
           near ? fmt::format("did you mean '{}'?", *near) : "the kinds are: " + join(kinds, ", "));
    kinds = {wanted};
  }
  if (context.json) return print_json(document(vocabulary, kinds));
  for (const std::string& kind : kinds) print_kind(vocabulary, kind);
  return 0;
}

}  // namespace

void add_list(CLI::App& program, Context& context) {
  const auto [verb, arguments] =
      add_verb(program, context,
               {"list", "list the stages: data sets, transforms, models, losses, optimizers, ...",
                kConfigGroup},
               list);
  add_options(verb,
              {{"kind", arguments.kind, "[KIND]",
                "only this kind: dataset, transform, model, layer, loss, optimizer, scheduler, "
                "stopper, metric"}});
  add_plugin_option(verb, arguments.plugins);
}

}  // namespace trainctl::app
