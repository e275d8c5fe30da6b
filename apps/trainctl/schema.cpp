#include "cli/verb.hpp"
#include "config/schema/dump.hpp"
#include "spec/plugins.hpp"

namespace trainctl::app {
namespace {

std::string suggestion(const std::string& word, const std::vector<std::string>& words) {
  const auto found = nearest(word, words);
  return found ? fmt::format("did you mean '{}'?", *found) : "there are: " + join(words, ", ");
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
