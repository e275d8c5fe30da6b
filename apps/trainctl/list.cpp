#include "cli/verb.hpp"
#include "config/schema/dump.hpp"
#include "spec/plugins.hpp"

namespace trainctl::app {
namespace {

std::string suggestion(const std::string& word, const std::vector<std::string>& words,
                       const char* all = "there are: ") {
  const auto found = nearest(word, words);
  return found ? fmt::format("did you mean '{}'?", *found) : all + join(words, ", ");
}

// Returns the kinds in the order of the experiment file, followed by kinds not listed here.
std::vector<std::string> kinds_in_order(const config::Vocabulary& vocabulary) {
  constexpr std::array kOrder{"dataset",   "transform", "model",   "layer",  "loss",
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
    ENSURE(config, std::ranges::find(kinds, wanted) != kinds.end(), "unknown kind '{}'; {}",
           printable(wanted), suggestion(wanted, kinds, "the kinds are: "));
    kinds = {wanted};
  }
  if (context.json) return print_json(document(vocabulary, kinds));
  for (const std::string& kind : kinds) print_kind(vocabulary, kind);
  return 0;
}

Json schema_of_type(const config::Vocabulary& vocabulary, const std::string& kind,
                    const std::string& name) {
  const config::StageType* stage = vocabulary.find(kind, name);
  ENSURE(config, stage != nullptr, "unknown {} '{}'; {}", kind, printable(name),
         suggestion(name, vocabulary.names(kind)));
  return config::json_schema(*stage, vocabulary);
}

// Returns a schema that accepts any type of the kind.
Json schema_of_kind(const config::Vocabulary& vocabulary, const std::string& kind) {
  Json types = Json::array();
  Json definitions;
  for (const std::string& name : vocabulary.names(kind)) {
    Json one = schema_of_type(vocabulary, kind, name);
    one.erase("$schema");
    definitions = one["$defs"];
    one.erase("$defs");
    types.push_back(std::move(one));
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", kind},
          {"oneOf", types},
          {"$defs", definitions}};
}

Json schema_for(const std::string& wanted) {
  const config::Vocabulary& vocabulary = spec::vocabulary_in_use();
  if (wanted.empty()) return config::json_schema(spec::experiment_schema(), vocabulary);
  const std::size_t slash = wanted.find('/');
  const std::string kind = wanted.substr(0, slash);
  const std::vector<std::string> kinds = vocabulary.kinds();
  ENSURE(config, std::ranges::find(kinds, kind) != kinds.end(), "unknown kind '{}'; {}",
         printable(kind), suggestion(kind, kinds));
  return slash == std::string::npos ? schema_of_kind(vocabulary, kind)
                                    : schema_of_type(vocabulary, kind, wanted.substr(slash + 1));
}

struct SchemaArguments {
  std::string wanted;
  std::vector<std::string> plugins;
};

int show_schema(const SchemaArguments& arguments, const Context& context) {
  use_plugin_files(arguments.plugins);
  const Json schema = schema_for(arguments.wanted);
  print_json(context.json ? Json{{"schema", "trainctl.schema/2"}, {"json_schema", schema}}
                          : schema);
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

void add_schema(CLI::App& program, Context& context) {
  const auto [verb, arguments] =
      add_verb(program, context,
               {"schema", "print the JSON Schema of experiment files, for editors", kConfigGroup},
               show_schema);
  add_options(verb, {{"stage", arguments.wanted, "[KIND[/TYPE]]",
                      "stage, for example optimizer or optimizer/adam (default: the whole file)"}});
  add_plugin_option(verb, arguments.plugins);
}

}  // namespace trainctl::app
